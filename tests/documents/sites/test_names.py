"""Files that say which norm is which."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rmsaudit.documents.sites.names import Names, read_names
from rmsaudit.errors import InputProblem


def test_reference_name_by_candidate_name(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text("blk.0.attn_norm: model.layers.0.input_layernorm\noutput_norm: model.norm\n", "utf-8")
    assert read_names(path).pairs == {"blk.0.attn_norm": "model.layers.0.input_layernorm", "output_norm": "model.norm"}


def test_every_problem_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text("a: x\nb: [1, 2]\nc: x\nd: null\na: y\n", "utf-8")
    with pytest.raises(InputProblem) as refused:
        read_names(path)
    assert [(each.line, each.column, each.kind) for each in refused.value.problems] == [
        (2, 4, "wrong-shape"),
        (3, 4, "name-given-twice"),
        (4, 4, "not-text"),
        (5, 1, "duplicate-key"),
    ]


CANDIDATE = ("blk.0.attn_norm", "blk.1.attn_norm", "norm")
REFERENCE = ("layers.0.norm", "layers.1.norm", "norm")


@pytest.fixture
def names(tmp_path: Path) -> Callable[[str], Names]:
    def write(text: str) -> Names:
        (tmp_path / "names.yaml").write_text(text, "utf-8")
        return read_names(tmp_path / "names.yaml")

    return write


def test_names_that_norms_have_are_taken(names: Callable[[str], Names]) -> None:
    names("blk.0.attn_norm: layers.0.norm\nblk.1.attn_norm: layers.1.norm\n").check(CANDIDATE, REFERENCE)
    names("blk.0.attn_norm: norm\nnorm: layers.0.norm\n").check(CANDIDATE, REFERENCE)  # exchanged: both are named


@pytest.mark.parametrize(
    ("text", "line", "column", "kind", "says"),
    [
        ("blk.0.attn_nrm: norm\n", 1, 1, "unknown-name", "of the candidate is called `blk.0.attn_nrm`; did you mean"),
        ("norm: norm\nblk.0.attn_norm: nowhere\n", 2, 18, "unknown-name", "of the reference is called `nowhere`"),
        ("blk.0.attn_norm: norm\n", 1, 18, "name-given-twice", "the candidate has a norm called `norm` as well"),
    ],
)
def test_names_that_would_be_passed_over_are_refused(
    text: str, line: int, column: int, kind: str, says: str, names: Callable[[str], Names]
) -> None:
    """A name that no norm has would change nothing, and one that two norms have would lose one of them."""
    with pytest.raises(InputProblem) as refused:
        names(text).check(CANDIDATE, REFERENCE)
    (problem,) = refused.value.problems
    assert (problem.line, problem.column, problem.kind) == (line, column, kind)
    assert says in problem.says


def test_a_list_of_names_is_told_what_to_be(names: Callable[[str], Names]) -> None:
    with pytest.raises(InputProblem, match="names come as a mapping; write `candidate name: reference name`"):
        names("- blk.0.attn_norm\n")
