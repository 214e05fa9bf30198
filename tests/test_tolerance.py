"""Which row judges, which rows tie, and which limits a format cannot express."""

import pytest
from pydantic import ValidationError

from rmsaudit.tolerance import RULES, Either, Policy, Sum, Ulp, When, inexpressible, ties


def ulp(**when):
    return Ulp(rule="ulp", max_ulp=1, when=When(**when))


@pytest.mark.parametrize(
    ("rows", "tied"),
    [
        ([ulp(), ulp()], True),
        ([ulp(), ulp(category="tiny")], False),
        ([ulp(category="tiny"), ulp(output_dtype="bfloat16")], True),
        ([ulp(category="tiny"), ulp(output_dtype="bfloat16"), ulp(category="tiny", output_dtype="bfloat16")], False),
        ([ulp(category="tiny"), ulp(category="large")], False),
        ([ulp(category="tiny", output_dtype="bfloat16"), ulp(category="tiny", output_dtype="float32")], False),
    ],
)
def test_two_rows_that_claim_a_cell_with_equal_right_tie(rows, tied):
    assert bool(ties(rows)) is tied


def test_short_dtype_words_mean_the_same_row():
    assert When(output_dtype="bf16") == When(output_dtype="bfloat16")
    assert ties([ulp(output_dtype="bf16"), ulp(output_dtype="bfloat16")])


def test_a_relative_limit_below_the_formats_resolution_is_named_with_the_smallest_that_makes_sense():
    assert "0.00390625" in inexpressible(Sum(rule="sum", atol=0.0, rtol=1e-5), "bfloat16")
    assert inexpressible(Sum(rule="sum", atol=0.0, rtol=0.00390625), "bfloat16") is None
    assert inexpressible(Sum(rule="sum", atol=0.0, rtol=1e-5), "float32") is None
    assert inexpressible(Either(rule="either", atol=1.0, rtol=0.0), "bfloat16") is None
    assert inexpressible(ulp(), "bfloat16") is None


def test_the_smallest_sensible_rtol_is_the_smallest_gap_between_neighbours():
    # the value just below 2 of bfloat16 is 2 - 2^-7; the gap relative to 2 is 2^-8
    assert (2 - (2 - 2.0**-7)) / 2 == 2.0**-8


@pytest.mark.parametrize("number", [-1.0, float("nan"), float("inf")])
def test_limits_that_could_never_fail_are_refused(number):
    with pytest.raises(ValidationError):
        Sum(rule="sum", atol=number, rtol=0.0)


def test_one_of_two_limits_is_not_enough():
    with pytest.raises(ValidationError):
        Sum(rule="sum", rtol=1e-5)


def test_a_policy_without_rules_is_refused():
    with pytest.raises(ValidationError):
        Policy(rules=())


def test_every_rule_says_when_it_passes():
    assert set(RULES) == {"sum", "either", "max", "ulp", "ratio", "exact"}
    assert all(rule.__doc__ for rule in RULES.values())
