"""NaN, infinities and zeros: the table in `rmsaudit.oracle.rules`, line by line, by hand."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from rmsaudit.oracle import Operands, answer, formula
from rmsaudit.semantics.eps import PLACEMENTS
from rmsaudit.semantics.resolve import resolve

DTYPES = ("float64", "float32", "bfloat16", "float8_e4m3fn")


def row(x: list[float], dtype: str = "float64", *, gain: Any = None, bias: Any = None, **declared: Any) -> list[float]:
    """One row; float64 operands, eps 2^-20 and a gain of ones unless said otherwise."""
    width = len(x)
    usual = {"input_dtype": "float64", "gain_dtype": "float64", "compute_dtype": "float64", "eps": 2.0**-20}
    spec = resolve({"width": width, **usual, **declared, "bias": bias is not None})
    operands = Operands(
        x=np.array([x]), gain=np.ones(width) if gain is None else np.array(gain), bias=np.array(bias or [0.0] * width)
    )
    answered = answer(formula(spec), operands, dtype)
    return answered.values.astype(np.float64)[0].tolist()


def same(ours: list[float], by_hand: list[float]) -> None:
    """Equal, NaN for NaN, and of the same sign, zeros included."""
    np.testing.assert_array_equal(ours, by_hand)
    signs = [(np.signbit(y), np.signbit(h)) for y, h in zip(ours, by_hand, strict=True) if not np.isnan(h)]
    assert all(y == h for y, h in signs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_non_finite_element_in_the_statistic(placement: str, dtype: str) -> None:
    same(row([1.0, nan, -2.0], dtype, eps_placement=placement), [nan, nan, nan])
    same(row([1.0, inf, -2.0], dtype, eps_placement=placement), [0.0, nan, -0.0])
    same(row([-inf, inf, 0.0, -0.0], dtype, eps_placement=placement), [nan, nan, 0.0, -0.0])


@pytest.mark.parametrize("declared", [{"center": True}, {"statistic": "variance"}])
@pytest.mark.parametrize("special", [nan, inf, -inf])
def test_a_non_finite_element_under_a_mean(declared: dict[str, Any], special: float) -> None:
    same(row([1.0, special, -2.0], **declared), [nan, nan, nan])


def test_a_non_finite_element_outside_of_the_statistic() -> None:
    """A quarter of four elements is the first one; eps 0.25 and 3 · 2^-2 make the divisor 1."""
    partial = {"statistic_width": 0.25, "eps": 0.75}
    same(row([0.5, inf, nan, -inf], **partial), [0.5, inf, nan, -inf])
    same(row([0.5, inf, 2.0, -2.0], gain=[1, 0, 1, -1], **partial), [0.5, nan, 2.0, 2.0])
    same(row([0.5, inf, 2.0, -2.0], center=True, **partial), [nan] * 4)
    same(row([0.5, inf, 2.0, -2.0], prescale="max_abs", **partial), [0.0, nan, 0.0, -0.0])
    same(row([0.5, nan, 2.0, -2.0], prescale="max_abs", **partial), [nan] * 4)


def test_zero_divided_by_zero() -> None:
    same(row([0.0, -0.0], eps_placement="none"), [nan, nan])
    same(row([0.0, -0.0]), [0.0, -0.0])
    same(row([0.0, -0.0], prescale="max_abs"), [nan, nan])
    same(row([0.0, 3.0, -3.0, 0.0], statistic_width=1, eps_placement="none"), [nan, inf, -inf, nan])
    same(row([5.0, 5.0, 5.0], center=True, eps_placement="none"), [nan] * 3)
    same(row([5.0, 5.0, 6.0], statistic="variance", statistic_width=2, eps_placement="none"), [inf] * 3)
    same(row([3.0, 1.0, 5.0], center=True, statistic_width=1, eps_placement="none"), [nan, -inf, inf])


def test_overflow_of_an_infinite_result_without_infinity() -> None:
    """float8_e4m3fn has no infinity: NaN, unless a clamp limits it first."""
    partial: dict[str, Any] = {"statistic_width": 1, "eps_placement": "none"}
    same(row([0.0, 3.0], "float8_e4m3fn", **partial), [nan, nan])
    same(row([0.0, 3.0], "float8_e4m3fn", output_clamp=2.0, **partial), [nan, 2.0])
    same(row([0.0, -3.0], "float32", output_clamp=2.0, **partial), [nan, -2.0])


def test_signs_of_zeros() -> None:
    same(row([0.0, -0.0, 0.0, 1.0], gain=[-1, -1, 1, 0]), [-0.0, 0.0, 0.0, 0.0])
    same(row([0.0, -0.0, 1.0], post_scale=-1.0, gain=[1, 1, -0.0])[:2], [-0.0, 0.0])
    same(row([1.0, 1.0], gain=[-1.0, -0.0], gain_offset=1.0, eps_placement="none"), [0.0, 1.0])
    same(row([-1.0, 1.0], gain=[0.0, 0.0]), [-0.0, 0.0])


def test_zeros_about_a_mean() -> None:
    """x − x is +0, whatever x; −0 − 0 is −0, and so is none of −0 − (−0)."""
    same(row([5.0, 5.0], center=True), [0.0, 0.0])
    same(row([-0.0, -0.0], center=True), [0.0, 0.0])
    same(row([-0.0, 0.0], center=True), [-0.0, 0.0])
    same(row([-0.0, 2.0, -2.0], center=True, eps_placement="none")[:1], [-0.0])
    same(row([1.0, 0.0, 2.0], center=True, eps_placement="none")[:1], [0.0])
    same(row([1.0, 0.0, 2.0], center=True, gain=[-1.0, 0.0, 0.0]), [-0.0, -0.0, 0.0])


def test_a_bias() -> None:
    """A zero leaves the bias alone; inf − inf is NaN; −0 only as −0 + −0; p − p is +0."""
    same(row([0.0, -0.0, -0.0], bias=[0.1, 0.0, -0.0]), [0.1, 0.0, -0.0])
    same(row([0.0, 0.0], "bfloat16", bias=[1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-50]), [1.0, 1 + 2.0**-7])
    same(row([1.0, 1.0, -1.0], bias=[inf, nan, -inf]), [inf, nan, -inf])
    same(row([1.0, 1.0], bias=[-1.0, 1.0], eps_placement="none"), [0.0, 2.0])
    partial: dict[str, Any] = {"statistic_width": 1, "eps": 3.0}
    same(row([1.0, inf, inf], bias=[0.0, -inf, 1.0], **partial), [0.5, nan, inf])


def test_a_non_finite_gain() -> None:
    same(row([1.0, 0.0, -1.0, 1.0], gain=[inf, inf, inf, nan]), [inf, nan, -inf, nan])
    same(row([1.0, 2.0, 6.0], gain=[inf, -inf, inf], center=True), [-inf, inf, inf])
    same(row([1.0, 2.0], gain=[1.0, inf], gain_position="before_statistic"), [0.0, nan])


def test_an_input_clamp_makes_infinities_finite() -> None:
    same(row([inf, -inf, nan], input_clamp=2.0), [nan] * 3)
    same(row([inf, -inf, 3.0, -1e300], input_clamp=2.0, eps_placement="none"), [1.0, -1.0, 1.0, -1.0])
    same(row([-5.0, 0.0, inf], input_clamp=0.0), [-0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("statistic", "by_hand"), [("mean_square", [nan, nan]), ("variance", [nan, nan]), ("sum_square", [0.5, -1.0])]
)
def test_a_statistic_over_nothing(statistic: str, by_hand: list[float]) -> None:
    """int(2 · 0.25) = 0 elements of each column: a mean is 0/0, a sum is 0."""
    spec = resolve({"width": 4, "axes": (-2,), "statistic_width": 0.25, "statistic": statistic, "eps": 4.0})
    x = np.array([[1.0] * 4, [-2.0] * 4])
    for dtype in ("float64", "float32"):
        values = answer(formula(spec), Operands(x=x, gain=np.ones(4)), dtype).values
        np.testing.assert_array_equal(values, np.array([by_hand] * 4).T)
