"""Files that say which norm is which."""

from pathlib import Path

import pytest

from rmsaudit.documents.sites.names import read_names
from rmsaudit.errors import InputProblem


def test_reference_name_by_candidate_name(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text("blk.0.attn_norm: model.layers.0.input_layernorm\noutput_norm: model.norm\n", "utf-8")
    assert read_names(path) == {"blk.0.attn_norm": "model.layers.0.input_layernorm", "output_norm": "model.norm"}


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
