"""That the rows of the simpler categories are what their summaries say."""

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.formats import FORMATS
from rmsaudit.semantics.orders import sum_last_axis


def x_of(setup, name):
    """x of every case of a category, one under the other, as float64."""
    ((_, cases),) = battery.build(setup, [name])
    return np.concatenate([case.x.astype(np.float64) for case in cases])


def energy_share(rows, chosen):
    return np.sum(np.where(chosen, rows, 0) ** 2, axis=1) / np.sum(rows**2, axis=1)


def test_zero_has_plus_zero_minus_zero_and_both(make_setup):
    rows = x_of(make_setup(), "zero")
    assert not rows.any()
    negative = np.signbit(rows).mean(axis=1)
    assert negative[:3].tolist() == [0, 1, 0.5]


@pytest.mark.parametrize("dtype", FORMATS)
def test_tiny_goes_down_to_the_smallest_subnormal(make_setup, dtype):
    rows = np.abs(x_of(make_setup(dtype), "tiny"))
    assert rows.min() == FORMATS[dtype].smallest_subnormal
    assert 1 / 16 <= rows.max() <= 1 / 8
    assert (np.diff(rows.max(axis=1)) <= 0).all()


@pytest.mark.parametrize("dtype", FORMATS)
def test_large_goes_up_to_the_largest_value(make_setup, dtype):
    rows = np.abs(x_of(make_setup(dtype), "large"))
    assert rows.max() == FORMATS[dtype].max
    assert 16 <= rows.min() <= 32
    assert np.isfinite(rows).all()


def test_ordinary_rows_have_an_rms_near_one(make_setup):
    rms = np.sqrt(np.mean(x_of(make_setup(width=4096), "ordinary") ** 2, axis=1))
    np.testing.assert_allclose(rms, 2 / 3**0.5, rtol=0.05)  # the rms of 4096 such values has a standard error of 0.7 %


def test_constant_rows_begin_with_one_and_minus_one(make_setup):
    rows = x_of(make_setup(), "constant")
    assert not np.ptp(rows, axis=1).any()
    assert rows[:2, 0].tolist() == [1, -1]
    assert set(np.sign(rows[2:, 0])) == {-1, 1}
    assert np.abs(rows[:, 0]).max() / np.abs(rows[:, 0]).min() > 2**10


def test_a_constant_row_saturates_a_bfloat16_sum(make_setup):
    (_, ((case,))), *_ = [(c, cases) for c, cases in battery.build(make_setup("bfloat16", 4096), ["constant"])]
    ones = case.x[:1]
    assert float(sum_last_axis(ones * ones, "sequential")[0, 0]) == 256  # 256 + 1 is 256 with 8 bits
    assert float(sum_last_axis((ones * ones).astype(np.float32), "sequential")[0, 0]) == 4096


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_mixed_scale_is_mixed_between_rows_and_within_each(make_setup, dtype):
    rows = np.abs(x_of(make_setup(dtype), "mixed-scale"))
    assert (rows.max(axis=1) / rows.min(axis=1) > 2**5).all()
    assert rows.max(axis=1).max() / rows.max(axis=1).min() > 2**10


@pytest.mark.parametrize("width", [2, 31, 4096])
def test_a_spike_holds_the_energy_first_last_and_between(make_setup, width):
    rows = x_of(make_setup(width=width), "spike")
    places = np.abs(rows).argmax(axis=1)
    assert energy_share(rows, np.arange(width) == places[:, None]).min() > 0.98
    assert {0, width - 1} <= set(places)
    assert np.unique(places).size == min(width, 16)


@pytest.mark.parametrize("width", [64, 4096])
def test_offset_reaches_means_of_a_thousand_deviations(make_setup, width):
    rows = x_of(make_setup(width=width), "offset")
    ratio = np.abs(rows.mean(axis=1)) / rows.std(axis=1)
    assert ratio.min() < 3
    assert ratio.max() > 2**9
    assert set(np.sign(rows.mean(axis=1))) == {-1, 1}


@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", 8), ("float16", 11), ("float8_e5m2", 3)])
def test_offset_stops_where_the_format_would_lose_the_deviation(make_setup, dtype, precision):
    rows = x_of(make_setup(dtype), "offset")
    ratio = np.abs(rows.mean(axis=1)) / rows.std(axis=1)
    assert ratio.max() < 2**precision
    assert (rows.std(axis=1) > 0).all()


def parts_scale(row, count):
    """The rms of each of `count` equal parts."""
    return np.sqrt(np.mean(row.reshape(count, -1) ** 2, axis=1))


def test_blocks_are_at_their_own_scales(make_setup):
    rows = x_of(make_setup(width=384, candidate={"groups": 3}), "blocks")
    for row, count in zip(rows, (3, 2, 4, 8, 16, 32, 64), strict=False):  # 64 parts of 6 elements and more
        scales = parts_scale(row, count)
        assert (np.abs(np.diff(np.log2(scales))) > 0.3).mean() > 0.9
    ordinary = x_of(make_setup(width=384), "ordinary")  # the twin: parts of any row are not like that
    assert (np.abs(np.diff(np.log2(parts_scale(ordinary[0], 8)))) > 0.5).mean() < 0.2


@pytest.mark.parametrize("width", [2, 3, 7, 4099])
def test_rows_that_nothing_divides_have_two_unequal_parts(make_setup, width):
    rows = x_of(make_setup(width=width), "blocks")
    assert rows.shape == (16, width)


def test_the_second_half_of_sign_is_the_first_negated(make_setup):
    rows = x_of(make_setup(), "sign")
    np.testing.assert_array_equal(rows[8:], -rows[:8])
    assert np.unique(rows[:8], axis=0).shape == (8, 64)


def test_a_single_row_and_its_negative_are_two_cases(make_setup):
    ((_, cases),) = battery.build(make_setup(rows=1), ["sign"])
    assert [case.label for case in cases] == ["part 1 of 2", "part 2 of 2"]
    np.testing.assert_array_equal(cases[0].x, -cases[1].x)


@pytest.mark.parametrize("dtype", FORMATS)
def test_scaled_rows_are_exact_powers_of_two_apart(make_setup, dtype):
    adds = {"residual": "add"}
    ((_, (case,)),) = battery.build(make_setup(dtype, reference=adds, candidate=adds), ["scale"])
    for operand in (case.x, case.residual):
        rows = operand.astype(np.float64).reshape(4, 4, 64)
        ratios = rows / rows[:, :1]
        assert np.ptp(ratios, axis=(0, 2)).max() == 0
        factors = ratios[0, :, 0]
        assert (np.frexp(factors)[0] == 0.5).all()
        assert np.unique(factors).size == 4


def test_non_finite_values_stand_in_one_row_each(make_setup):
    rows = x_of(make_setup(), "nonfinite")
    kinds = sorted("".join(sorted(str(value) for value in row[~np.isfinite(row)])) for row in rows)
    assert kinds == [""] * 12 + ["-inf", "inf", "infnan", "nan"]


def test_a_format_without_infinity_has_the_nan_alone(make_setup):
    rows = x_of(make_setup("float8_e4m3fn"), "nonfinite")
    assert np.isnan(rows).sum() == 1
    assert not np.isinf(rows).any()


def test_a_residual_does_not_add_a_second_place(make_setup):
    adds = {"residual": "add"}
    ((_, (case,)),) = battery.build(make_setup(reference=adds, candidate=adds), ["nonfinite"])
    assert np.isfinite(case.x).all()
    assert (~np.isfinite(case.residual)).sum() == 5


def test_what_makes_a_category_survives_the_addition_of_a_residual(make_setup):
    adds = {"residual": "add"}
    setup = make_setup(reference=adds, candidate=adds)
    for name, chosen in (("spike", None), ("tail", np.arange(64) >= 60)):
        ((_, (case, *_)),) = battery.build(setup, [name])
        stream = case.x.astype(np.float64) + case.residual
        loudest = np.arange(64) == np.abs(stream).argmax(axis=1)[:, None]
        assert energy_share(stream, loudest if chosen is None else chosen).min() > 0.95
