"""What one gain tensor is of another; the tensors are made by hand."""

import numpy as np
import pytest

from rmsaudit import gains
from rmsaudit.arrays import round_to

STORED = np.array([0.25, -0.5, 0.125, 0.75, -0.0625], dtype=np.float32)


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        (STORED, "equal"),
        (STORED + 1, "larger by 1 in every column"),
        (STORED - 1, "smaller by 1 in every column"),
        (np.ones_like(STORED), "all ones"),
        (np.zeros_like(STORED), "all zeros"),
        (np.abs(STORED), "without their signs"),
        (-STORED, "every sign is reversed"),
        (STORED[::-1], "reverse order"),
        (np.roll(STORED, 1), "moved on by one column"),
        (STORED[[2, 0, 1, 4, 3]], "in another order"),
        (STORED[:3], "of another width"),
    ],
)
def test_a_relation_is_named(candidate, says):
    assert says in gains.compare(STORED, candidate)


def test_rounded_gains_are_named_with_their_dtype():
    fine = np.array([1 / 3, 0.1, 0.7], dtype=np.float32)
    assert gains.compare(fine, round_to(fine, "bfloat16")) == "the reference's, rounded to bfloat16"
    assert (
        gains.compare(round_to(fine, "bfloat16"), fine) == "more exact: the reference's are these, rounded to bfloat16"
    )
    assert gains.compare(fine, round_to(fine + 1, "bfloat16")) == "larger by 1 in every column, rounded to bfloat16"


def test_gains_with_nothing_in_common_get_no_relation():
    assert gains.compare(STORED, np.array([1.5, 2.5, 0.1, 9, 4], dtype=np.float32)) is None


def test_a_mean_near_one_under_an_offset_of_one_is_noted():
    assert "+1.11" in gains.looks_shifted(STORED + 1, 1.0)
    assert gains.looks_shifted(STORED, 1.0) is None  # the twin: stored around 0
    assert gains.looks_shifted(STORED + 1, 0.0) is None
