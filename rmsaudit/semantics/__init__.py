"""What an RMSNorm is: a fixed expression whose choices are fields and whose named intermediates each have a dtype.

One file a stage, in the order the formula runs: scope, operands, statistic, eps, inverse, gain, output. A stage is a
frozen dataclass of choices beside the functions that obey them. Nothing here imports numpy: the arithmetic is handed
in, so the half of rmsaudit that only reads documents can know every variable without it.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rmsaudit.semantics import eps, gain, inverse, operands, output, scope, statistic
from rmsaudit.semantics.eps import Eps
from rmsaudit.semantics.gain import Gain
from rmsaudit.semantics.inverse import Inverse
from rmsaudit.semantics.operands import Operands
from rmsaudit.semantics.output import Output
from rmsaudit.semantics.scope import Scope
from rmsaudit.semantics.statistic import Statistic
from rmsaudit.semantics.steps import Watch, unwatched
from rmsaudit.semantics.variables import Variable, read_field

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic

STAGES = (Scope, Operands, Statistic, Eps, Inverse, Gain, Output)


@dataclass(frozen=True, kw_only=True)
class NormSpec(Output, Gain, Inverse, Eps, Statistic, Operands, Scope):
    """Every choice, resolved: no word in here stands for another variable. Made by `resolve.resolve`.

    A spec is each of its stages, so it is handed whole to a stage's functions. Equal specs compute equal bits.
    """


@cache
def variables() -> dict[str, Variable]:
    """Every variable by name, in stage order: the order in which the ladder changes them."""
    return {f.name: read_field(f.name, stage.__name__.lower(), f.metadata) for stage in STAGES for f in fields(stage)}


def evaluate(
    spec: NormSpec,
    x: "Array",
    gain_values: "Array",
    bias: "Array",
    residual: "Array",
    ar: "Arithmetic",
    watch: Watch = unwatched,
) -> "Array":
    """The norm of x[rows, width] as `spec` declares it, in output_dtype and the shape of x.

    gain_values, bias: [width]; residual: [rows, width]; each is read only where the spec uses it. watch: sees every
    step of `steps.STEPS` that the spec forms.
    """
    factor = factor_of(spec, gain_values, x.shape[0], ar)
    return finish(spec, reduce(spec, x, residual, factor, ar, watch), factor, bias, x.shape, ar, watch)


class Reduced(NamedTuple):
    """What the last products begin from: the numerators, and the factor or divisor of each row."""

    numerator: "Array"
    scale: "Array"
    divides: bool


def factor_of(spec: NormSpec, gain_values: "Array", rows: int, ar: "Arithmetic") -> "Array | None":
    """The gain as it multiplies, unfolded; None where the spec applies none."""
    if not spec.gain_applied:
        return None
    return scope.unfold_feature(gain.factor(gain_values, spec, ar), rows, spec)


def reduce(
    spec: NormSpec, x: "Array", residual: "Array", factor: "Array | None", ar: "Arithmetic", watch: Watch = unwatched
) -> Reduced:
    """The first half of `evaluate`: all that does not depend on the gain, unless it comes before the statistic."""
    prepared = operands.prepare(
        scope.unfold(x, spec), scope.unfold(residual, spec), factor, spec, spec.compute_dtype, ar
    )
    squared, numerator = prepared
    if spec.center:
        numerator = statistic.subtract_mean(numerator, spec, ar)
        squared = numerator if prepared.statistic is prepared.numerator else statistic.subtract_mean(squared, spec, ar)
    watch("x", numerator)
    scale, divides = _row_scale(squared, spec, ar, watch)
    return Reduced(numerator, scale, divides)


def finish(
    spec: NormSpec,
    reduced: Reduced,
    factor: "Array | None",
    bias: "Array",
    shape: tuple[int, ...],
    ar: "Arithmetic",
    watch: Watch = unwatched,
) -> "Array":
    """The second half of `evaluate`: the last products, the bias and the output."""
    after = factor if spec.gain_position == "after_normalize" else None
    if factor is not None:
        watch("gain", factor)
    y = gain.apply(*reduced, after, spec, spec.compute_dtype, ar, watch)
    if spec.bias:
        y = ar.add(y, scope.unfold_feature(ar.cast(bias, spec.gain_dtype), shape[0], spec), spec.gain_product_dtype)
    finished = output.finish(y, spec, ar)
    watch("output", finished)
    return scope.fold(finished, shape, spec)


def takes_root_of_sum(spec: NormSpec) -> bool:
    """True where the root is taken of the sum, and 1/√n multiplies it afterwards."""
    return spec.mean_scaling == "after_root" or spec.eps_placement == "floor_norm"


def _row_scale(squared: "Array", spec: NormSpec, ar: "Arithmetic", watch: Watch) -> tuple["Array", bool]:
    """The factor of each row and False, or its divisor and True; [outer, groups, 1] in inverse_dtype."""
    total = _statistic(squared, spec, ar, watch)
    root_is_final = spec.eps_placement not in ("outside_sqrt", "floor_rms") and not takes_root_of_sum(spec)
    if root_is_final and spec.inverse != "divide_by_sqrt":
        scale = inverse.reciprocal(total, spec, spec.statistic_dtype, ar, watch)
        watch("inverse", scale)
        return scale, False
    root = inverse.root_of(total, spec, spec.statistic_dtype, ar)
    if takes_root_of_sum(spec):
        watch("norm", root)
        root = eps.guard_norm(root, spec, spec.inverse_dtype, ar)
        watch("norm and eps", root)
        if spec.statistic != "sum_square":
            size = scope.statistic_size(squared.shape[-1], spec)
            root = ar.mul(root, ar.constant(size**-0.5), spec.inverse_dtype)
    watch("root", root)
    root = eps.guard_root(root, spec, spec.inverse_dtype, ar)
    watch("root and eps", root)
    if spec.inverse == "divide_by_sqrt":
        return root, True
    scale = ar.div(ar.constant(1), root, spec.inverse_dtype)
    watch("inverse", scale)
    return scale, False


def _statistic(squared: "Array", spec: NormSpec, ar: "Arithmetic", watch: Watch) -> "Array":
    """What the root is taken of: [outer, groups, 1] in statistic_dtype."""
    entering = squared[..., : scope.statistic_size(squared.shape[-1], spec)]
    total = statistic.sum_of_squares(entering, spec, ar, watch)
    total = eps.guard_sum(total, spec, spec.accumulate_dtype, ar)
    watch("sum and eps", total)
    if not takes_root_of_sum(spec):
        total = statistic.mean_of(total, entering.shape[-1], spec, ar)
        watch("mean square", total)
        total = eps.guard_statistic(total, spec, spec.statistic_dtype, ar)
        watch("mean square and eps", total)
    return ar.cast(total, spec.statistic_dtype)
