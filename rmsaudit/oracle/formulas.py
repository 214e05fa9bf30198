"""The question that the oracle answers: a `NormSpec` without anything that is only about rounding.

Every choice of dtype, order, association and algorithm in between is dropped; what is left is one real function

    y = post_scale · numerator · factor / (√R + beside) + bias        R = max(Σ + added, floor) / over

of the operands as they are stored. Its parameters are exact: a declared number stands for its shortest decimal, so
that 1e-6 is one millionth and not the float64 next to it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import PLACEMENTS, effective
from rmsaudit.semantics.scope import Scope, group_size, statistic_size

Guard = Literal["none", "add_to_sum", "add_to_mean", "add_to_root", "floor_of_sum", "floor_of_mean"]
StatisticKind = Literal["mean_square", "sum_square", "variance"]

_GUARDS: dict[str, Guard] = {
    "inside_sqrt": "add_to_mean",
    "inside_sum": "add_to_sum",
    "outside_sqrt": "add_to_root",
    "floor_rms": "floor_of_mean",  # max(√ms, eps) = √max(ms, eps²)
    "floor_norm": "floor_of_sum",  # max(√Σ, eps)/√k = √(max(Σ, eps²)/k)
    "floor_sum": "floor_of_sum",
    "none": "none",
}
assert set(_GUARDS) == set(PLACEMENTS)


class Guarding(NamedTuple):
    """The row's divisor is √(max(Σ + added·m², floor·m²) / over) + beside·m; m is 1, or max|numerator| (prescale)."""

    added: Fraction
    floor: Fraction
    beside: Fraction
    over: int


@dataclass(frozen=True, kw_only=True)
class Formula(Scope):
    """A real function of the stored operands; equal formulas give equal answers.

    The dtypes are those that operands are stored in: None where the operand is not used. gain_first: the gain
    multiplies the input before the residual and the statistic, and not again. post_scale: None stands for √size.
    """

    input_dtype: str
    input_clamp: Fraction | None
    prescale: bool
    residual_dtype: str | None
    gain_dtype: str | None
    gain_first: bool
    gain_offset: Fraction
    center: bool
    statistic: StatisticKind
    guard: Guard
    eps: Fraction
    post_scale: Fraction | None
    bias_dtype: str | None
    output_clamp: Fraction | None

    @property
    def gain_last(self) -> bool:
        """True where the normalised row is multiplied by the gain."""
        return self.gain_dtype is not None and not self.gain_first

    def guarding(self, entering: int) -> Guarding:
        """Where eps acts, for a statistic over `entering` elements."""
        over = 1 if self.statistic == "sum_square" else entering
        added = floor = beside = Fraction(0)
        match self.guard:
            case "add_to_sum":
                added = self.eps
            case "add_to_mean":
                added = self.eps * over
            case "add_to_root":
                beside = self.eps
            case "floor_of_sum":
                floor = self.eps**2
            case "floor_of_mean":
                floor = self.eps**2 * over
        return Guarding(added, floor, beside, over)


def formula(spec: NormSpec) -> Formula:
    """The real function that `spec` computes up to rounding. Specs of one formula may differ in everything else."""
    eps = decimal(effective(spec)) if spec.eps_placement != "none" else Fraction(0)
    gain_dtype = spec.gain_dtype if spec.gain_applied else None
    return Formula(
        width=spec.width,
        axes=spec.axes,
        groups=spec.groups,
        statistic_width=_statistic_width(spec),
        input_dtype=spec.input_dtype,
        input_clamp=_limit(spec.input_clamp),
        prescale=spec.prescale == "max_abs",
        residual_dtype=spec.residual_dtype if spec.residual == "add" else None,
        gain_dtype=gain_dtype,
        gain_first=gain_dtype is not None and spec.gain_position == "before_statistic",
        gain_offset=decimal(spec.gain_offset) if gain_dtype else Fraction(0),
        center=spec.center,
        statistic=_statistic(spec),
        guard=_guard(spec) if eps else "none",
        eps=eps,
        post_scale=_post_scale(spec.post_scale),
        bias_dtype=spec.gain_dtype if spec.bias else None,
        output_clamp=_limit(spec.output_clamp),
    )


def decimal(value: float) -> Fraction:
    """The number that was written: the shortest decimal that reads back as `value`."""
    return Fraction(repr(float(value)))


def _limit(value: float | str) -> Fraction | None:
    return None if isinstance(value, str) else decimal(value)


def _post_scale(value: float | str) -> Fraction | None:
    if value == "sqrt_width":
        return None
    return Fraction(1) if isinstance(value, str) else decimal(value)


def _guard(spec: NormSpec) -> Guard:
    guard = _GUARDS[spec.eps_placement]
    if spec.statistic != "sum_square":
        return guard
    on_the_sum: dict[Guard, Guard] = {"add_to_mean": "add_to_sum", "floor_of_mean": "floor_of_sum"}
    return on_the_sum.get(guard, guard)


def _statistic(spec: NormSpec) -> StatisticKind:
    """Of a centred row, the variance over all of it is the mean square."""
    if spec.center and spec.statistic == "variance" and _statistic_width(spec) == "all":
        return "mean_square"
    return spec.statistic


def _statistic_width(spec: NormSpec) -> int | float | str:
    if spec.axes == (-1,):
        size = group_size(1, spec)
        if statistic_size(size, spec) == size:
            return "all"
    return spec.statistic_width
