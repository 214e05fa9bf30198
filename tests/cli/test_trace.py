"""`trace`: the table, its mark, and what is refused."""

import pytest

SIDES = ("fixtures/quickstart/reference.yaml", "fixtures/quickstart/candidate.yaml")


def test_the_first_step_that_departs_is_marked(rmsaudit):
    ran = rmsaudit("trace", *SIDES, "--category", "near-eps", "--row", "3")
    assert ran.code == 0
    marked = [line for line in ran.out.splitlines() if line.startswith("> ")]
    assert [line.split("  ")[0] for line in marked] == ["> mean square and eps"]
    assert "near-eps: row 3, column " in ran.out
    assert "The first step that departs is mean square and eps" in ran.out


def test_equal_sides_depart_nowhere(rmsaudit):
    assert "No step of this row departs." in rmsaudit("trace", SIDES[0], SIDES[0], "--category", "ordinary").out


def test_one_side_alone_stands_beside_the_oracle(rmsaudit):
    ran = rmsaudit("trace", SIDES[0], "--category", "near-eps", "--column", "5")
    assert "candidate" not in ran.out
    assert "oracle of the reference" in ran.out


def test_values_come_with_their_bits_and_dtype(rmsaudit):
    out = rmsaudit("trace", SIDES[0], "--category", "constant", "--row", "0", "--column", "0").out
    assert "bfloat16" in out
    assert "0x1." in out


def test_a_case_is_found_by_its_label(rmsaudit):
    assert "gains, case near 0: row " in rmsaudit("trace", *SIDES, "--category", "gains", "--case", "near 0").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--category", "near-eps", "--row", "99"), "there is no row 99: the case has 16"),
        (("--category", "gains", "--case", "none"), "the cases of gains: zero, negative"),
        (("--category", "near"), "near-eps"),
    ],
)
def test_a_place_that_is_not_there_is_refused(rmsaudit, words, says):
    ran = rmsaudit("trace", *SIDES, *words)
    assert ran.code == 2
    assert says in ran.err


def test_both_files_are_read_before_anything_is_said(rmsaudit):
    ran = rmsaudit("trace", "a.yaml", "b.yaml", "--category", "tiny")
    assert ran.code == 2
    assert "a.yaml" in ran.err
    assert "b.yaml" in ran.err


def test_code_needs_consent(rmsaudit):
    side = "fixtures/field/k4-b24-between-versions/{}.yaml"
    files = side.format("reference"), side.format("candidate")
    assert "--allow-code" in rmsaudit("trace", *files, "--category", "tiny").err
    ran = rmsaudit("trace", *files, "--category", "tiny", "--allow-code")
    assert "> returned" in ran.out
