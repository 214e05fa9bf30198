from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsaudit.arrays import Array, ordered, round_to
from rmsaudit.formats import FORMATS
from rmsaudit.measure.distance import Apart, apart, distance
from rmsaudit.measure.element import Element
from rmsaudit.measure.limits import Limit
from rmsaudit.measure.measurement import Measurement
from rmsaudit.measure.statistics import measure

KINDS = (
    "noise", "wide noise", "few differ", "constant", "scaled rows", "twice", "negated", "zeros", "five quarters",
    "neighbours", "bit patterns", "special values",
)  # fmt: skip
WORDS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
Pair = Callable[[str, str, int], tuple[Array, Array]]


def place(element: Element | None, width: int) -> int | None:
    return None if element is None else element.row * width + element.column


def check_against_hand(found: Measurement, reference: Array, candidate: Array, by_hand: Any) -> None:
    wanted, width = by_hand(reference, candidate), reference.shape[1]
    counts = found.nonfinite
    assert found.elements == reference.size
    assert found.differing == wanted.differing
    assert found.signed_zero == wanted.signed_zero
    assert found.zero_reference == wanted.zero_reference
    assert found.candidate_larger == wanted.candidate_larger
    assert counts.mismatched == wanted.mismatched
    classes = [(side.nan, side.plus_inf, side.minus_inf) for side in (counts.reference, counts.candidate)]
    assert tuple(classes) == wanted.classes
    assert list(found.frontier) == wanted.frontier
    assert place(found.largest_abs, width) == wanted.largest_abs
    assert place(found.largest_rel, width) == wanted.largest_rel


def check_ulp(found: Measurement, reference: Array, candidate: Array) -> None:
    """Against `arrays.ordered`, which goes another way: signed positions in Python integers."""
    with np.errstate(all="ignore"):
        sides = [ordered(round_to(side, found.unit)).astype(object).ravel() for side in (reference, candidate)]
        wide = [side.astype(np.float64).ravel() for side in (reference, candidate)]
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    steps = np.where(finite, np.abs(sides[0] - sides[1]), 0)
    assert found.max_ulp == steps.max()
    assert place(found.largest_ulp, reference.shape[1]) == (
        int(np.argmax(steps == steps.max())) if steps.any() else None
    )


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_finds_what_a_look_at_each_element_finds(kind: str, word: str, pair: Pair, by_hand: Any) -> None:
    for seed in range(2):
        reference, candidate = pair(kind, word, seed)
        found = measure(reference, candidate)
        check_against_hand(found, reference, candidate, by_hand)
        check_ulp(found, reference, candidate)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize(
    ("one", "other", "unit"), [("float32", "bfloat16", "bfloat16"), ("float16", "float64", "float16")]
)
@pytest.mark.parametrize("kind", ["noise", "special values"])
def test_sides_of_two_dtypes_are_compared_exactly(
    kind: str, one: str, other: str, unit: str, pair: Pair, by_hand: Any
) -> None:
    for seed in range(3):
        reference, candidate = pair(kind, one, seed)[0], pair(kind, other, seed)[1]
        found = measure(reference, candidate)
        assert found.unit == unit
        check_against_hand(found, reference, candidate, by_hand)
        check_ulp(found, reference, candidate)


@pytest.mark.parametrize("kind", ["noise", "few differ", "scaled rows", "special values"])
def test_a_tensor_of_several_blocks(kind: str, by_hand: Any) -> None:
    """One block of 65536 elements and a part of a second one, of which the quick path takes only the first."""
    rng = np.random.default_rng(2)
    shape = 73, 1031
    reference = rng.standard_normal(shape).astype(np.float32)
    noise = {"scaled rows": rng.random((73, 1)), "few differ": rng.random(shape) < 0.001}.get(
        kind, rng.standard_normal(shape)
    )
    candidate = (reference * (1 + 1e-6 * noise)).astype(np.float32)
    if kind == "special values":
        for side in (reference, candidate):
            side.reshape(-1)[rng.integers(0, side.size, 900)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 900)
    found = measure(reference, candidate)
    check_against_hand(found, reference, candidate, by_hand)
    check_ulp(found, reference, candidate)


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("word", ["float32", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_merge_to_the_whole(kind: str, word: str, pair: Pair) -> None:
    rng = np.random.default_rng(3)
    for seed in range(3):
        reference, candidate = pair(kind, word, seed)
        cut = int(rng.integers(0, reference.shape[0] + 1))
        first = measure(reference[:cut], candidate[:cut])
        rest = measure(reference[cut:], candidate[cut:], first_row=cut)
        whole = repr(measure(reference, candidate))  # repr, because NaN is not equal to itself
        assert repr(first.merge(rest)) == repr(rest.merge(first)) == whole


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.permutations(range(5)))
def test_cases_of_other_widths_merge_in_any_order_and_grouping(seed: int, levels: int, order: list[int]) -> None:
    """Few values (ties everywhere), some not finite, so that every tie-break is asked."""
    rng = np.random.default_rng(seed)
    values = np.array([1.0, 1.5, -1.0, 0.0, -0.0, np.nan, np.inf, 3.0][: levels + 1], np.float32)
    cases = []
    for number in range(5):
        reference, candidate = rng.choice(values, (2, int(rng.integers(0, 5)), int(rng.integers(1, 9))))
        cases.append(measure(reference, candidate, case=f"case {number}"))
    straight = cases[0].merge(cases[1]).merge(cases[2]).merge(cases[3]).merge(cases[4])
    a, b, c, d, e = (cases[index] for index in order)
    assert repr(a.merge(b.merge(c)).merge(d.merge(e))) == repr(straight)


def test_ulp_of_two_dtypes_do_not_merge() -> None:
    one = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match="float32 and of float64"):
        measure(one, one).merge(measure(one.astype(np.float64), one.astype(np.float64)))
    with pytest.raises(ValueError, match="float32 and of float64"):
        distance(one, one).merge(distance(one.astype(np.float64), one.astype(np.float64)))


def row(*values: float, dtype: type[np.floating] = np.float32) -> Array:
    return np.array([values], dtype)


def test_the_reference_is_the_denominator() -> None:
    assert measure(row(1.0), row(4.0)).max_rel_error == 3.0
    assert measure(row(4.0), row(1.0)).max_rel_error == 0.75


def test_zero_beside_zero_is_agreement_and_a_zero_reference_is_counted_apart() -> None:
    found = measure(row(0.0, 0.0, 2.0), row(0.0, 1.0, 3.0))
    assert (found.differing, found.zero_reference, found.max_rel_error) == (2, 1, 0.5)
    assert measure(row(0.0, 2.0), row(3.0, 4.0)).max_abs_error == 3.0
    smallest = found.smallest_passing
    assert smallest is not None
    assert (smallest.atol_at_rtol_0, smallest.rtol_at_atol_0) == (1.0, None)
    assert measure(row(0.0), row(-0.0)).differing == 0
    assert measure(row(0.0), row(-0.0)).signed_zero == 1


def test_a_quotient_beyond_float64_is_not_reported_as_infinite() -> None:
    found = measure(row(5e-324, dtype=np.float64), row(1.0, dtype=np.float64))
    assert found.max_rel_error == np.finfo(np.float64).max
    assert found.smallest_passing is not None
    assert found.smallest_passing.rtol_at_atol_0 is None


@pytest.mark.parametrize("limit", [Limit(rule="sum", atol=1e300, rtol=1e300), Limit(rule="ulp", max_ulp=2**70)])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_non_finite_value_on_one_side_passes_nothing(odd: float, limit: Limit) -> None:
    for sides in ((row(1.0, 2.0), row(1.0, odd)), (row(1.0, odd), row(1.0, 2.0)), (row(1.0, odd), row(1.0, -np.nan))):
        found = measure(*sides)
        agree = np.isnan(odd) and np.isnan(sides[0][0, 1]) and np.isnan(sides[1][0, 1])
        assert found.passes(limit) == agree
        assert (found.nonfinite.mismatched, found.differing) == ((0, 0) if agree else (1, 1))
        assert (found.smallest_passing is None) == (not agree)
        assert found.max_abs_error == found.max_ulp == 0
        if not agree:
            assert found.nonfinite.first is not None
            assert found.nonfinite.first.column == 1


def test_the_same_non_finite_values_on_both_sides_are_agreement() -> None:
    both = row(np.nan, np.inf, -np.inf, 1.0)
    found = measure(both, np.copy(both))
    assert found.passes(Limit(rule="exact"))
    assert found.nonfinite.reference.total == found.nonfinite.candidate.total == 3
    assert not measure(row(np.inf), row(-np.inf)).passes(Limit(rule="exact"))


def test_the_sign_of_a_zero_matters_only_to_exact() -> None:
    found = measure(row(0.0), row(-0.0))
    assert not found.passes(Limit(rule="exact"))
    assert found.passes(Limit(rule="ulp"))
    assert found.passes(Limit(rule="sum"))


def test_the_worst_elements_are_named_once_with_place_and_values() -> None:
    reference = row(1.0, 1024.0, 2.0**-130)
    candidate = row(1.25, 1025.0, 2.0**-130)
    candidate[0, 2] *= 3  # the largest quotient, the most steps too
    found = measure(reference, candidate, input=row(7.0, 8.0, 9.0), case="width 3", first_row=10)
    assert [(e.case, e.row, e.column, e.input) for e in found.worst] == [
        ("width 3", 10, 0, 7.0),
        ("width 3", 10, 1, 8.0),
        ("width 3", 10, 2, 9.0),
    ]
    assert (found.worst[1].reference, found.worst[1].candidate) == (1024.0, 1025.0)


def test_the_larger_share_shows_a_coherent_error() -> None:
    reference = np.random.default_rng(4).standard_normal((4, 64)).astype(np.float32)
    assert measure(reference, reference * np.float32(1.01)).larger_share == 1.0
    assert measure(reference, reference * np.float32(0.99)).larger_share == 0.0
    assert measure(reference, reference).larger_share is None


def test_the_larger_share_is_one_of_finite_elements() -> None:
    assert measure(row(1.0, 2.0, 3.0), row(2.0, 1.0, np.nan)).larger_share == 0.5


def test_rows_without_elements_measure_nothing() -> None:
    for shape in ((0, 4), (3, 0)):
        empty = np.empty(shape, np.float32)
        found = measure(empty, empty)
        assert (found.elements, found.differing, found.worst, found.differing_share) == (0, 0, (), 0.0)


def test_views_are_measured_like_copies() -> None:
    rng = np.random.default_rng(5)
    reference, candidate = rng.standard_normal((2, 40, 30)).astype(np.float32)
    assert measure(reference.T, candidate.T) == measure(np.ascontiguousarray(reference.T), candidate.T.copy())


@pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((6,), (6,)), ((2, 3), (2, 1))])
def test_sides_of_other_shapes_are_refused(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="one shape"):
        measure(np.zeros(shapes[0]), np.zeros(shapes[1]))


def test_a_handful_of_points_decides_for_many_elements() -> None:
    """About ln n are to be expected where d and the quotient are independent; ln 65536 is 11."""
    rng = np.random.default_rng(6)
    for _ in range(10):
        reference = rng.standard_normal((16, 4096)).astype(np.float32)
        candidate = (reference * (1 + 1e-6 * rng.standard_normal(reference.shape))).astype(np.float32)
        assert len(measure(reference, candidate).points) <= 20


def test_distance_counts_what_is_not_correctly_rounded() -> None:
    oracle = row(1.0, 2.0, 0.0, np.inf)
    output = row(np.nextafter(np.float32(1), np.float32(2)), 2.0, -0.0, np.inf)
    found = distance(output, oracle)
    assert (found.elements, found.incorrect, found.mismatched, found.max_ulp) == (4, 1, 0, 1)
    assert found.incorrect_share == 0.25
    assert distance(oracle, oracle).incorrect == 0


def test_distances_merge_to_the_whole() -> None:
    rng = np.random.default_rng(7)
    oracle = rng.standard_normal((12, 50)).astype(np.float16)
    output = (oracle * np.float16(1.001)).astype(np.float16)
    output[2, 3] = np.nan
    parts = [distance(output[at : at + 5], oracle[at : at + 5]) for at in (0, 5, 10)]
    assert parts[2].merge(parts[0]).merge(parts[1]) == distance(output, oracle)
    assert distance(output, oracle).mismatched == 1


@pytest.mark.parametrize("word", FORMATS)
def test_few_numbers_are_those_of_the_whole_measurement(word: str) -> None:
    """Over every kind of value: subnormal, zero of both signs, the largest, infinite, NaN; on both sides."""
    rng = np.random.default_rng(8)
    kinds = [
        0.0,
        -0.0,
        FORMATS[word].max,
        -FORMATS[word].max,
        FORMATS[word].smallest_subnormal,
        np.inf,
        -np.inf,
        np.nan,
    ]
    one, other = (
        round_to(np.where(rng.random((40, 50)) < 0.4, rng.choice(kinds, (40, 50)), drawn), word)
        for drawn in rng.standard_normal((2, 40, 50))
    )
    other[:, ::2] = one[:, ::2]
    whole, few, near = measure(one, other), apart(one, other), distance(other, one)
    assert few.differing == near.incorrect == whole.differing
    assert few.mismatched == near.mismatched == whole.nonfinite.mismatched
    assert few.max_ulp == near.max_ulp == whole.max_ulp
    assert few.max_abs_error == whole.max_abs_error
    assert few.max_rel_error == pytest.approx(whole.max_rel_error, rel=2.0**-52)  # ours is rounded twice
    assert apart(one, one) == Apart(differing=0, mismatched=0, max_ulp=0, max_abs_error=0.0, max_rel_error=0.0)


def test_an_oracle_of_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="round the oracle"):
        distance(np.zeros((1, 1), np.float32), np.zeros((1, 1)))
