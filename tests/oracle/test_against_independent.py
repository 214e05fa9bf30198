"""Every formula that the variables can express, against the second oracle in conftest.py: not one output may differ."""

from dataclasses import fields
from itertools import product
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import round_to
from rmsaudit.oracle import Operands, Tiers, answer, formula
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import PLACEMENTS
from rmsaudit.semantics.resolve import CannotResolve, resolve

OUTPUTS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
ROWS, WIDTH = 3, 36
NARROW = {
    "ordinary": lambda r, s: r.standard_normal(s),
    "whole numbers": lambda r, s: r.integers(-4, 5, s).astype(np.float64),
    "powers of two": lambda r, s: r.choice([-1.0, 1.0], s) * 2.0 ** r.integers(-6, 6, s),
    "constant": lambda r, s: np.broadcast_to(r.choice([1.0, -3.0, 2.5, 0.1, 1e-3], (s[0], *[1] * (len(s) - 1))), s),
    "offset": lambda r, s: r.standard_normal(s) + r.choice([10.0, 1e3, 1e6]),
    "spike": lambda r, s: np.where(r.random(s) < 0.1, 100.0, 0.0),
    "mixed": lambda r, s: r.standard_normal(s) * 10.0 ** r.integers(-30, 30, s),
    "near eps": lambda r, s: r.standard_normal(s) * 1e-3,
    "1e-39": lambda r, s: r.standard_normal(s) * 1e-39,
    "subnormal": lambda r, s: r.standard_normal(s) * 1e-44,
    "large": lambda r, s: r.standard_normal(s) * 3e37,
    "zeros": lambda r, s: r.choice([0.0, -0.0], s),
    "half zeros": lambda r, s: np.where(r.random(s) < 0.5, r.choice([0.0, -0.0], s), r.standard_normal(s)),
    "non-finite": lambda r, s: np.where(
        r.random(s) < 0.02, r.choice([np.nan, np.inf, -np.inf], s), r.standard_normal(s)
    ),
}
WIDE = {
    "1e200": lambda r, s: r.standard_normal(s) * 1e200,
    "edge of float64": lambda r, s: r.uniform(-1.0, 1.0, s) * 1.7e308,
    "float64 subnormal": lambda r, s: r.standard_normal(s) * 1e-320,
    "1e-200": lambda r, s: r.standard_normal(s) * 1e-200,
    "10^±300": lambda r, s: r.standard_normal(s) * 10.0 ** r.integers(-300, 300, s),
}
STATISTICS = [
    {"statistic": "mean_square"},
    {"statistic": "sum_square"},
    {"statistic": "variance"},
    {"center": True},
    {"center": True, "statistic": "variance", "statistic_width": 0.5},
]
OPTIONS = [
    {},
    {"groups": 3, "bias": True},
    {"statistic_width": 0.25, "gain_offset": 1.0},
    {"residual": "add", "post_scale": "sqrt_width"},
    {"prescale": "max_abs", "post_scale": 0.1},
    {"input_clamp": 0.1, "gain_offset": 0.1, "bias": True},
    {"gain_position": "before_statistic", "output_clamp": 0.3},
    {"gain_position": "before_statistic", "gain_offset": -1.0, "residual": "add", "input_clamp": 2.0},
    {"axes": (-2,), "gain_applied": False},
    {"axes": (-2, -1), "eps_min": 1e-4, "post_scale": -3.0},
]
EPS = (1e-6, 1e-5, 3.0, 0.1, 1e-12, 1e-300)


def spec_of(declared: dict[str, Any]) -> NormSpec | None:
    try:
        return resolve({"width": WIDTH, "eps_dtype": "float64", "compute_dtype": "float64", **declared})
    except CannotResolve:
        return None


def operands_for(spec: NormSpec, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    make = {**NARROW, **WIDE}[kind]
    gains = NARROW[("ordinary", "whole numbers", "powers of two", "half zeros")[int(rng.integers(4))]]
    x = round_to(np.array(make(rng, (ROWS, WIDTH))), spec.input_dtype)
    other = -x.astype(np.float64) if rng.random() < 0.3 else rng.standard_normal((ROWS, WIDTH))
    return {
        "x": x,
        "gain": round_to(np.array(gains(rng, (WIDTH,))), spec.gain_dtype),
        "bias": round_to(rng.integers(-8, 9, WIDTH) / 8.0, spec.gain_dtype),
        "residual": round_to(other, spec.residual_dtype),
    }


def disagreements(spec: NormSpec, operands: dict[str, Any], dtype: str, independent: Any) -> tuple[int, Tiers]:
    answered = answer(formula(spec), Operands(**operands), dtype)
    ours, theirs = answered.values.astype(np.float64), independent(spec, operands, dtype)
    same = (ours == theirs) & (np.signbit(ours) == np.signbit(theirs))
    assert answered.tiers.total == ours.size
    return int(np.count_nonzero(~(same | (np.isnan(ours) & np.isnan(theirs))))), answered.tiers


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_output_differs(placement: str, independent: Any) -> None:
    """About 17 000 outputs a placement: every statistic with every kind of input; options and dtypes in rotation."""
    rng = np.random.default_rng(PLACEMENTS.index(placement))
    tiers = Tiers()
    with np.errstate(all="ignore"):
        for number, (statistic, kind) in enumerate(product(STATISTICS, [*NARROW, *WIDE])):
            input_dtype = "float64" if kind in WIDE else ("float32", "bfloat16", "float64")[number % 3]
            options = OPTIONS[number % len(OPTIONS)]
            eps = EPS[int(rng.integers(len(EPS)))]
            declared = {**options, **statistic, "eps": eps, "eps_placement": placement, "input_dtype": input_dtype}
            spec = spec_of({**declared, "gain_dtype": ("float32", "float64", "bfloat16")[number // 3 % 3]})
            if spec is None:
                continue
            operands = operands_for(spec, kind, rng)
            for dtype in (OUTPUTS[number % 6], OUTPUTS[(number // 6 + 1 + number) % 6]):
                wrong, decided = disagreements(spec, operands, dtype, independent)
                assert wrong == 0, f"{wrong} wrong: {declared} on {kind} to {dtype}"
                tiers += decided
    assert tiers.total > 15_000
    assert min(tiers.float64, tiers.double_double, tiers.integers, tiers.by_rule) > 0  # every tier was put to the test


def test_the_comparison_sees_one_wrong_output(independent: Any) -> None:
    """The twin that must fail: the same operands under another eps."""
    rng = np.random.default_rng(0)
    spec, other = spec_of({"eps": 1e-3}), spec_of({"eps": 2e-3})
    assert spec is not None
    assert other is not None
    operands = operands_for(spec, "ordinary", rng)
    theirs = independent(other, operands, "float32")
    assert (answer(formula(spec), Operands(**operands), "float32").values.astype(np.float64) != theirs).any()


@pytest.mark.parametrize("dtype", OUTPUTS)
@pytest.mark.parametrize("kind", ["ordinary", "mixed", "1e-39", "near eps"])
def test_wide_rows_and_chunks_of_sums(dtype: str, kind: str, independent: Any) -> None:
    """Widths that are and are not multiples of a chunk of tier 1's sums; several blocks of rows."""
    rng = np.random.default_rng(7)
    for width in (257, 1000):
        spec = resolve({"width": width, "input_dtype": "float32", "output_dtype": dtype})
        x = round_to(np.array(NARROW[kind](rng, (2, width))), "float32")
        gain = rng.standard_normal(width).astype(np.float32)
        operands = {"x": x, "gain": gain, "bias": gain, "residual": x}
        assert disagreements(spec, operands, dtype, independent)[0] == 0


def test_every_field_of_a_spec_is_read_or_known_to_be_about_rounding() -> None:
    """A new variable must be sorted: into the formula, or into this list."""
    rounding_only = {
        "statistic_source", "numerator_source", "residual_out_dtype", "statistic_algorithm", "compute_dtype",
        "square_dtype", "accumulate_dtype", "accumulate_order", "mean_scaling", "mean_dtype", "statistic_dtype",
        "eps_dtype", "inverse", "inverse_dtype", "gain_cast", "gain_offset_dtype", "association", "cast_point",
        "normalized_dtype", "gain_product_dtype", "output_dtype", "subnormals", "rounding",
    }  # fmt: skip
    in_the_formula = {
        "width", "axes", "groups", "statistic_width", "input_dtype", "input_clamp", "prescale", "residual",
        "residual_dtype", "gain_position", "center", "statistic", "eps", "eps_placement", "eps_min", "gain_applied",
        "gain_dtype", "gain_offset", "bias", "post_scale", "output_clamp",
    }  # fmt: skip
    assert {f.name for f in fields(NormSpec)} == rounding_only | in_the_formula
