"""Stage 5 of 7, inverse: from the statistic to the factor (or divisor) of the row.

The root is taken in statistic_dtype; the root and its inverse are then held in inverse_dtype, and an eps that stands
outside the root is added there.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmsaudit.semantics.operands import DTYPE_WORDS
from rmsaudit.semantics.steps import Watch, unwatched
from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic


@dataclass(frozen=True, kw_only=True)
class Inverse:
    """How 1/√ is reached, and what it is rounded to."""

    inverse: Literal["rsqrt", "reciprocal_of_sqrt", "divide_by_sqrt", "power"] = variable(
        "rsqrt: 1/√ rounded once; reciprocal_of_sqrt: twice; divide_by_sqrt: x is divided by the root;"
        " power: s^-0.5, which torch's CPU computes as reciprocal_of_sqrt",
        "word",
        default="reciprocal_of_sqrt",
        words=("rsqrt", "reciprocal_of_sqrt", "divide_by_sqrt", "power"),
    )
    inverse_dtype: str = variable(
        "dtype the root and its inverse are rounded to",
        "dtype",
        default="statistic",
        words=DTYPE_WORDS,
        initial="float32",
    )


def reciprocal(
    statistic: "Array", choices: Inverse, statistic_dtype: str, ar: "Arithmetic", watch: Watch = unwatched
) -> "Array":
    """1/√statistic in inverse_dtype, where nothing stands between the root and its inverse."""
    if choices.inverse == "rsqrt":
        return ar.cast(ar.rsqrt(statistic, statistic_dtype), choices.inverse_dtype)
    root = ar.sqrt(statistic, statistic_dtype)
    watch("root", root)
    return ar.cast(ar.div(ar.constant(1), root, statistic_dtype), choices.inverse_dtype)


def root_of(statistic: "Array", choices: Inverse, statistic_dtype: str, ar: "Arithmetic") -> "Array":
    """√statistic in inverse_dtype."""
    return ar.cast(ar.sqrt(statistic, statistic_dtype), choices.inverse_dtype)
