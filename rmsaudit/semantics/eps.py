"""Stage 4 of 7, eps: what keeps the root away from zero, and where it acts.

Each placement is one of four guards: on the sum, on the statistic, on the norm (root of the sum), on the root.
Who uses which: bzhangGo's torch version and GPT-NeoX outside_sqrt; F.normalize floor_norm; ggml's CUDA l2_norm
floor_sum.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmsaudit.semantics.operands import DTYPE_WORDS
from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic

PLACEMENTS = ("inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm", "floor_sum", "none")
Placement = Literal["inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm", "floor_sum", "none"]


@dataclass(frozen=True, kw_only=True)
class Eps:
    """eps: its value, where it acts, and in which dtype."""

    eps: float = variable(
        "the stabiliser; null is torch's None: the machine epsilon of compute_dtype", "number", default=1e-6
    )
    eps_placement: Placement = variable(
        "where eps acts: √(ms + eps), √((Σ + eps)/n), √ms + eps, max(√ms, eps), max(√Σ, eps), max(Σ, eps²), nowhere",
        "word",
        default="inside_sqrt",
        words=PLACEMENTS,
    )
    eps_dtype: str = variable(
        "dtype eps is rounded to before use", "dtype", default="statistic", words=DTYPE_WORDS, initial="float32"
    )
    eps_min: float | str = variable("a smaller eps is replaced by this one", "number", default="none", words=("none",))


def effective(choices: Eps) -> float:
    """eps after eps_min, before eps_dtype."""
    if choices.eps_min == "none":
        return choices.eps
    return max(choices.eps, float(choices.eps_min))


def knee(choices: "Eps", size: int, sum_is_statistic: bool) -> float:
    """The mean square at which eps acts as strongly as the row itself; 0 where there is no eps.

    inside_sqrt: ms = eps. On a sum of `size` squares: ms = eps / size. Beside or under a root: the squares of those.
    """
    value = effective(choices)
    on_the_sum = sum_is_statistic or choices.eps_placement in ("inside_sum", "floor_norm", "floor_sum")
    match choices.eps_placement:
        case "none":
            return 0.0
        case "inside_sqrt" | "inside_sum":
            at = value
        case _:
            at = value * value
    return at / size if on_the_sum else at


def guard_sum(total: "Array", choices: Eps, accumulate_dtype: str, ar: "Arithmetic") -> "Array":
    """The sum of squares with eps added, or eps² as its floor, where it acts on the sum."""
    if choices.eps_placement == "inside_sum":
        return ar.add(total, _value(choices, ar), accumulate_dtype)
    if choices.eps_placement == "floor_sum":
        eps = _value(choices, ar)
        return ar.maximum(total, ar.mul(eps, eps, accumulate_dtype), accumulate_dtype)
    return total


def guard_statistic(statistic: "Array", choices: Eps, statistic_dtype: str, ar: "Arithmetic") -> "Array":
    """The mean square with eps added, where it acts inside the root."""
    if choices.eps_placement == "inside_sqrt":
        return ar.add(statistic, _value(choices, ar), statistic_dtype)
    return statistic


def guard_norm(norm: "Array", choices: Eps, inverse_dtype: str, ar: "Arithmetic") -> "Array":
    """The root of the sum with eps as its floor, where it acts on the norm."""
    if choices.eps_placement == "floor_norm":
        return ar.maximum(norm, _value(choices, ar), inverse_dtype)
    return norm


def guard_root(root: "Array", choices: Eps, inverse_dtype: str, ar: "Arithmetic") -> "Array":
    """The root with eps added, or as its floor, where it acts outside the root."""
    if choices.eps_placement == "outside_sqrt":
        return ar.add(root, _value(choices, ar), inverse_dtype)
    if choices.eps_placement == "floor_rms":
        return ar.maximum(root, _value(choices, ar), inverse_dtype)
    return root


def _value(choices: Eps, ar: "Arithmetic") -> "Array":
    return ar.constant(effective(choices), choices.eps_dtype)
