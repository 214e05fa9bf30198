"""Each order of addition against a plain loop over single numbers, and `exact` against fractions."""

from collections.abc import Callable
from fractions import Fraction
from math import log2
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import Array, dtype_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.semantics.orders import sum_last_axis

Nearest = Callable[[Any, str], float]
Row = list[Any]  # numpy scalars of one dtype: + rounds each sum to it

WORDS = tuple(FORMATS)
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 33, 64, 100, 127, 257, 513)


@pytest.fixture(autouse=True)
def _ieee() -> Any:
    with np.errstate(all="ignore"):
        yield


def draw(word: str, *shape: int) -> Array:
    """Squares of very different sizes, so that the order shows."""
    rng = np.random.default_rng(shape[-1])
    return round_to(np.ldexp(rng.random(shape), rng.integers(-6, 4, size=shape)), word)


def by_halves(row: Row) -> Any:
    while len(row) > 1:
        half = len(row) // 2
        row = [row[i] + row[half + i] for i in range(half)] + row[2 * half :]
    return row[0]


def left_to_right(row: Row) -> Any:
    total = row[0]
    for term in row[1:]:
        total = total + term
    return total


def in_lanes(row: Row, lanes: int) -> Any:
    zero = row[0] - row[0]
    return by_halves([left_to_right([zero, *row[lane::lanes]]) for lane in range(lanes)])


def in_blocks(row: Row, size: int) -> Any:
    zero = row[0] - row[0]
    filled = row + [zero] * (-len(row) % size)
    return left_to_right([by_halves(filled[start : start + size]) for start in range(0, len(row), size)])


def as_torch_adds_on_a_cpu(row: Row) -> Any:
    """Own words for SumKernel.cpp, one number at a time: element j of a vector stays in lane j from start to end."""
    zero = row[0] - row[0]
    vector = 8 if len(row) >= 8 else 1
    vectors = len(row) // vector
    total = zero
    for term in row[vectors * vector :]:
        total = total + term
    for lane in range(vector):
        total = total + four_cascades([row[v * vector + lane] for v in range(vectors)], zero)
    return total


def four_cascades(terms: Row, zero: Any) -> Any:
    steps = len(terms) // 4
    sums = [cascade(terms[which : 4 * steps : 4], zero) for which in range(4)]
    for term in terms[4 * steps :]:
        sums[0] = sums[0] + term
    return ((sums[0] + sums[1]) + sums[2]) + sums[3]


def cascade(terms: Row, zero: Any) -> Any:
    """Four running sums; whenever 2^p terms (then 2^2p, 2^3p) are through, a sum is passed up to the next one."""
    count = len(terms)
    power = max(4, int(np.ceil(log2(count))) // 4) if count > 2 else 4
    level = [zero] * 4
    done = 0
    while done + (1 << power) <= count:
        for term in terms[done : done + (1 << power)]:
            level[0] = level[0] + term
        done += 1 << power
        for upper in (1, 2, 3):
            level[upper] = level[upper] + level[upper - 1]
            level[upper - 1] = zero
            if done % (1 << (power * (upper + 1))):
                break
    for term in terms[done:]:
        level[0] = level[0] + term
    return ((level[0] + level[1]) + level[2]) + level[3]


BY_LOOP: dict[str, Callable[[Row], Any]] = {
    "pairwise": by_halves,
    "sequential": left_to_right,
    "lanes:1": left_to_right,
    "lanes:3": lambda row: in_lanes(row, 3),
    "lanes:8": lambda row: in_lanes(row, 8),
    "lanes:256": lambda row: in_lanes(row, 256),
    "blocks:4": lambda row: in_blocks(row, 4),
    "blocks:100": lambda row: in_blocks(row, 100),
    "torch_cpu": as_torch_adds_on_a_cpu,
}


@pytest.mark.parametrize("order", BY_LOOP)
@pytest.mark.parametrize("word", WORDS)
def test_an_order_is_the_loop_it_names(word: str, order: str) -> None:
    for width in WIDTHS:
        terms = draw(word, 3, width)
        got = sum_last_axis(terms, order)
        assert got.shape == (3, 1)
        assert word_of(got) == word
        want = [[BY_LOOP[order](list(row))] for row in terms]
        np.testing.assert_array_equal(got, np.array(want, dtype=dtype_of(word)), err_msg=f"width {width}")


@pytest.mark.parametrize("width", [512, 768, 1000, 1024, 2047, 2048, 4096, 5000, 16384, 33000])
def test_the_cascade_of_torch_on_wide_rows(width: int) -> None:
    """32 lanes of 16 steps fill a chunk (512 elements); 16 chunks are passed up a level (8192 elements)."""
    terms = draw("float32", 1, width)
    assert sum_last_axis(terms, "torch_cpu")[0, 0] == as_torch_adds_on_a_cpu(list(terms[0]))


def test_the_orders_differ_where_they_can() -> None:
    """The twin of the tests above: on a wide float32 row the six orders give six sums, or nearly so."""
    terms = draw("float32", 40, 4096)
    orders = ("pairwise", "sequential", "lanes:8", "blocks:100", "torch_cpu", "exact")
    sums = {order: sum_last_axis(terms, order) for order in orders}
    for first in orders:
        for second in orders:
            assert first == second or (sums[first] != sums[second]).any(), (first, second)


@pytest.mark.parametrize("order", [*BY_LOOP, "exact"])
def test_any_leading_shape(order: str) -> None:
    terms = draw("float32", 2, 3, 37)
    got = sum_last_axis(terms, order)
    assert got.shape == (2, 3, 1)
    np.testing.assert_array_equal(got.reshape(6, 1), sum_last_axis(terms.reshape(6, 37), order))


@pytest.mark.parametrize("order", [*BY_LOOP, "exact"])
def test_the_sum_of_nothing_is_zero(order: str) -> None:
    got = sum_last_axis(np.zeros((2, 0), dtype=np.float32), order)
    np.testing.assert_array_equal(got, np.zeros((2, 1), dtype=np.float32))


@pytest.mark.parametrize("order", [*BY_LOOP, "exact"])
def test_infinity_and_nan_come_through(order: str) -> None:
    rows = np.float32([[np.inf, 1, 2, 3], [np.nan, 1, 2, 3], [np.inf, -np.inf, 1, 2]])
    np.testing.assert_array_equal(sum_last_axis(rows, order), [[np.inf], [np.nan], [np.nan]])


@pytest.mark.parametrize("order", ["", "torch", "lanes", "lanes:", "lanes:0", "lanes:-8", "pairwise:8"])
def test_an_unknown_order_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match="no accumulate_order"):
        sum_last_axis(np.ones((1, 4), dtype=np.float32), order)


# --- exact ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", WORDS)
def test_the_exact_sum_is_rounded_once(word: str, nearest: Nearest) -> None:
    rng = np.random.default_rng(3)
    for width in (1, 2, 3, 17, 256):
        signs = rng.choice([-1.0, 1.0], size=(40, width))
        terms = round_to(draw(word, 40, width).astype(np.float64) * signs, word)
        want = [nearest(sum(map(Fraction, row)), word) for row in terms.astype(float).tolist()]
        np.testing.assert_array_equal(sum_last_axis(terms, "exact").astype(np.float64)[:, 0], want)


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([1, 2.0**-24], 1.0),  # a tie, to even
        ([1, 2.0**-24, 2.0**-149], 1 + 2.0**-23),  # just above it
        ([1, 2.0**-24, -(2.0**-149)], 1.0),
        ([1 + 2.0**-23, 2.0**-24], 1 + 2.0**-22),
        ([1, 2.0**-24, 2.0**-60, 2.0**-140, -(2.0**-60)], 1 + 2.0**-23),  # more than two float64 hold in between
        ([2.0**120, 1.0, -(2.0**120)], 1.0),
    ],
)
def test_no_bit_is_lost_on_the_way(terms: list[float], total: float) -> None:
    assert sum_last_axis(np.float32([terms]), "exact")[0, 0] == total


def test_a_sum_beyond_float64_is_infinite() -> None:
    assert sum_last_axis(np.array([[1e308, 1e308, 1.0]]), "exact")[0, 0] == np.inf
    assert sum_last_axis(np.float16([[65504, 65504]]), "exact")[0, 0] == np.inf
