from statistics import median_low

import numpy as np
import pytest

from rmsaudit.arrays import Array
from rmsaudit.measure.measurement import ROWS_KEPT
from rmsaudit.measure.row_factors import row_factors


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def test_rows_scaled_by_a_factor_show_it_without_a_spread() -> None:
    reference = normal(3, 100)
    found = row_factors(reference, reference * np.array([[0.5], [1.0], [4.0]]))  # powers of two: exact
    assert (found.rows, found.min, found.median, found.max, found.spread) == (3, 0.5, 1.0, 4.0, 0.0)


def test_the_median_is_the_lower_one_over_non_zero_references_and_finite_pairs() -> None:
    reference = np.array([[1.0, 2.0, 4.0, 0.0, np.nan, 1.0, 1.0]])
    candidate = np.array([[3.0, 4.0, 4.0, 9.0, 1.0, np.inf, 5.0]])
    assert row_factors(reference, candidate).median == median_low([3.0, 2.0, 1.0, 5.0])


def test_a_few_odd_columns_do_not_move_the_spread_and_a_tenth_does() -> None:
    reference = np.ones((1, 200))
    few, tenth = np.ones((2, 1, 200))
    few[0, :9], tenth[0, :20] = 7.0, 7.0
    assert row_factors(reference, few).spread == 0.0
    assert row_factors(reference, tenth).spread == 6.0


def test_a_row_without_a_usable_column_has_no_factor() -> None:
    zeros = row_factors(np.zeros((2, 3)), np.ones((2, 3)))
    assert (zeros.rows, zeros.min, zeros.median, zeros.max, zeros.spread) == (2, None, None, None, None)
    assert row_factors(np.zeros((0, 3)), np.zeros((0, 3))).rows == 0


def test_quotients_beyond_float64_stay_finite() -> None:
    found = row_factors(np.array([[5e-324, 5e-324]]), np.array([[1e300, -1e300]]))
    assert found.median == -np.finfo(np.float64).max
    assert found.spread == np.finfo(np.float64).max


@pytest.mark.parametrize("width", [257, 1000, 4096, 16384])
def test_wide_rows_are_looked_at_in_runs_from_end_to_end(width: int) -> None:
    reference = normal(2, width)
    candidate = 2 * reference
    assert row_factors(reference, candidate).median == 2.0
    candidate[:, -16:] = 0  # the last run
    candidate[:, :16] = 0  # the first
    assert row_factors(reference, candidate).spread == 2.0  # two of sixteen runs are more than a tenth


def test_of_many_rows_an_even_spread_is_kept_and_parts_merge_to_it() -> None:
    rows = 40 * ROWS_KEPT
    reference = np.ones((rows, 2))
    candidate = np.arange(1, rows + 1.0)[:, None] * reference
    whole = row_factors(reference, candidate, case="c", first_row=5)
    assert (whole.rows, len(whole.kept)) == (rows, ROWS_KEPT)
    gaps = np.diff([0, *whole.factors, rows + 1])
    assert gaps.max() < 2.7 * rows / ROWS_KEPT  # multiples of the golden ratio: no gap is wider than φ² shares
    cut = 3 * ROWS_KEPT + 7
    first = row_factors(reference[:cut], candidate[:cut], case="c", first_row=5)
    rest = row_factors(reference[cut:], candidate[cut:], case="c", first_row=5 + cut)
    assert first.merge(rest) == rest.merge(first) == whole


def test_bfloat16_and_float32_sides_are_divided_exactly_enough() -> None:
    import ml_dtypes

    reference = np.array([[3.0, 1.0]], ml_dtypes.bfloat16)
    assert row_factors(reference, np.array([[1.0, 1.0]], np.float32)).median == 1 / 3
