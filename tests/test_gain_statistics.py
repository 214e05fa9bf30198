"""Statistics of gains against fractions.Fraction."""

from fractions import Fraction
from math import inf, nan

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.gain_statistics import doubt_about, statistics


def test_values() -> None:
    gain = np.array([0.5, -0.25, 0.0, -0.0, 1.5], ml_dtypes.bfloat16)
    found = statistics(gain)
    exact = [Fraction(float(value)) for value in gain]
    assert (found.smallest, found.largest) == (-0.25, 1.5)
    assert found.mean == float(sum(exact) / 5)  # few bits each, so that only the quotient is rounded
    assert found.rms**2 == pytest.approx(float(sum(value * value for value in exact) / 5), rel=1e-15)
    assert (found.count, found.zeros, found.negatives, found.nonfinite) == (5, 2, 1, 0)


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    found = statistics(np.array([nan, inf, -inf, 2.0], np.float32))
    assert (found.nonfinite, found.mean, found.rms, found.smallest, found.largest) == (3, 2.0, 2.0, 2.0, 2.0)
    nothing = statistics(np.array([nan], np.float32))
    assert (nothing.mean, nothing.rms, nothing.smallest, nothing.largest) == (0.0, 0.0, inf, -inf)


def test_merged_is_of_both_together() -> None:
    one, other = np.array([0.5, nan, -1.0], np.float32), np.array([[0.0, 4.0]], np.float16)
    assert statistics(one).merge(statistics(other)) == statistics(np.concatenate([one, other.astype(np.float32)[0]]))


@pytest.mark.parametrize(
    ("gain", "offset", "says"),
    [
        ([0.3, -0.1, 0.2, -0.2], 0, "as if 1 had not been added"),
        ([0.3, 0.1, 0.2, 0.2], 0, None),  # small gains, none of them below 0
        ([1.3, 0.9, 1.2, 0.8], 0, None),
        ([1.3, 0.9, 1.2, 0.8], 1, "as if 1 had been added before"),
        ([0.3, -0.1, 0.2, -0.2], 1, None),
        ([3.0, 4.0, 5.0, 6.0], 1, None),
    ],
)
def test_doubts(gain: list[float], offset: float, says: str | None) -> None:
    assert doubt_about(statistics(np.array(gain)), offset) == says
