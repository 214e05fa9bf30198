import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmsaudit.arrays import Array, dtype_of, ordered, round_to
from rmsaudit.formats import FORMATS
from rmsaudit.measure.ulp import coarser, ulp_distance

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
ALL = ("float64", "float32", "float16", "bfloat16", *FLOAT8)


def finite_values(word: str) -> Array:
    """Every finite value of a format of at most 16 bits, −0 and +0 both."""
    size = dtype_of(word).itemsize
    values = np.arange(1 << (8 * size), dtype=f"u{size}").view(dtype_of(word))
    with np.errstate(invalid="ignore"):
        return values[np.isfinite(values.astype(np.float64))]


def walked(word: str) -> dict[float, int]:
    """Each value by the steps it takes to walk to it from the lowest, one distinct value at a time; −0 is +0."""
    return {value: step for step, value in enumerate(sorted(set(finite_values(word).astype(np.float64).tolist())))}


@pytest.mark.parametrize("word", FLOAT8)
def test_every_pair_of_a_small_format_is_as_far_apart_as_a_walk_between_them(word: str) -> None:
    values, steps = finite_values(word), walked(word)
    place = np.array([steps[value] for value in values.astype(np.float64).tolist()])
    found = ulp_distance(values[:, None].repeat(values.size, 1), values[None, :].repeat(values.size, 0))
    assert found.astype(np.int64).tolist() == np.abs(place[:, None] - place[None, :]).tolist()


@pytest.mark.parametrize("word", ["float16", "bfloat16"])
def test_random_pairs_of_a_16_bit_format_are_as_far_apart_as_a_walk_between_them(word: str) -> None:
    values, steps = finite_values(word), walked(word)
    one, other = np.random.default_rng(1).choice(values, (2, 20_000))
    expected = [
        abs(steps[x] - steps[y])
        for x, y in zip(one.astype(np.float64).tolist(), other.astype(np.float64).tolist(), strict=True)
    ]
    assert ulp_distance(one, other).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_walk_by_nextafter_counts_every_step(dtype: type[np.floating]) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    for start in (1.0, -2.0, np.finfo(dtype).tiny, -3 * tiny, np.finfo(dtype).max):  # across a binade and across zero
        begin = walk = np.array([start], dtype)
        toward = np.array([-np.sign(start) * np.inf], dtype)
        for steps in range(9):
            assert ulp_distance(begin, walk).tolist() == [steps]
            walk = np.nextafter(walk, toward)


@pytest.mark.parametrize("word", ALL)
def test_the_ends_of_a_format_are_all_its_values_apart(word: str) -> None:
    largest = round_to(np.array([FORMATS[word].max]), word)
    assert int(ulp_distance(largest, -largest)[0]) == 2 * int(ordered(largest)[0])


def test_the_ends_of_float64_are_further_apart_than_int64_can_count() -> None:
    largest = np.array([FORMATS["float64"].max])
    assert int(ulp_distance(largest, -largest)[0]) == 2 * (2047 * 2**52 - 1)  # 2047 binades, less infinity


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3))
def test_it_is_symmetric_and_adds_up_along_the_line(values: list[float]) -> None:
    low, middle, high = (np.array([value], np.float32) for value in sorted(values))
    there, back = ulp_distance(low, high), ulp_distance(high, low)
    assert there == back
    assert int(there[0]) == int(ulp_distance(low, middle)[0]) + int(ulp_distance(middle, high)[0])


@pytest.mark.parametrize("word", ALL)
def test_zeros_are_one_place_and_crossing_them_counts_the_subnormals(word: str) -> None:
    zeros = round_to(np.array([0.0, -0.0]), word)
    assert ulp_distance(zeros, zeros[::-1]).tolist() == [0, 0]
    smallest = np.array([1], f"u{zeros.itemsize}").view(zeros.dtype)
    assert ulp_distance(smallest, -smallest).tolist() == [2]


@pytest.mark.parametrize(
    ("one", "other", "unit"),
    [
        ("float32", "bfloat16", "bfloat16"),
        ("bfloat16", "float16", "bfloat16"),
        ("float64", "float32", "float32"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2"),
        ("float16", "float16", "float16"),
    ],
)
def test_two_dtypes_are_counted_in_the_coarser_one(one: str, other: str, unit: str) -> None:
    assert coarser(one, other) == coarser(other, one) == unit


def test_both_are_rounded_into_the_coarser_dtype_first() -> None:
    reference = np.array([1 + 2.0**-9, 1 + 3 * 2.0**-8, 1e39, 70000.0], np.float64)  # a quarter step, a tie, beyond
    candidate = round_to(np.array([1.0, 1.0, 0.0, 0.0]), "bfloat16")
    found = ulp_distance(reference, candidate)
    assert found.dtype == np.uint16
    assert found.tolist()[:3] == [0, 2, 0x7F80]  # what overflows is one step beyond the largest value
    assert ulp_distance(np.float32([70000.0]), np.float16([65504.0])).tolist() == [1]
