"""Elements that the quick steps could lose: at the seams between paths, at ties, and where a bound is rounded."""

from fractions import Fraction

import numpy as np
import pytest

from rmsaudit.arrays import Array, round_to
from rmsaudit.measure import frontier, measurement, prefilter
from rmsaudit.measure.dense import DensePath
from rmsaudit.measure.limits import Limit
from rmsaudit.measure.prefilter import Prefilter
from rmsaudit.measure.statistics import measure
from rmsaudit.measure.tally import Tally
from rmsaudit.measure.violations import count_violations


def background(dtype: type[np.floating], step: float) -> tuple[Array, Array]:
    """8192 elements that differ by a relative `step`, enough for the quick path."""
    reference = 1 + np.arange(8192).reshape(1, -1) / 8192
    return reference.astype(dtype), (reference * (1 + step)).astype(dtype)


def rounded_alike(bits: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Two pairs (reference, d) whose quotients round alike in a format of so many bits; the second has the larger one.

    (n/2 − 3)/(n − 3) < (n/2 − 2)/(n − 1) with n = 2^bits: they differ by 3/n² or so, and an ulp there is 1/2n.
    """
    n = 2.0**bits
    return (n - 3, n / 2 - 3), ((n - 1) / 4, (n / 2 - 2) / 4)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, 24), (np.float64, 53)])
@pytest.mark.parametrize("at", [(5, 7000), (7000, 5), (1, 2)])
def test_a_larger_quotient_that_rounds_to_a_tie_is_not_lost(
    dtype: type[np.floating], bits: int, at: tuple[int, int]
) -> None:
    reference, candidate = background(dtype, 2.0 ** (10 - bits))
    for column, (magnitude, error) in zip(at, rounded_alike(bits), strict=True):
        reference[0, column], candidate[0, column] = magnitude, magnitude - error
    quotients = (reference - candidate)[0, at] / reference[0, at]
    assert quotients[0] == quotients[1] < 0.5
    found = measure(reference, candidate)
    wanted = [(abs(reference[0, column]), abs(candidate[0, column] - reference[0, column])) for column in at]
    assert list(found.frontier) == wanted
    assert [element.column for element in (found.largest_abs, found.largest_rel) if element] == list(at)


def test_quotients_that_round_alike_are_told_apart_on_the_general_path_too() -> None:
    filtered = Prefilter()
    reference, error = np.array([*rounded_alike(53), *[(2.0**53, 1.0)] * 2000]).T
    filtered.offer(error, reference, np.arange(reference.size))
    assert filtered.kept.at.tolist() == [0, 1]


@pytest.mark.parametrize("factor", [0.0, 2.0, -1.0, 1.5])
def test_of_elements_off_by_one_exact_factor_the_largest_stands_for_all(factor: float) -> None:
    filtered, magnitude = Prefilter(), np.random.default_rng(0).random(5000).astype(np.float32).astype(np.float64)
    error = np.abs(factor * magnitude - magnitude)
    filtered.offer(error, magnitude, np.arange(5000))
    assert filtered.kept.at.tolist() == [error.argmax()]


@pytest.fixture
def short_frontiers(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (frontier, measurement, prefilter):
        monkeypatch.setattr(module, "MOST", 40)


@pytest.mark.usefixtures("short_frontiers")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_frontier_that_grows_too_long_is_thinned_and_stays_safe(dtype: type[np.floating]) -> None:
    """3 · x rounded: every larger d over a smaller quotient, for a good part of all elements."""
    reference = np.random.default_rng(1).uniform(1, 2, (100, 200)).astype(dtype)
    candidate = reference * dtype(3)
    errors = candidate.astype(np.float64) - reference.astype(np.float64)
    pairs = zip(reference.ravel().tolist(), errors.ravel().tolist(), strict=True)
    steepest = max(Fraction(error) / Fraction(magnitude) for magnitude, error in pairs)
    found = measure(reference, candidate)
    parts = measure(reference[:30], candidate[:30]).merge(measure(reference[30:], candidate[30:], first_row=30))
    for thin in (found, parts):
        assert len(thin.frontier) <= 40
        assert not thin.frontier_exact
        assert not thin.points_exact
        assert thin.max_abs_error == errors.max()
        # Of quotients that close, any may stay.
        assert Fraction(thin.max_rel_error) >= steepest * (1 - Fraction(2) ** -52)
        smallest = thin.smallest_passing
        assert smallest is not None
        assert smallest.rtol_at_atol_0 is not None
        assert count_violations(reference, candidate, Limit(rule="sum", rtol=smallest.rtol_at_atol_0)) == 0
    for _ in range(200):
        point = found.frontier[np.random.default_rng(_).integers(len(found.frontier))]
        nudge = 1 + np.random.default_rng(_).normal() * 2.0 ** -(np.finfo(dtype).nmant + 2)
        limit = Limit(rule="either", atol=float(point.abs_error * nudge * 0.999), rtol=float(2 * nudge))
        for thin in (found, parts):
            assert not thin.passes(limit) or count_violations(reference, candidate, limit) == 0


@pytest.mark.usefixtures("short_frontiers")
def test_the_largest_quotient_is_known_even_where_joined_neighbours_round_beyond_it() -> None:
    """199 points with one d or nearly, whose quotients rise to within 2^-105 of the last one's, which is the larger."""
    (magnitude, error), (steeper, smaller) = (np.array(pair) * 2.0**-53 for pair in rounded_alike(53))
    rising = magnitude * 2.0 ** (np.arange(198, -1, -1) / 5)
    errors = error * (1 + np.arange(198, -1, -1) * 2.0**-45)
    filtered = Prefilter()
    filtered.offer(np.append(errors, smaller), np.append(rising, steeper), np.arange(200))
    assert not filtered.exact
    filtered.offer(np.array([0.01]), np.array([0.1]), np.array([200]))
    assert filtered.steepest.at.tolist() == [199]


@pytest.mark.usefixtures("short_frontiers")
def test_two_short_frontiers_can_make_one_that_is_thinned() -> None:
    reference = np.random.default_rng(3).uniform(1, 2, (2, 300)).astype(np.float32)
    one, other = (measure(reference[[row]], reference[[row]] * np.float32(3), first_row=row) for row in (0, 1))
    assert one.frontier_exact
    assert other.frontier_exact
    assert len(one.frontier) + len(other.frontier) > 42
    merged = one.merge(other)
    assert len(merged.frontier) <= 40
    assert not merged.frontier_exact


def test_a_record_gets_no_more_points_than_a_reader_can_skip() -> None:
    reference = np.random.default_rng(2).uniform(1, 2, (16, 256)).astype(np.float32)
    found = measure(reference, reference * np.float32(3))
    assert len(found.frontier) > 100
    assert found.frontier_exact
    assert not found.points_exact
    assert len(found.points) <= 32
    assert (found.points[0], found.points[-1]) == (found.frontier[0], found.frontier[-1])


def test_the_first_of_equal_elements_is_named_by_the_quick_path_as_well() -> None:
    reference, candidate = (round_to(side.astype(np.float64), "bfloat16") for side in background(np.float32, 2.0**-7))
    reference[0, [33, 64, 6000]], candidate[0, [33, 64, 6000]] = 1.0, 1.25  # of all quotients the largest
    reference[0, 7000], candidate[0, 7000] = 64.0, 65.0  # of all errors the largest
    found = measure(reference, candidate)
    assert [element.column for element in (found.largest_abs, found.largest_rel) if element] == [7000, 33]
    assert len(found.frontier) == 2


@pytest.mark.parametrize("error", [1 - 2.0**-40, 1 + 2.0**-40])
def test_a_corner_that_the_screening_dtype_cannot_hold_hides_nothing(error: float) -> None:
    """It stands for all but an element whose d is 1, which is less or more by far less than float32 resolves."""
    reference, candidate = background(np.float32, 2.0**-20)
    reference[0, 4000], candidate[0, 4000] = 4.0, 5.0
    small = np.float32([abs(1 - error) * np.sign(1 - error)])  # candidate 1 − small is not float32, so 1 it is
    tally = Tally(np.append(reference, small), np.append(candidate, np.float32(1)))
    tally.examine(np.array([8192]), small, np.float32([1]))
    assert tally.prefilter.kept.error.tolist() == [error]
    dense = DensePath(tally)
    with np.errstate(all="ignore"):
        assert dense.examine(0, np.not_equal(reference, candidate)[0])
        dense.settle()
    assert sorted(tally.prefilter.kept.at.tolist()) == ([4000, 8192] if error < 1 else [8192])


def test_the_order_in_which_a_tally_is_shown_elements_does_not_matter() -> None:
    reference = np.float32([0, 1, 2, 0, np.nan, 0, 4, np.inf, 3])
    candidate = np.float32([1, 2, 4, 1, 1, -1, 8, 1, 6])
    tallies = []
    for order in (range(9), range(8, -1, -1)):
        tally = Tally(reference, candidate)
        for at in order:
            with np.errstate(all="ignore"):
                tally.examine(np.array([at]), reference[[at]], candidate[[at]])
        tallies.append(tally)
    for name in ("max_ulp_at", "zero_at", "mismatched_at", "zero_reference", "mismatched", "differing", "max_ulp"):
        assert getattr(tallies[0], name) == getattr(tallies[1], name)
    assert (tallies[0].zero_at, tallies[0].mismatched_at) == (0, 4)


def test_a_block_with_a_few_unusual_elements_stays_on_the_quick_path() -> None:
    reference, candidate = (side.reshape(-1) for side in background(np.float32, 2.0**-20))
    reference[1:5] = 0, np.nan, 0, np.inf
    candidate[1:3] = 0, np.nan  # equal, equally odd; then a zero and an infinity beside something else
    tally = Tally(reference, candidate)
    left = reference.view(np.uint32) != candidate.view(np.uint32)
    with np.errstate(all="ignore"):
        assert DensePath(tally).examine(0, left)
    assert np.flatnonzero(left).tolist() == [2, 3, 4]


def test_an_unusual_element_hides_no_other_one_of_its_column() -> None:
    reference, candidate = background(np.float32, 2.0**-20)
    columns = 8192 // 32
    reference[0, 0], candidate[0, 0] = 4.0, 4.8  # stands for all the others
    reference[0, 5] = candidate[0, 5] = np.nan
    candidate[0, 5 + columns] = reference[0, 5 + columns] * 1.25
    found = measure(reference, candidate)
    assert found.largest_rel is not None
    assert found.largest_rel.column == 5 + columns


def test_a_block_whose_first_elements_are_equal() -> None:
    reference, candidate = background(np.float32, 2.0**-20)
    candidate[0, :6000] = reference[0, :6000]
    found = measure(reference, candidate)
    assert found.largest_abs is not None
    assert found.largest_abs.column >= 6000
