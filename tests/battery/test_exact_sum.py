from fractions import Fraction

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.arrays import dtype_of, round_to
from rmsaudit.battery import Skipped
from rmsaudit.semantics.orders import sum_last_axis

ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:8", "lanes:32", "blocks:16", "exact")


def cases_of(setup, name="exact-sum"):
    ((_, cases),) = battery.build(setup, [name])
    return cases


def totals(case, word="float32"):
    """The sum of squares of each row in each order, and the exact one."""
    held = round_to(case.x, word)
    squares = held * held
    with np.errstate(over="ignore"):
        in_orders = [sum_last_axis(squares, order)[:, 0].astype(np.float64) for order in ORDERS]
    return in_orders, [sum_of_squares(row) for row in case.x]


def sum_of_squares(row):
    values, counts = np.unique(np.abs(row), return_counts=True)
    return sum(int(count) * Fraction(float(value)) ** 2 for value, count in zip(values, counts, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("width", [1, 64, 777, 4096, 16384])
def test_every_order_gives_the_exact_sum_in_float32(make_setup, dtype, width):
    for case in cases_of(make_setup(dtype, width, rows=6)):
        in_orders, exact = totals(case)
        for total in in_orders:
            assert [Fraction(value) for value in total] == exact


@pytest.mark.parametrize("width", [64, 777])
def test_ordinary_rows_do_depend_on_the_order(make_setup, width):
    """The twin: exactness is not a property of the sums that are compared."""
    (case,) = cases_of(make_setup("float32", width), "ordinary")
    in_orders, _ = totals(case)
    assert len({tuple(total) for total in in_orders}) > 1


@pytest.mark.parametrize(("word", "width"), [("float16", 64), ("float16", 200), ("bfloat16", 16), ("bfloat16", 28)])
def test_sums_are_exact_in_a_narrow_accumulator_that_has_room(make_setup, word, width):
    for case in cases_of(make_setup("float32", width, reference={"accumulate_dtype": word}, rows=6)):
        in_orders, exact = totals(case, word)
        for total in in_orders:
            assert [Fraction(value) for value in total] == exact
        assert np.abs(case.x).max() > 0


def test_they_are_not_in_one_that_has_none(make_setup):
    """The twin: 4096 whole numbers of up to ±63 do not fit into 11 bits; float32 alone is exact then."""
    (case,) = cases_of(make_setup("float16", 4096, reference={"accumulate_dtype": "float16"}))
    assert len({tuple(total) for total in totals(case, "float16")[0]}) > 1
    in_orders, exact = totals(case)
    assert [Fraction(value) for value in in_orders[0]] == exact


def test_squares_that_the_compute_dtype_rounds_still_sum_in_any_order(make_setup):
    for case in cases_of(
        make_setup("bfloat16", 512, reference={"compute_dtype": "bfloat16", "accumulate_dtype": "float32"})
    ):
        squares = case.x * case.x
        assert squares.dtype == dtype_of("bfloat16")
        assert len({tuple(sum_last_axis(squares.astype(np.float32), order)[:, 0]) for order in ORDERS}) == 1


def test_the_sum_with_a_residual_is_exact_as_well(make_setup):
    adds = {"residual": "add"}
    for case in cases_of(make_setup("bfloat16", 256, reference=adds, candidate=adds)):
        stream = case.x.astype(np.float32) + case.residual.astype(np.float32)
        exact = [sum_of_squares(row) for row in stream]
        for order in ORDERS:
            assert [Fraction(float(value)) for value in sum_last_axis(stream * stream, order)[:, 0]] == exact


def test_there_are_three_scales_where_the_format_has_room(make_setup):
    (case,) = cases_of(make_setup("float32", 64))
    units = {float(np.min(np.abs(row[row != 0]))) for row in case.x}
    assert min(units) < 2.0**-17
    assert 190 < max(np.abs(case.x[0])) <= 200
    (case,) = cases_of(make_setup("float8_e4m3fn", 64, reference={"compute_dtype": "float32"}))
    assert (case.x.astype(float) == np.rint(case.x.astype(float))).all()


def test_more_elements_than_float32_can_count_are_skipped(make_setup):
    setup = make_setup("float32", 2**23, rows=4, reference={"axes": (-2, -1)}, candidate={"axes": (-2, -1)})
    assert list(battery.build(setup, ["exact-sum"])) == [
        Skipped("exact-sum", "not even 33554432 ones sum exactly in float32")
    ]
