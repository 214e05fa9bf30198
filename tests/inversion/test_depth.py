"""Counts by hand, and as a bound on real sums of one sign."""

from fractions import Fraction

import numpy as np
import pytest

from rmsaudit.inversion.depth import depth
from rmsaudit.semantics.orders import sum_last_axis


@pytest.mark.parametrize(
    ("order", "terms", "additions"),
    [
        ("sequential", 1, 0),
        ("sequential", 100, 99),
        ("pairwise", 64, 6),
        ("pairwise", 100, 7),
        ("lanes:8", 64, 7 + 3),  # 8 each into a lane, then 8 lanes pairwise
        ("lanes:128", 64, 6),  # the empty lanes are zeros, which add nothing
        ("blocks:16", 64, 4 + 3),
        ("exact", 64, 1),
    ],
)
def test_by_hand(order, terms, additions):
    assert depth(order, terms) == additions


@pytest.mark.parametrize("order", ["sequential", "pairwise", "torch_cpu", "lanes:4", "blocks:10"])
@pytest.mark.parametrize("terms", [7, 33, 200])
def test_no_float16_sum_is_off_by_more(order, terms):
    rng = np.random.default_rng(terms)
    values = rng.uniform(0.5, 1.0, (40, terms)).astype(np.float16)
    found = sum_last_axis(values, order)[:, 0]
    limit = (1 + Fraction(1, 2**11)) ** depth(order, terms)
    for row, total in zip(values, found, strict=True):
        exact = sum(Fraction(float(value)) for value in row)
        assert exact / limit <= Fraction(float(total)) <= exact * limit


def test_fewer_additions_would_not_bound_them():
    """The twin: a running sum of ones in bfloat16 stops at 256, which only its own depth allows for."""
    import ml_dtypes

    ones = np.ones((1, 1000), dtype=ml_dtypes.bfloat16)
    total = float(sum_last_axis(ones, "sequential")[0, 0])
    assert total * (1 + 2.0**-8) ** depth("pairwise", 1000) < 1000 <= total * (1 + 2.0**-8) ** depth("sequential", 1000)
