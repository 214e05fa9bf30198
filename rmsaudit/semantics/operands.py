"""Stage 2 of 7, operands: what happens to the input before anything is squared."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from rmsaudit.semantics.variables import OPERANDS, PROMOTE, TOKENS, variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic

DTYPE_WORDS = (*TOKENS, PROMOTE, OPERANDS)


@dataclass(frozen=True, kw_only=True)
class Operands:
    """What is done to the input, and with a residual, before the statistic."""

    input_dtype: str = variable("dtype of the input x", "dtype", default="float32", words=DTYPE_WORDS)
    input_clamp: float | str = variable("x is limited to ± this first", "number", default="none", words=("none",))
    prescale: Literal["none", "max_abs"] = variable(
        "max_abs: each row is divided by its largest magnitude first, which makes eps relative to it",
        "word",
        default="none",
        words=("none", "max_abs"),
    )
    residual: Literal["none", "add"] = variable(
        "add: a residual is added to x before the norm", "word", default="none", words=("none", "add")
    )
    residual_dtype: str = variable(
        "dtype of the residual operand", "dtype", default="input", words=DTYPE_WORDS, initial="float32"
    )
    statistic_source: Literal["rounded", "unrounded"] = variable(
        "which x + residual is squared: the one rounded to residual_out_dtype, or the sum in compute_dtype",
        "word",
        default="unrounded",
        words=("rounded", "unrounded"),
    )
    numerator_source: Literal["rounded", "unrounded"] = variable(
        "which x + residual is normalised", "word", default="unrounded", words=("rounded", "unrounded")
    )
    residual_out_dtype: str = variable(
        "dtype the sum is stored in (and `rounded` means)",
        "dtype",
        default="input",
        words=DTYPE_WORDS,
        initial="float32",
    )
    gain_position: Literal["after_normalize", "before_statistic"] = variable(
        "before_statistic: the gain multiplies x (rounded to input_dtype) before it is squared, and not again",
        "word",
        default="after_normalize",
        words=("after_normalize", "before_statistic"),
    )


class Prepared(NamedTuple):
    """What is squared, and what is normalised; the same array unless a residual is rounded for only one of them."""

    statistic: "Array"
    numerator: "Array"


def prepare(
    x: "Array", residual: "Array | None", gain: "Array | None", choices: Operands, compute_dtype: str, ar: "Arithmetic"
) -> Prepared:
    """Both operands in compute_dtype. Shapes: x, residual [outer, groups, size]; gain broadcasts."""
    x = ar.cast(x, choices.input_dtype)
    if choices.input_clamp != "none":
        x = ar.clamp(x, float(choices.input_clamp))
    if choices.gain_position == "before_statistic" and gain is not None:
        x = ar.cast(ar.mul(x, gain, compute_dtype), choices.input_dtype)
    if choices.residual == "none" or residual is None:
        both = Prepared(*[ar.cast(x, compute_dtype)] * 2)
    else:
        both = _added(x, ar.cast(residual, choices.residual_dtype), choices, compute_dtype, ar)
    if choices.prescale == "none":
        return both
    largest = ar.largest_magnitude(both.numerator)
    scaled = ar.div(both.numerator, largest, compute_dtype)
    same = both.statistic is both.numerator
    return Prepared(scaled if same else ar.div(both.statistic, largest, compute_dtype), scaled)


def _added(x: "Array", residual: "Array", choices: Operands, compute_dtype: str, ar: "Arithmetic") -> Prepared:
    unrounded = ar.add(x, residual, compute_dtype)
    rounded = ar.cast(ar.cast(unrounded, choices.residual_out_dtype), compute_dtype)
    pick = {"rounded": rounded, "unrounded": unrounded}
    return Prepared(pick[choices.statistic_source], pick[choices.numerator_source])
