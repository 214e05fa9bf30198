"""Each variable is seen by some category; where a change cannot be seen, that is named and asserted.

A change is seen by a category where, on one of its cases, the bits of the two outputs differ or their dtypes do. That a
change is hidden follows from the spec (SAME, NO_CAST, ...) or holds for the numbers of this battery (BELOW).
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.arrays import bits
from rmsaudit.battery import Setup, Skipped
from rmsaudit.emulator import emulate
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import at_width, resolve

PAIRS = {  # dtype of input and gain
    "float32": ("float32", "float32"),
    "bfloat16": ("bfloat16", "bfloat16"),
    "float16": ("float16", "float16"),
    "bfloat16 with float32 gain": ("bfloat16", "float32"),
}
F32, BF16, F16, MIXED = PAIRS

GAIN_THEN_CAST: dict[str, Any] = {}
CAST_THEN_GAIN = {"cast_point": "before_gain"}  # Llama
IN_INPUT = {"compute_dtype": "input"}  # no upcast: each operation rounds to the dtype of the input
ADDS = {"residual": "add"}
ADDS_ROUNDED = {"residual": "add", "statistic_source": "rounded", "numerator_source": "rounded"}
OFFSET = {"gain_offset": 1.0}  # Gemma
OUTSIDE = {"eps_placement": "outside_sqrt"}
GAIN_INSIDE = {"gain_position": "before_statistic", "compute_dtype": "float32", "output_dtype": "float32"}
FLUSHING = {"subnormals": "flush", "output_dtype": "float32", "gain_dtype": "float32"}

# Why a change is hidden
SAME = "both words stand for one dtype, or for one that holds every value there is here"
NO_CAST = "nothing is narrower than float32, so no rounding point rounds"
BELOW = "the two differ by an ulp of float32 or so, which the rounding of the output covers but for rare elements"
ONE_ROUNDING = "the product is rounded to bfloat16 in any case, and its float32 value holds it exactly"
SHARED = "both sides are given numbers that the dtypes of both hold"
NOT_HALF = "weight_if_half casts to a gain dtype of 16 bits, and this one has 32"
ALIKE = "torch computes both alike on a CPU, and so does the emulator"


@dataclass(frozen=True, eq=False)
class Change:
    variable: str
    base: dict[str, Any]
    before: Any
    after: Any
    hidden: dict[str, str] = field(default_factory=dict)
    width: int = 48
    declared_gain: bool = False

    def __str__(self) -> str:
        base = ",".join(f"{name}={value}" for name, value in self.base.items())
        return f"{self.variable}:{self.before}->{self.after}[{base}]@{self.width}"


def everywhere(reason: str) -> dict[str, str]:
    return dict.fromkeys(PAIRS, reason)


def narrow(reason: str) -> dict[str, str]:
    return dict.fromkeys((BF16, F16, MIXED), reason)


CHANGES = (
    Change("axes", GAIN_THEN_CAST, (-1,), (-2,)),
    Change("axes", GAIN_THEN_CAST, (-1,), (-2, -1)),
    Change("groups", CAST_THEN_GAIN, 1, 4),
    Change("statistic_width", GAIN_THEN_CAST, "all", 16),
    Change("statistic_width", GAIN_THEN_CAST, "all", 0.75),
    Change("input_dtype", GAIN_INSIDE, "float32", "bfloat16"),
    Change("input_dtype", FLUSHING, "float32", "float16"),
    Change("input_clamp", CAST_THEN_GAIN, "none", 100.0),
    Change("prescale", CAST_THEN_GAIN, "none", "max_abs"),
    Change("residual", CAST_THEN_GAIN, "none", "add"),
    Change("residual_dtype", ADDS, "float32", "bfloat16", everywhere(SHARED)),
    Change("residual_dtype", ADDS | {"subnormals": "flush"}, "float32", "float16"),
    Change("statistic_source", ADDS, "unrounded", "rounded", {F32: NO_CAST}),
    Change("numerator_source", ADDS, "unrounded", "rounded", {F32: NO_CAST}),
    Change("residual_out_dtype", ADDS_ROUNDED, "input", "float32", {F32: SAME}),
    Change("residual_out_dtype", ADDS_ROUNDED, "input", "bfloat16", {BF16: SAME, MIXED: SAME}),
    Change("gain_position", CAST_THEN_GAIN, "after_normalize", "before_statistic"),
    Change("center", GAIN_THEN_CAST, False, True),
    Change("statistic", GAIN_THEN_CAST, "mean_square", "sum_square"),
    Change("statistic", GAIN_THEN_CAST, "mean_square", "variance"),
    Change("statistic_algorithm", GAIN_THEN_CAST, "direct", "variance_plus_mean_square"),
    Change("statistic_algorithm", GAIN_THEN_CAST, "direct", "max_scaled"),
    Change("compute_dtype", CAST_THEN_GAIN, "float32", "input", {F32: SAME}),
    Change("compute_dtype", CAST_THEN_GAIN, "float32", "float64", {F16: BELOW}),
    Change("square_dtype", CAST_THEN_GAIN, "compute", "input", {F32: SAME}),
    Change("square_dtype", GAIN_THEN_CAST, "compute", "float16"),
    Change("square_dtype", GAIN_THEN_CAST | {"accumulate_dtype": "float64"}, "compute", "float64", {F16: BELOW}),
    Change("accumulate_dtype", CAST_THEN_GAIN, "compute", "input", {F32: SAME}),
    Change("accumulate_dtype", CAST_THEN_GAIN, "compute", "float16"),
    Change("accumulate_dtype", CAST_THEN_GAIN, "compute", "float64"),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "sequential", narrow(BELOW)),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "torch_cpu", narrow(BELOW)),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "lanes:8", narrow(BELOW)),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "blocks:8", {BF16: BELOW, MIXED: BELOW}),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "exact", narrow(BELOW)),
    Change("accumulate_order", GAIN_THEN_CAST, "pairwise", "sequential", width=1000),
    Change("accumulate_order", {"accumulate_dtype": "input"}, "pairwise", "sequential"),
    Change("mean_scaling", GAIN_THEN_CAST, "divide_by_n", "multiply_by_reciprocal", narrow(BELOW)),
    Change("mean_scaling", GAIN_THEN_CAST, "divide_by_n", "per_element"),
    Change("mean_scaling", OUTSIDE, "divide_by_n", "after_root", narrow(BELOW)),
    Change("mean_scaling", IN_INPUT, "divide_by_n", "multiply_by_reciprocal"),
    Change("mean_dtype", CAST_THEN_GAIN, "statistic", "input", {F32: SAME}),
    Change("mean_dtype", GAIN_THEN_CAST, "statistic", "bfloat16"),
    Change("statistic_dtype", CAST_THEN_GAIN, "compute", "input", {F32: SAME}),
    Change("statistic_dtype", CAST_THEN_GAIN, "compute", "bfloat16"),
    Change("statistic_dtype", {"eps": 1e-12, "eps_dtype": "float32"}, "float32", "float16"),
    Change("eps", CAST_THEN_GAIN, 1e-6, 1e-5),
    Change("eps", GAIN_THEN_CAST, 1e-6, 2e-6),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "inside_sum"),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "outside_sqrt"),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "floor_rms"),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "floor_norm"),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "floor_sum"),
    Change("eps_placement", CAST_THEN_GAIN, "inside_sqrt", "none"),
    Change("eps_dtype", CAST_THEN_GAIN, "statistic", "input", {F32: SAME}),
    Change("eps_dtype", CAST_THEN_GAIN, "statistic", "float16"),
    Change("eps_dtype", CAST_THEN_GAIN, "statistic", "float64", everywhere(BELOW)),
    Change("eps_min", CAST_THEN_GAIN, "none", 1e-5),
    Change("inverse", GAIN_THEN_CAST, "reciprocal_of_sqrt", "rsqrt", {F16: BELOW, MIXED: BELOW}),
    Change("inverse", GAIN_THEN_CAST, "reciprocal_of_sqrt", "divide_by_sqrt", narrow(BELOW)),
    Change("inverse", GAIN_THEN_CAST, "reciprocal_of_sqrt", "divide_by_sqrt", {BF16: BELOW, MIXED: BELOW}, width=1000),
    Change("inverse", CAST_THEN_GAIN, "reciprocal_of_sqrt", "divide_by_sqrt", narrow(BELOW)),
    Change("inverse", GAIN_THEN_CAST, "reciprocal_of_sqrt", "power", everywhere(ALIKE)),
    Change("inverse", IN_INPUT, "reciprocal_of_sqrt", "rsqrt"),
    Change("inverse", IN_INPUT, "reciprocal_of_sqrt", "divide_by_sqrt"),
    Change("inverse_dtype", CAST_THEN_GAIN, "statistic", "input", {F32: SAME}),
    Change("inverse_dtype", CAST_THEN_GAIN, "statistic", "bfloat16"),
    Change("gain_applied", CAST_THEN_GAIN, True, False),
    Change("gain_dtype", CAST_THEN_GAIN, "float32", "bfloat16", everywhere(SHARED)),
    Change("gain_dtype", CAST_THEN_GAIN, "float32", "bfloat16", declared_gain=True),
    Change("gain_cast", CAST_THEN_GAIN, "none", "bfloat16", {BF16: SAME}),
    Change("gain_cast", CAST_THEN_GAIN, "none", "input", {F32: SAME, BF16: SAME, F16: SAME}),
    Change("gain_cast", CAST_THEN_GAIN, "none", "float32", everywhere(SAME)),
    Change("gain_offset", GAIN_THEN_CAST, 0.0, 1.0),
    Change("gain_offset_dtype", OFFSET, "compute", "gain", {F32: SAME, MIXED: SAME}),
    Change("association", GAIN_THEN_CAST, "(x*i)*g", "(x*g)*i"),
    Change("association", GAIN_THEN_CAST, "(x*i)*g", "x*(i*g)", narrow(BELOW)),
    Change("association", IN_INPUT, "(x*i)*g", "(x*g)*i"),
    Change("association", IN_INPUT, "(x*i)*g", "x*(i*g)"),
    Change("association", GAIN_THEN_CAST, "(x*i)*g", "x*(i*g)", {BF16: BELOW}, width=1000),
    Change("cast_point", GAIN_THEN_CAST, "after_gain", "before_gain", {F32: NO_CAST}),
    Change("cast_point", GAIN_THEN_CAST, "after_gain", "weight_if_half", {F32: NOT_HALF, MIXED: NOT_HALF}),
    Change("normalized_dtype", CAST_THEN_GAIN, "input", "float32", {F32: SAME}),
    Change("normalized_dtype", CAST_THEN_GAIN, "input", "bfloat16", {BF16: SAME, MIXED: SAME}),
    Change(
        "gain_product_dtype",
        CAST_THEN_GAIN,
        "operands",
        "float32",
        {F32: SAME, BF16: ONE_ROUNDING, F16: ONE_ROUNDING, MIXED: SAME},
    ),
    Change("gain_product_dtype", CAST_THEN_GAIN | {"bias": True}, "operands", "float32", {F32: SAME, MIXED: SAME}),
    Change(
        "gain_product_dtype",
        CAST_THEN_GAIN | {"output_dtype": "product"},
        "operands",
        "float32",
        {F32: SAME, MIXED: SAME},
    ),
    Change("bias", CAST_THEN_GAIN, False, True),
    Change("post_scale", CAST_THEN_GAIN, "none", "sqrt_width"),
    Change("output_dtype", CAST_THEN_GAIN, "input", "float32", {F32: SAME}),
    Change("output_dtype", GAIN_THEN_CAST, "input", "bfloat16", {BF16: SAME, MIXED: SAME}),
    Change("output_clamp", CAST_THEN_GAIN, "none", 2.0),
    Change("subnormals", CAST_THEN_GAIN, "keep", "flush"),
    Change("rounding", CAST_THEN_GAIN, "nearest_even", "toward_zero", {F32: NO_CAST}),
)


@cache
def seen_by(change: Change, pair: str) -> tuple[str, ...]:
    """The categories that see it."""
    input_dtype, gain_dtype = PAIRS[pair]
    declared = {"width": change.width, "input_dtype": input_dtype, "gain_dtype": gain_dtype} | change.base
    reference = resolve(declared | {change.variable: change.before})
    candidate = resolve(declared | {change.variable: change.after})
    gain = np.linspace(-1.9, 1.7, change.width, dtype=np.float32) if change.declared_gain else None
    setup = Setup(reference=reference, candidate=candidate, rows=10, gain=gain)
    parts = [part for part in battery.build(setup) if not isinstance(part, Skipped)]
    return tuple(
        category.name for category, cases in parts if any(_differs(reference, candidate, case) for case in cases)
    )


def _differs(reference: NormSpec, candidate: NormSpec, case: battery.Case) -> bool:
    outputs = [emulate(at_width(spec, case.width), case) for spec in (reference, candidate)]
    return outputs[0].dtype != outputs[1].dtype or bool((bits(outputs[0]) != bits(outputs[1])).any())


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_seen_unless_it_is_said_to_be_hidden(change, pair):
    assert bool(seen_by(change, pair)) == (pair not in change.hidden)


def test_every_variable_is_seen_by_some_category():
    seen = {change.variable for change in CHANGES for pair in PAIRS if seen_by(change, pair)}
    assert seen == set(variables()) - {"width"}


def test_sides_of_another_width_are_not_compared_at_all():
    """The one variable that no category can show: no input fits both sides."""
    with pytest.raises(ValueError, match="no input fits both"):
        Setup(reference=resolve({"width": 48}), candidate=resolve({"width": 64}))


@pytest.mark.parametrize("name", battery.names())
def test_a_category_reveals_what_it_says(name):
    seen = {change.variable for change in CHANGES for pair in PAIRS if name in seen_by(change, pair)}
    assert set(battery.describe(name).reveals) <= seen


def test_each_variable_is_claimed_by_a_category():
    claimed = {variable for name in battery.names() for variable in battery.describe(name).reveals}
    assert claimed == set(variables()) - {"width"}


def test_exact_sums_do_not_see_the_order_that_ordinary_rows_see():
    orders = [change for change in CHANGES if change.variable == "accumulate_order" and not change.base]
    for change in orders:
        assert "exact-sum" not in seen_by(change, F32)
    assert any("ordinary" in seen_by(change, F32) for change in orders)


def test_bfloat16_shows_association_only_where_a_product_overflows():
    (change,) = (c for c in CHANGES if c.variable == "association" and c.after == "(x*g)*i" and not c.base)
    assert seen_by(change, BF16) == ("large",)


def test_a_spec_is_not_seen_to_differ_from_itself():
    """The twin: what sees changes does not see them where there are none."""
    nothing = Change("eps", CAST_THEN_GAIN, 1e-6, 1e-6)
    assert not any(seen_by(nothing, pair) for pair in PAIRS)
