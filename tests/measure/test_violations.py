"""Two ways to a verdict, by counting elements and by the frontier's points, checked against whole numbers."""

from collections.abc import Callable
from fractions import Fraction
from math import inf, isfinite, nextafter
from random import Random
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import Array
from rmsaudit.measure.limits import Limit, Rule
from rmsaudit.measure.statistics import measure
from rmsaudit.measure.ulp import ulp_distance
from rmsaudit.measure.violations import count_violations

Pair = Callable[[str, str, int], tuple[Array, Array]]
SCALE = 2**1074  # every float64 is a whole multiple of 1 / SCALE


def whole(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * (SCALE // denominator)


def violates(limit: Limit, atol: int, rtol: int) -> Callable[[tuple[int, int]], bool]:
    """Whether an element (|reference|, d) is beyond the limit, all in whole multiples of 1 / SCALE."""
    if limit.rule == "sum":
        return lambda point: point[1] * SCALE > atol * SCALE + rtol * point[0]
    return lambda point: point[1] > atol and point[1] * SCALE > rtol * point[0]


def near_limits(points: list[tuple[float, float]], count: int) -> list[Limit]:
    """Limits at, one float64 below and one above what an element needs, where roundings would show."""
    random, found = Random(8), []
    for _ in range(count):
        magnitude, error = random.choice(points)
        rule: Rule = random.choice(["sum", "either", "max"])
        share = random.choice([0.0, 0.25, 0.5, 1.0, random.random()]) if rule == "sum" else 1.0
        atol = error * (1 - share) if rule == "sum" else random.choice([error, random.choice(points)[1], 0.0])
        rtol = error * share / magnitude if magnitude else random.random()
        atol, rtol = (nextafter(value, random.choice([0, value, inf])) for value in (atol, rtol))
        if isfinite(atol) and isfinite(rtol):
            found.append(Limit(rule=rule, atol=atol, rtol=rtol))
    return found


def adversarial(rng: np.random.Generator) -> tuple[Array, Array]:
    """Every larger d has a smaller quotient, so that all elements are on the frontier."""
    magnitude = np.sort(np.exp2(rng.random((1, 40)) * 20 - 10)).astype(np.float32)
    return magnitude, (magnitude + np.sqrt(magnitude) * 2.0**-6).astype(np.float32)


def ties(rng: np.random.Generator) -> tuple[Array, Array]:
    """Few values: equal errors, equal references, equal quotients."""
    return rng.choice([1, 2, 3, 0.75, 1e-3, 0.0], (2, 4, 30)).astype(np.float32)


def spread(rng: np.random.Generator) -> tuple[Array, Array]:
    """Magnitudes so far apart that d is rounded in float64."""
    return (rng.standard_normal((2, 4, 30)) * np.exp2(rng.integers(-100, 100, (2, 4, 30)))).astype(np.float32)


def noise(rng: np.random.Generator) -> tuple[Array, Array]:
    reference = rng.standard_normal((4, 30)).astype(np.float32)
    return reference, (reference * (1 + 1e-5 * rng.standard_normal((4, 30)))).astype(np.float32)


def extremes(rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.choice([5e-324, 2.5e-323, 1e-310, 1.0, 1.7e308, -1.7e308, 0.0], (2, 4, 10))


@pytest.mark.parametrize("build", [noise, adversarial, ties, spread, extremes])
def test_2000_limits_get_the_same_verdict_from_the_points_as_from_every_element(build: Any, by_hand: Any) -> None:
    rng = np.random.default_rng(8)
    reference, candidate = build(rng)
    found, points = measure(reference, candidate), by_hand(reference, candidate).points
    exact = {(whole(magnitude), whole(error)) for magnitude, error in points}
    verdicts = set()
    for limit in near_limits(points, 2000):
        wanted = not any(map(violates(limit, whole(limit.atol), whole(limit.rtol)), exact))
        assert found.passes(limit) == wanted
        verdicts.add(wanted)
    assert verdicts == {True, False}


@pytest.mark.parametrize("build", [noise, adversarial, ties, spread, extremes])
def test_counting_finds_each_element_that_fractions_find(build: Any, by_hand: Any) -> None:
    rng = np.random.default_rng(9)
    reference, candidate = build(rng)
    points = by_hand(reference, candidate).points
    exact = [(whole(magnitude), whole(error)) for magnitude, error in points]
    for limit in near_limits(points, 150):
        wanted = sum(map(violates(limit, whole(limit.atol), whole(limit.rtol)), exact))
        assert count_violations(reference, candidate, limit) == wanted


@pytest.mark.parametrize("word", ["float64", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kind", ["noise", "few differ", "bit patterns", "special values"])
def test_a_measurement_passes_where_no_element_violates(kind: str, word: str, pair: Pair, by_hand: Any) -> None:
    reference, candidate = pair(kind, word, 1)
    found, points = measure(reference, candidate), by_hand(reference, candidate).points
    limits = [Limit(rule="ulp", max_ulp=max(found.max_ulp + step, 0)) for step in (-1, 0, 1)]
    limits += [Limit(rule="exact"), *near_limits(points or [(1.0, 1.0)], 40)]
    for limit in limits:
        assert found.passes(limit) == (count_violations(reference, candidate, limit) == 0)


@pytest.mark.parametrize("word", ["float64", "float32", "float16", "bfloat16"])
def test_the_smallest_limits_pass_and_the_next_smaller_ones_do_not(word: str, pair: Pair) -> None:
    for seed in range(5):
        reference, candidate = pair("noise", word, seed)
        smallest = measure(reference, candidate).smallest_passing
        assert smallest is not None
        if not smallest.max_ulp:
            continue
        atol, rtol = smallest.atol_at_rtol_0, smallest.rtol_at_atol_0
        assert rtol is not None
        for fits, fails in (
            (Limit(rule="ulp", max_ulp=smallest.max_ulp), Limit(rule="ulp", max_ulp=smallest.max_ulp - 1)),
            (Limit(rule="sum", atol=atol), Limit(rule="sum", atol=float(np.nextafter(atol, 0)))),
            (Limit(rule="sum", rtol=rtol), Limit(rule="sum", rtol=float(np.nextafter(rtol, 0)))),
        ):
            assert count_violations(reference, candidate, fits) == 0
            assert count_violations(reference, candidate, fails) > 0


def test_the_smallest_rtol_is_not_the_rounded_quotient() -> None:
    """1/3 lies above its float64, so that one does not pass and the next one does."""
    found = measure(np.array([[3.0]]), np.array([[4.0]])).smallest_passing
    assert found is not None
    assert found.rtol_at_atol_0 == np.nextafter(1 / 3, 1)
    assert Fraction(1 / 3) < Fraction(1, 3) < Fraction(found.rtol_at_atol_0)


def test_a_value_that_is_not_finite_violates_beside_any_other() -> None:
    reference = np.array([[np.nan, np.nan, np.inf, np.inf, 1.0]])
    candidate = np.array([[np.nan, 1.0, np.inf, -np.inf, np.nan]])
    for rule in ("sum", "either", "max", "ulp", "exact"):
        limit = Limit(rule=rule, atol=1e300, rtol=1e300, max_ulp=2**64)  # type: ignore[arg-type]
        assert count_violations(reference, candidate, limit) == 3


def test_ulp_and_exact_count_elements() -> None:
    reference = np.float32([[1.0, 1.0, 0.0, 1.0]])
    candidate = np.float32([[1.0, 1 + 2.0**-23, -0.0, 1 + 2.0**-21]])
    assert ulp_distance(reference, candidate).tolist() == [[0, 1, 0, 4]]
    assert [count_violations(reference, candidate, Limit(rule="ulp", max_ulp=n)) for n in (0, 1, 3, 4)] == [2, 1, 1, 0]
    assert count_violations(reference, candidate, Limit(rule="exact")) == 3


def test_many_elements_at_the_bound_itself_are_counted_exactly() -> None:
    reference = np.ones((300, 300), np.float32)
    candidate = reference + np.float32(2.0**-23)
    candidate[0, :7] += np.float32(2.0**-23)
    exactly = Limit(rule="sum", atol=2.0**-24, rtol=2.0**-24)
    assert count_violations(reference, candidate, exactly) == 7
    assert (
        count_violations(reference, candidate, Limit(rule="sum", atol=2.0**-24, rtol=2.0**-24 * (1 - 2.0**-53)))
        == 90000
    )


def test_sides_of_two_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        count_violations(np.zeros((2, 3)), np.zeros((3, 2)), Limit(rule="exact"))
