"""Which specs ask the same question."""

from fractions import Fraction
from typing import Any

import pytest

from rmsaudit.oracle import Formula, formula
from rmsaudit.semantics.resolve import resolve


def of(**declared: Any) -> Formula:
    return formula(resolve({"width": 8, "eps_dtype": "float32", **declared}))


@pytest.mark.parametrize(
    "rounding",
    [
        {"compute_dtype": "float64"},
        {"accumulate_order": "sequential"},
        {"inverse": "rsqrt"},
        {"association": "x*(i*g)"},
        {"cast_point": "before_gain"},
        {"gain_cast": "bfloat16"},
        {"mean_scaling": "multiply_by_reciprocal"},
        {"statistic_algorithm": "max_scaled"},
        {"output_dtype": "bfloat16"},
        {"subnormals": "flush"},
        {"rounding": "toward_zero"},
        {"eps_dtype": "bfloat16"},
        {"statistic_width": 8},
        {"statistic_width": 1.0},
        {"post_scale": 1.0},
        {"eps_min": 1e-7},
    ],
)
def test_what_is_only_about_rounding_asks_the_same(rounding: dict[str, Any]) -> None:
    assert of(**rounding) == of()
    assert hash(of(**rounding)) == hash(of())


@pytest.mark.parametrize(
    "change",
    [
        {"width": 16},
        {"eps": 1e-5},
        {"eps_placement": "outside_sqrt"},
        {"eps_min": 1e-5},
        {"center": True},
        {"statistic": "sum_square"},
        {"statistic_width": 0.5},
        {"gain_offset": 1.0},
        {"gain_applied": False},
        {"gain_position": "before_statistic"},
        {"bias": True},
        {"residual": "add"},
        {"prescale": "max_abs"},
        {"input_clamp": 3.0},
        {"output_clamp": 3.0},
        {"post_scale": "sqrt_width"},
        {"groups": 2},
        {"axes": (-2,)},
        {"input_dtype": "bfloat16"},
    ],
)
def test_what_changes_the_question(change: dict[str, Any]) -> None:
    assert of(**change) != of()


def test_placements_that_are_one_formula() -> None:
    """max(√Σ, eps) / √k = √(max(Σ, eps²) / k); a sum that is the statistic has one inside; eps that is nowhere."""
    assert of(eps_placement="floor_norm") == of(eps_placement="floor_sum")
    assert of(eps_placement="floor_norm") != of(eps_placement="floor_rms")
    a_sum = {"statistic": "sum_square"}
    assert of(eps_placement="inside_sqrt", **a_sum) == of(eps_placement="inside_sum", **a_sum)
    assert of(eps_placement="floor_rms", **a_sum) == of(eps_placement="floor_sum", **a_sum)
    assert of(eps_placement="none", eps=1e-3) == of(eps_placement="none", eps=1e-6)
    assert of(center=True, statistic="variance") == of(center=True)


def test_numbers_are_what_was_written() -> None:
    asked = of(eps=1e-6, post_scale=0.1, input_clamp=448.0, gain_offset=1.0)
    assert asked.eps == Fraction(1, 10**6)
    assert asked.post_scale == Fraction(1, 10)
    assert asked.input_clamp == 448
    assert asked.gain_offset == 1
