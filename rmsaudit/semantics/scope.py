"""Stage 1 of 7, scope: which elements are normalised together.

Inside the pipeline every operand has the shape [outer, groups, size]; one statistic is taken over each run of `size`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array

Axes = Literal["rows", "columns", "all"]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which elements share a statistic, and which of them enter it."""

    width: int = variable("elements in the last axis of the input", "integer", default=None, initial=1)
    axes: tuple[int, ...] = variable(
        "axes the statistic is taken over: [-1] each row, [-2] each column, [-2, -1] all rows together",
        "axes",
        default=(-1,),
    )
    groups: int = variable(
        "equal parts of a row that are normalised apart (heads, shards, groups)", "integer", default=1
    )
    statistic_width: int | float | str = variable(
        "leading elements that enter the statistic: all, a count, or a fraction of the row (partial RMSNorm)",
        "number",
        default="all",
        words=("all",),
    )


def group_size(rows: int, choices: Scope) -> int:
    """How many elements share one statistic, for an input of `rows` rows."""
    if choices.axes == (-1,):
        return choices.width // choices.groups
    return rows if choices.axes == (-2,) else rows * choices.width


def statistic_size(size: int, choices: Scope) -> int:
    """How many of the `size` elements enter the statistic: int(size · p) for a fraction p, as bzhangGo/rmsnorm has
    it."""
    match choices.statistic_width:
        case str():
            return size
        case float(fraction):
            return int(size * fraction)
        case count:
            return min(count, size)


def unfold(x: "Array", choices: Scope) -> "Array":
    """x[rows, width] as [outer, groups, size]; a view wherever the memory allows one."""
    rows, width = x.shape
    if choices.axes == (-1,):
        return x.reshape(rows, choices.groups, width // choices.groups)
    if choices.axes == (-2,):
        return x.T.reshape(1, width, rows)
    return x.reshape(1, 1, rows * width)


def unfold_feature(values: "Array", rows: int, choices: Scope) -> "Array":
    """A per-feature operand (gain, bias)[width] in a shape that broadcasts against an unfolded input."""
    width = values.shape[0]
    if choices.axes == (-1,):
        return values.reshape(1, choices.groups, width // choices.groups)
    if choices.axes == (-2,):
        return values.reshape(1, width, 1)
    return values.reshape(1, width).repeat(rows, axis=0).reshape(1, 1, rows * width)


def fold(y: "Array", shape: tuple[int, ...], choices: Scope) -> "Array":
    """The inverse of `unfold`: [outer, groups, size] back to [rows, width]."""
    if choices.axes == (-2,):
        return y.reshape(shape[1], shape[0]).T
    return y.reshape(shape)
