"""Stage 7 of 7, output: the result's dtype, its limits, and two properties of the arithmetic itself."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rmsaudit.semantics.operands import DTYPE_WORDS
from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic


@dataclass(frozen=True, kw_only=True)
class Output:
    """The result's dtype and limits, and how values are narrowed."""

    output_dtype: str = variable("dtype of the result", "dtype", default="input", words=DTYPE_WORDS, initial="float32")
    output_clamp: float | str = variable("the result is limited to ± this", "number", default="none", words=("none",))
    subnormals: Literal["keep", "flush"] = variable(
        "flush: subnormal inputs and results of every operation become zero",
        "word",
        default="keep",
        words=("keep", "flush"),
    )
    rounding: Literal["nearest_even", "toward_zero"] = variable(
        "how a value is narrowed to another dtype; operations themselves round to nearest",
        "word",
        default="nearest_even",
        words=("nearest_even", "toward_zero"),
    )


def finish(y: "Array", choices: Output, ar: "Arithmetic") -> "Array":
    """y rounded to output_dtype and limited."""
    y = ar.cast(y, choices.output_dtype)
    return y if choices.output_clamp == "none" else ar.clamp(y, float(choices.output_clamp))
