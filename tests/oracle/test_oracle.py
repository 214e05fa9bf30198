"""Results that can be said in advance, and what an answer carries besides its values."""

from math import nan, sqrt
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest

from rmsaudit.case import Case
from rmsaudit.oracle import Answer, Operands, answer, formula, oracle, oracle_each
from rmsaudit.semantics.resolve import resolve

FLOAT64 = {"input_dtype": "float64", "gain_dtype": "float64", "compute_dtype": "float64", "eps_dtype": "float64"}


def ask(x: Any, dtype: str = "float64", *, gain: Any = None, **declared: Any) -> Answer:
    x = np.atleast_2d(x)
    gain = np.ones(x.shape[-1]) if gain is None else np.asarray(gain, dtype=np.float64)
    spec = resolve({"width": x.shape[-1], **FLOAT64, **declared})
    return answer(formula(spec), Operands(x=x, gain=gain, bias=np.zeros_like(gain), residual=np.zeros(x.shape)), dtype)


def row(x: Any, dtype: str = "float64", **declared: Any) -> list[float]:
    return ask(np.asarray(x, dtype=np.float64), dtype, **declared).values.astype(np.float64)[0].tolist()


def correctly_rounded(value: Any) -> float:
    """An mpmath number at 60 digits, rounded to the nearest float64."""
    with mpmath.workdps(60):
        return float(value())


@pytest.mark.parametrize(
    ("ratio", "attenuation"), [(0.01, 0.099504), (0.1, 0.301511), (1, 0.707107), (10, 0.953463), (100, 0.995037)]
)
def test_attenuation(ratio: float, attenuation: float) -> None:
    """A constant row with q / eps = ratio: every output is √(q / (q + eps))."""
    eps = 2.0**-20
    (y, _) = row([sqrt(ratio * eps)] * 2, eps=eps)
    assert y == pytest.approx(attenuation, abs=5e-7)  # the numbers have six digits


def test_zeros_give_zeros() -> None:
    answered = ask([[0.0, -0.0, 0.0]], gain=[1.0, 1.0, -1.0])
    assert answered.values[0].tolist() == [0, 0, 0]
    assert np.signbit(answered.values[0]).tolist() == [False, True, True]


def test_rows_at_the_edges_of_float64() -> None:
    assert row([1e200, -1e200]) == [1.0, -1.0]
    assert row([1.7e308, 1.7e308]) == [1.0, 1.0]
    assert row([5e-324, 5e-324], eps_placement="none") == [1.0, 1.0]
    assert row([5e-324, 0.0], eps_placement="none") == [sqrt(2), 0.0]
    assert row([5e-324, 5e-324], eps=1e-6) == [1000 * 5e-324] * 2
    assert row([1e308, 1e-308], "float32", eps_placement="none") == [pytest.approx(sqrt(2)), 0.0]


def test_small_rows_by_hand() -> None:
    assert row([2.0**-4] * 2, eps=2.0**-8) == [correctly_rounded(lambda: 1 / mpmath.sqrt(2))] * 2
    assert row([1e-3, 1e-3], "float32", eps=1e-6) == [float(np.float32(1 / sqrt(2)))] * 2
    assert row([1e-3, 1e-3], "float32", eps=1e-4) == [float(np.float32(1 / sqrt(101)))] * 2
    assert row([1e-3], "float32", eps=1e-6)[0] == pytest.approx(0.707107, abs=5e-7)
    assert row([1e-3], "float32", eps=1e-6, eps_placement="outside_sqrt")[0] == pytest.approx(0.999001, abs=5e-7)


def test_eps_is_the_number_that_was_written() -> None:
    """1e-3 as a float64 and eps = 1e-6 as a decimal: neither is what the other would suggest."""
    exact = correctly_rounded(lambda: mpmath.mpf(1e-3) / mpmath.sqrt(mpmath.mpf(1e-3) ** 2 + mpmath.mpf("1e-6")))
    as_float = correctly_rounded(lambda: mpmath.mpf(1e-3) / mpmath.sqrt(mpmath.mpf(1e-3) ** 2 + mpmath.mpf(1e-6)))
    assert row([1e-3], eps=1e-6) == [exact]
    assert abs(exact - as_float) <= 2.0**-53  # they can only be told apart in float64's last bit


def test_half_precision_rows_that_overflow_on_the_direct_path() -> None:
    assert row([256.0, 256.0], "float16", input_dtype="float16") == [1.0, 1.0]
    assert row([3e38] * 4, "float32", input_dtype="float32") == [1.0] * 4


def test_scaling_the_input_scales_eps() -> None:
    """norm(c · x, eps) = norm(x, eps / c²), for every power of two c."""
    x = np.random.default_rng(3).standard_normal((2, 50))
    for power in (-20, 7):
        scaled = ask(x * 2.0**power, "float64", eps=2.0**-10).values
        np.testing.assert_array_equal(scaled, ask(x, "float64", eps=2.0 ** (-10 - 2 * power)).values)


def test_a_uniform_shift_changes_rmsnorm_and_leaves_layernorm_alone() -> None:
    x = np.random.default_rng(4).integers(-100, 100, (2, 50)) / 8.0
    for declared in ({"center": True}, {"center": True, "statistic": "variance"}):
        np.testing.assert_array_equal(ask(x, **declared).values, ask(x + 1024.0, **declared).values)
    assert (ask(x).values != ask(x + 1024.0).values).all()


def test_groups_axes_and_leading_elements_by_hand() -> None:
    x = np.array([[3.0, 4.0, 6.0, 8.0], [1.0, 1.0, 2.0, 2.0]])
    none = {"eps_placement": "none"}
    root = sqrt(2)
    grouped = ask(x, groups=2, statistic="sum_square", **none).values
    np.testing.assert_array_equal(grouped[0], [0.6, 0.8, 0.6, 0.8])
    np.testing.assert_array_equal(ask(x, "float32", groups=2, **none).values[1], [1, 1, 1, 1])
    np.testing.assert_array_equal(ask(x, statistic_width=1, **none).values[0], [1, 4 / 3, 2, 8 / 3])
    columns = ask(x[:, :1] * 0 + [[3.0], [4.0]], axes=(-2,), statistic="sum_square", **none).values
    np.testing.assert_array_equal(columns[:, 0], [0.6, 0.8])
    everything = ask(np.full((2, 4), -5.0), axes=(-2, -1), post_scale="sqrt_width", **none).values
    np.testing.assert_array_equal(everything, np.full((2, 4), -2 * root))


def test_an_output_clamp_acts_before_the_overflow() -> None:
    """float8_e4m3fn turns 500 into NaN; min(500, 400) is a number."""
    gain = [500.0, -500.0, 300.0, 1e300]
    clamped = row([3.0] * 4, "float8_e4m3fn", eps_placement="none", gain=gain, output_clamp=400.0)
    assert clamped == [384.0, -384.0, 288.0, 384.0]  # 400 is a tie between 384 and 416
    np.testing.assert_array_equal(
        row([3.0] * 4, "float8_e4m3fn", eps_placement="none", gain=gain), [nan, nan, 288, nan]
    )


def test_input_is_taken_as_the_spec_stores_it() -> None:
    """1 + 2^-9 is no bfloat16: a spec whose input is bfloat16 sees 1."""
    x = [1.0 + 2.0**-9, 1.0]
    assert row(x, "float32", input_dtype="bfloat16", eps_placement="none") == [1.0, 1.0]
    assert row(x, "float32", eps_placement="none") != [1.0, 1.0]


def test_an_answer_for_a_case() -> None:
    rng = np.random.default_rng(0)
    x, gain = (
        rng.standard_normal((5, 64)).astype(ml_dtypes.bfloat16),
        rng.standard_normal(64).astype(ml_dtypes.bfloat16),
    )
    case = Case(category="ordinary", label="", x=x, gain=gain, bias=gain, residual=x)
    spec = resolve({"width": 64, "input_dtype": "bfloat16"})
    answered = oracle(spec, case)
    assert answered.values.dtype == ml_dtypes.bfloat16
    assert answered.values.shape == (5, 64)
    assert answered.tiers.total == answered.tiers.float64 == 320
    assert answered.approx is None
    assert oracle(spec, case, dtype="float32").values.dtype == np.float32


@pytest.mark.parametrize("declared", [{}, {"center": True}, {"bias": True}, {"input_dtype": "float64"}])
def test_approx_is_near(declared: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    x, gain = rng.standard_normal((3, 300)), rng.standard_normal(300)
    spec = resolve({"width": 300, "gain_dtype": "float64", **declared})
    operands = Operands(x=x, gain=gain, bias=gain)
    exact = answer(formula(spec), operands, "float64").values
    approx = answer(formula(spec), operands, "float32", with_approx=True).approx
    np.testing.assert_allclose(approx, exact, rtol=2.0**-40, atol=2.0**-40)  # as its docstring says


def test_rows_and_widths_of_any_size() -> None:
    assert ask(np.zeros((0, 4))).values.shape == (0, 4)
    assert row([-3.0], eps_placement="none") == [-1.0]
    tall = np.random.default_rng(2).standard_normal((300, 3))
    blocks = ask(tall, "float32", axes=(-2,)).values
    whole = ask(np.ascontiguousarray(tall.T), "float32", gain=np.ones(300)).values
    np.testing.assert_array_equal(blocks, whole.T)


def test_a_missing_operand_is_named() -> None:
    spec = resolve({"width": 2, "bias": True})
    with pytest.raises(ValueError, match="uses a bias"):
        answer(formula(spec), Operands(x=np.ones((1, 2)), gain=np.ones(2)), "float32")


@pytest.mark.parametrize(
    "declared", [{}, {"center": True}, {"residual": "add"}, {"gain_position": "before_statistic"}, {"groups": 5}]
)
def test_several_gains_at_once_are_each_alone(declared: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    x, residual = rng.normal(size=(2, 40, 5000)).astype(np.float32)
    gains = [rng.normal(size=5000).astype(np.float32) for _ in range(3)]
    bias = np.zeros(5000, np.float32)
    spec = resolve({"width": 5000, "input_dtype": "float32", **declared})
    case = Case(category="", label="", x=x, gain=gains[0], bias=bias, residual=residual)
    for gain, found in zip(gains, oracle_each(spec, case, gains), strict=True):
        alone = oracle(spec, case.with_gain(gain))
        np.testing.assert_array_equal(found.values, alone.values)
        assert found.tiers == alone.tiers
