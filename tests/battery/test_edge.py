"""Overflow is decided here with fractions: beyond the largest value by half a step or more, ties away from it."""

from fractions import Fraction

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.arrays import dtype_of
from rmsaudit.formats import FORMATS
from rmsaudit.semantics.orders import sum_last_axis


def overflows(total, word):
    fmt = FORMATS[word]
    limit = Fraction(fmt.max) + Fraction(2) ** (fmt.max_exponent - fmt.precision)
    return (
        total > limit if word == "float8_e4m3fn" else total >= limit
    )  # its largest mantissa is even and keeps the tie


def rows_of(setup):
    ((_, cases),) = battery.build(setup, ["edge"])
    return np.concatenate([case.x.astype(np.float64) for case in cases])


def neighbours_at_the_edge(rows, word):
    """The last magnitude whose square is finite in `word` and the first whose is not."""
    magnitudes = {float(value) for value in np.abs(rows).max(axis=1)}
    infinite = {value for value in magnitudes if overflows(Fraction(value) ** 2, word)}
    return max(magnitudes - infinite), min(infinite)


def sum_of_squares(row):
    values, counts = np.unique(np.abs(row), return_counts=True)
    return sum(int(count) * Fraction(float(value)) ** 2 for value, count in zip(values, counts, strict=True))


@pytest.mark.parametrize(
    ("dtype", "word", "last", "first"),
    [
        ("float16", "float16", 255.875, 256.0),
        ("bfloat16", "float16", 255.0, 256.0),
        (
            "float32",
            "float16",
            255.875,
            256.0,
        ),  # 255.98 is a float32 and no float16: it would be rounded before it is squared
        ("float8_e5m2", "float16", 224.0, 256.0),
        ("float8_e4m3fn", "float16", 240.0, 256.0),
        ("bfloat16", "bfloat16", 2.0**64 - 2.0**56, 2.0**64),
        ("float32", "float32", 2.0**64 - 2.0**40, 2.0**64),
        ("float64", "float32", 2.0**64 - 2.0**40, 2.0**64),
        ("float64", "float64", 2.0**512 - 2.0**459, 2.0**512),
    ],
)
def test_the_last_finite_and_the_first_infinite_square_are_there(make_setup, dtype, word, last, first):
    assert neighbours_at_the_edge(rows_of(make_setup(dtype)), word) == (last, first)


def test_float8_statistics_have_their_edge_too(make_setup):
    rows = rows_of(make_setup("float32", reference={"compute_dtype": "float8_e4m3fn", "eps": 0.1}))
    # 21² = 441; 22² = 484 rounds to 480, which is NaN there. Of the values with 4 bits, 20 and 22 are neighbours.
    assert neighbours_at_the_edge(rows, "float8_e4m3fn") == (20.0, 22.0)


def test_formats_that_the_input_does_not_reach_are_left_out(make_setup):
    assert np.abs(rows_of(make_setup("float16"))).max() == 256


@pytest.mark.parametrize(("dtype", "word"), [("float16", "float16"), ("float32", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("width", [2, 31, 64, 4095])
def test_sums_overflow_though_no_square_does_and_just_do_not(make_setup, dtype, word, width):
    # float16 accumulation too, so that the reference's own dtypes come first where there are fewer rows than kinds
    rows = rows_of(make_setup(dtype, width, rows=32, reference={"compute_dtype": word}))
    kinds = set()
    for row in rows:
        if not overflows(Fraction(float(np.abs(row).max())) ** 2, word):
            kinds.add(overflows(sum_of_squares(row), word))
    assert kinds == {False, True}


@pytest.mark.parametrize(("dtype", "word"), [("float16", "float16"), ("float32", "float32"), ("bfloat16", "bfloat16")])
@pytest.mark.parametrize("width", [5, 64, 4096])
def test_the_loud_element_alone_decides_in_whatever_order_the_row_is_summed(make_setup, dtype, word, width):
    rows = rows_of(make_setup(dtype, width, reference={"compute_dtype": word}))
    last, first = neighbours_at_the_edge(rows, word)
    seen = set()
    for row in rows:
        magnitudes = np.sort(np.abs(row))
        if magnitudes[-1] not in (last, first) or magnitudes[-2] == magnitudes[-1] or magnitudes[-2] == 0:
            continue
        with np.errstate(over="ignore"):
            held = row.astype(dtype_of(word))
            squares = held * held
            totals = [sum_last_axis(squares[None], order) for order in ("pairwise", "sequential", "lanes:8", "exact")]
        assert [bool(np.isfinite(total.astype(np.float64)).all()) for total in totals] == [magnitudes[-1] == last] * 4
        seen.add(float(magnitudes[-1]))
    assert seen == {last, first}


def test_the_classic_uniform_rows_of_255_and_256_are_there(make_setup):
    rows = rows_of(make_setup("bfloat16", reference={"compute_dtype": "float16", "accumulate_dtype": "float32"}))
    uniform = {float(row[0]) for row in np.abs(rows) if np.ptp(row) == 0}
    assert {255.0, 256.0} <= uniform
