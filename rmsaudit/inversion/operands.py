"""The exact operands of a declared norm on one input: what it normalises, divides by and multiplies with."""

from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.inversion.divisor import divisor
from rmsaudit.inversion.interval import Interval, exactly
from rmsaudit.inversion.sum_of_squares import sum_of_squares
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.gain import post_scale
from rmsaudit.semantics.scope import statistic_size

SLACK = 2.0**-48  # relative: what float64 may have done to a sum with a residual, a product with a gain, a quotient


@dataclass(frozen=True, eq=False)
class Operands:
    """Rows taken apart in their groups, [parts, size] and [parts], in float64.

    x: what is normalised, in units of `unit` (each part's largest magnitude where the spec divides by it, else 1).
    gain: what it is multiplied by afterwards. squares, divisor: enclosed; of the `entering` elements in the statistic.
    """

    x: Array
    unit: Array
    gain: Array
    post_scale: float
    squares: Interval
    divisor: Interval
    entering: int

    @property
    def inverse(self) -> Array:
        """The largest that 1/D may be, [parts, 1]."""
        return 1.0 / self.divisor.lo[:, None]


def operands(spec: NormSpec, case: Case) -> Operands:
    """The operands of `spec` on `case`; `spec.width` must be the case's."""
    x = case.x.astype(np.float64)
    if spec.residual == "add":
        x = x + case.residual.astype(np.float64)
    gain = case.gain.astype(np.float64) + spec.gain_offset if spec.gain_applied else np.ones(case.width)
    if spec.gain_applied and spec.gain_position == "before_statistic":
        x, gain = x * gain, np.ones(case.width)
    size = case.width // spec.groups
    x = x.reshape(-1, size)
    unit = np.ones(len(x))
    if spec.prescale != "none":
        largest = np.abs(x).max(axis=-1)
        unit = np.where(largest > 0, largest, 1.0)
    x = x / unit[:, None]
    entering = statistic_size(size, spec)
    squares = _squares(x[:, :entering], spec)
    return Operands(
        x=x,
        unit=unit,
        gain=by_part(gain, spec, len(x)),
        post_scale=post_scale(spec, size) or 1.0,
        squares=squares,
        divisor=divisor(spec, squares, entering),
        entering=entering,
    )


def by_part(values: Array, spec: NormSpec, parts: int) -> Array:
    """values[width] for every part, [parts, size]."""
    if spec.groups == 1:
        return np.broadcast_to(values, (parts, len(values)))
    return np.tile(values.reshape(spec.groups, -1), (parts // spec.groups, 1))


def _squares(x: Array, spec: NormSpec) -> Interval:
    """Σ x², enclosed as closely as the roundings of `spec` make worth while: a sum of n float64 is off by n · 2^-53."""
    row_dtypes = spec.compute_dtype, spec.square_dtype, spec.accumulate_dtype, spec.mean_dtype, spec.statistic_dtype
    if "float64" in (*row_dtypes, spec.inverse_dtype):
        exact, slack = sum_of_squares(x), SLACK
    else:
        exact, slack = exactly(np.einsum("ij,ij->i", x, x)), (x.shape[-1] + 2) * 2.0**-53 + SLACK
    return Interval(exact.lo * (1 - slack), exact.hi * (1 + slack))
