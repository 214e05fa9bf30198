"""Against sums of fractions."""

from fractions import Fraction

import numpy as np
import pytest

from rmsaudit.inversion.sum_of_squares import sum_of_squares

RNG = np.random.default_rng(2)
ROWS = {
    "float32": RNG.standard_normal((6, 300)).astype(np.float32),
    "float64": RNG.standard_normal((6, 300)),
    "mixed scales": RNG.standard_normal((6, 300)) * np.exp2(RNG.integers(-60, 60, (6, 300))),
    "subnormal float32": np.full((2, 9), 1e-45, dtype=np.float32),
    "one element": np.array([[3.0], [-0.1]]),
}


@pytest.mark.parametrize("kind", ROWS)
def test_the_exact_sum_is_enclosed_closely(kind):
    x = ROWS[kind]
    lo, hi = sum_of_squares(x)
    for row, low, high in zip(x, lo, hi, strict=True):
        exact = sum(Fraction(float(value)) ** 2 for value in row)
        assert Fraction(float(low)) <= exact <= Fraction(float(high))
        assert high - low <= 8 * np.spacing(high)


def test_zeros_have_no_sum_and_what_leaves_float64_no_upper_end():
    lo, hi = sum_of_squares(np.array([[0.0, 0.0], [1e200, 1.0], [1e-200, 0.0]]))
    assert (lo[0], hi[0]) == (0, 0)
    assert hi[1] == np.inf
    assert lo[2] == 0
    assert hi[2] > 0
