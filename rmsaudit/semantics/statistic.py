"""Stage 3 of 7, statistic: the one number per row that the root is taken of.

Rounding: each square once to square_dtype, each addition and the division by n once to accumulate_dtype, the mean once
to mean_dtype; what follows is done in statistic_dtype.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmsaudit.semantics.operands import DTYPE_WORDS
from rmsaudit.semantics.steps import Watch, unwatched
from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic

ORDERS = ("pairwise", "sequential", "torch_cpu", "exact")
ORDERS_WITH_A_NUMBER = ("lanes", "blocks")


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """Which statistic, and every rounding on the way to it."""

    center: bool = variable("true: the row mean is subtracted first (LayerNorm, not RMSNorm)", "flag", default=False)
    statistic: Literal["mean_square", "sum_square", "variance"] = variable(
        "mean of squares, their sum, or the variance about the mean while the numerator stays as it is",
        "word",
        default="mean_square",
        words=("mean_square", "sum_square", "variance"),
    )
    statistic_algorithm: Literal["direct", "variance_plus_mean_square", "max_scaled"] = variable(
        "how the statistic is reached: directly, as Σ(x − mean)²/n + mean², or scaled by the largest magnitude",
        "word",
        default="direct",
        words=("direct", "variance_plus_mean_square", "max_scaled"),
    )
    compute_dtype: str = variable(
        "dtype the input is widened to, and of the products with it", "dtype", default="float32", words=DTYPE_WORDS
    )
    square_dtype: str = variable(
        "dtype of each square: the input's own where it is squared before it is widened",
        "dtype",
        default="compute",
        words=DTYPE_WORDS,
        initial="float32",
    )
    accumulate_dtype: str = variable(
        "dtype of the running sum", "dtype", default="compute", words=DTYPE_WORDS, initial="float32"
    )
    accumulate_order: str = variable(
        "order of the additions: pairwise, sequential, torch_cpu, lanes:K, blocks:B, exact", "order", default="pairwise"
    )
    mean_scaling: Literal["divide_by_n", "multiply_by_reciprocal", "per_element", "after_root"] = variable(
        "how 1/n enters: the sum over n, or times a rounded 1/n; each square as (x·1/n)·x; the root times 1/√n",
        "word",
        default="divide_by_n",
        words=("divide_by_n", "multiply_by_reciprocal", "per_element", "after_root"),
    )
    mean_dtype: str = variable(
        "dtype the mean square is rounded to, before eps is added to it in statistic_dtype",
        "dtype",
        default="statistic",
        words=DTYPE_WORDS,
        initial="float32",
    )
    statistic_dtype: str = variable(
        "dtype of what the root is taken of, and of the root itself",
        "dtype",
        default="compute",
        words=DTYPE_WORDS,
        initial="float32",
    )


def subtract_mean(operand: "Array", choices: Statistic, ar: "Arithmetic") -> "Array":
    """operand − its row mean, both in compute_dtype."""
    total = ar.sum(operand, choices.accumulate_order, choices.accumulate_dtype)
    mean = ar.cast(ar.div(total, ar.constant(operand.shape[-1]), choices.accumulate_dtype), choices.compute_dtype)
    return ar.sub(operand, mean, choices.compute_dtype)


def sum_of_squares(operand: "Array", choices: Statistic, ar: "Arithmetic", watch: Watch = unwatched) -> "Array":
    """Σ operand² over the last axis, [outer, groups, 1] in accumulate_dtype; the mean where `is_mean_already`."""
    total = _sum_of_squares(operand, choices, ar, watch)
    if not is_mean_already(choices):
        watch("sum", total)
    return total


def _sum_of_squares(operand: "Array", choices: Statistic, ar: "Arithmetic", watch: Watch) -> "Array":
    dtype, order, accumulate = choices.compute_dtype, choices.accumulate_order, choices.accumulate_dtype
    square = choices.square_dtype
    if choices.statistic == "variance":
        operand = subtract_mean(operand, choices, ar)
    match choices.statistic_algorithm:
        case "direct":
            factor = operand
            if choices.mean_scaling == "per_element" and choices.statistic != "sum_square":
                factor = ar.mul(operand, ar.div(ar.constant(1), ar.constant(operand.shape[-1]), dtype), dtype)
            squares = ar.mul(factor, operand, square)
            watch("squares", squares)
            return ar.sum(squares, order, accumulate)
        case "max_scaled":
            largest = ar.zero_to_one(ar.largest_magnitude(operand))
            scaled = ar.div(operand, largest, dtype)
            squares = ar.mul(scaled, scaled, square)
            watch("squares", squares)
            total = ar.sum(squares, order, accumulate)
            return ar.mul(ar.mul(total, largest, accumulate), largest, accumulate)
        case "variance_plus_mean_square":
            size = operand.shape[-1]
            mean = _over_n(ar.sum(operand, order, accumulate), size, choices, ar)
            deviation = ar.sub(operand, ar.cast(mean, dtype), dtype)
            squares = ar.mul(deviation, deviation, square)
            watch("squares", squares)
            spread = ar.sum(squares, order, accumulate)
            return ar.add(_over_n(spread, size, choices, ar), ar.mul(mean, mean, accumulate), accumulate)


def is_mean_already(choices: Statistic) -> bool:
    """True where 1/n has entered before the terms were added up, so that nothing is left to be scaled."""
    return choices.mean_scaling == "per_element" or choices.statistic_algorithm == "variance_plus_mean_square"


def mean_of(total: "Array", size: int, choices: Statistic, ar: "Arithmetic") -> "Array":
    """The statistic in mean_dtype: `total` scaled by 1/size, unless the sum itself is the statistic."""
    if choices.statistic != "sum_square" and not is_mean_already(choices):
        total = _over_n(total, size, choices, ar)
    return ar.cast(total, choices.mean_dtype)


def _over_n(total: "Array", size: int, choices: Statistic, ar: "Arithmetic") -> "Array":
    """total / size, or total times the rounded 1/size; in accumulate_dtype."""
    accumulate = choices.accumulate_dtype
    if choices.mean_scaling == "multiply_by_reciprocal":
        return ar.mul(total, ar.div(ar.constant(1), ar.constant(size), accumulate), accumulate)
    return ar.div(total, ar.constant(size), accumulate)
