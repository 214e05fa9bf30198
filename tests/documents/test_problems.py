"""Wording: nearest words, and foreign text in messages."""

import pytest

from rmsaudit.documents.nodes import Mark
from rmsaudit.documents.problems import MOST_PROBLEMS, Problems, did_you_mean, nearest, quoted
from rmsaudit.errors import InputProblem


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("cast_pont", ["cast_point", "compute_dtype"], ["cast_point"]),
        ("epsilon", ["eps_min", "eps", "eps_dtype"], ["eps"]),
        ("eps_mim", ["eps_min", "eps"], ["eps_min"]),
        ("BF61", ["f16", "bf16", "BF16"], ["bf16"]),  # case is no difference; the first of equals
        ("zzz", ["eps"], []),
        ("e" * 1000, ["e" * 1000], []),  # too long to be looked at
    ],
)
def test_nearest(word: str, known: list[str], found: list[str]) -> None:
    assert nearest(word, known) == found
    assert did_you_mean(word, known) == (f"did you mean `{found[0]}`?" if found else "")


def test_several_nearest_come_in_order() -> None:
    assert nearest("layers.1.norm", ["layers.1.nrom", "head", "layers.1.norm2", "layers.2.norm"], 2) == [
        "layers.1.norm2",
        "layers.1.nrom",
    ]


def test_quoted_text_is_short_printable_and_on_one_line() -> None:
    assert quoted("a b") == "`a b`"
    assert quoted("é") == "`é`"
    assert quoted("a\nb\x1b") == r"`a\nb\x1b`"
    assert quoted("x" * 101) == f"`{'x' * 99}…`"


def test_problems_are_reported_together_in_file_order() -> None:
    problems = Problems("f.yaml")
    problems.raise_any()  # nothing yet
    problems.add(Mark(2, 1), "second", "k")
    problems.add(Mark(1, 5), "first", "k")
    problems.add(None, "of the file", "k")
    with pytest.raises(InputProblem) as caught:
        problems.raise_any()
    assert str(caught.value) == "f.yaml: of the file [k]\nf.yaml:1:5: first [k]\nf.yaml:2:1: second [k]"


def test_the_last_problem_that_fits_ends_the_reading() -> None:
    problems = Problems("f.yaml")
    for line in range(1, MOST_PROBLEMS):
        problems.add(Mark(line, 1), "one more", "k")
    with pytest.raises(InputProblem, match="there is more"):
        problems.add(Mark(MOST_PROBLEMS, 1), "one too many", "k")
