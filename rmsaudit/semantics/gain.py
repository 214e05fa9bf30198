"""Stage 6 of 7, gain: the normalised row times the learned factor, and where it is rounded on the way."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Literal

from rmsaudit.formats import FORMATS
from rmsaudit.semantics.operands import DTYPE_WORDS
from rmsaudit.semantics.steps import Watch, unwatched
from rmsaudit.semantics.variables import variable

if TYPE_CHECKING:
    from rmsaudit.arrays import Array
    from rmsaudit.semantics.arithmetic import Arithmetic

NORMALIZE_FIRST, GAIN_FIRST, SCALE_FIRST = "(x*i)*g", "(x*g)*i", "x*(i*g)"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The last products: the gain, its offset, the rounding point before it, a bias."""

    gain_applied: bool = variable("false: there is no gain, or it is ignored", "flag", default=True)
    gain_dtype: str = variable(
        "dtype the gain is stored in", "dtype", default="input", words=DTYPE_WORDS, initial="float32"
    )
    gain_cast: str = variable(
        "dtype the gain is rounded to before use", "dtype", default="none", words=("none", *DTYPE_WORDS)
    )
    gain_offset: float = variable("added to the gain: 1 for gains stored around 0 (Gemma)", "number", default=0.0)
    gain_offset_dtype: str = variable(
        "dtype of gain + offset", "dtype", default="compute", words=DTYPE_WORDS, initial="float32"
    )
    association: Literal["(x*i)*g", "(x*g)*i", "x*(i*g)"] = variable(
        "order of the last two products; i is the inverse, or a division by the root",
        "word",
        default=NORMALIZE_FIRST,
        words=(NORMALIZE_FIRST, GAIN_FIRST, SCALE_FIRST),
    )
    cast_point: Literal["before_gain", "after_gain", "weight_if_half"] = variable(
        "before_gain: x·i is rounded to normalized_dtype, then multiplied; after_gain: only the product is rounded;"
        " weight_if_half: rounded to gain_dtype first if that is 16 bits wide (T5)",
        "word",
        default="after_gain",
        words=("before_gain", "after_gain", "weight_if_half"),
    )
    normalized_dtype: str = variable(
        "dtype of x·i where cast_point is before_gain", "dtype", default="input", words=DTYPE_WORDS, initial="float32"
    )
    gain_product_dtype: str = variable(
        "dtype of the product with the gain", "dtype", default="operands", words=DTYPE_WORDS, initial="float32"
    )
    bias: bool = variable("true: a bias is added after the gain", "flag", default=False)
    post_scale: float | str = variable(
        "a constant factor on x·i, after its rounding point and rounded like it: none, a number, or sqrt_width",
        "number",
        default="none",
        words=("none", "sqrt_width"),
    )


def factor(gain: "Array", choices: Gain, ar: "Arithmetic") -> "Array":
    """The gain as it multiplies: stored, cast, offset. Shape as given."""
    stored = ar.cast(gain, choices.gain_dtype)
    if choices.gain_cast != "none":
        stored = ar.cast(stored, choices.gain_cast)
    if choices.gain_offset == 0:
        return stored
    return ar.add(stored, ar.constant(choices.gain_offset), choices.gain_offset_dtype)


def apply(
    numerator: "Array",
    scale: "Array",
    divides: bool,
    gain: "Array | None",
    choices: Gain,
    compute_dtype: str,
    ar: "Arithmetic",
    watch: Watch = unwatched,
) -> "Array":
    """numerator · scale · gain (numerator / scale where `divides`), in gain_product_dtype when there is a gain.

    Shapes: numerator [outer, groups, size]; scale [outer, groups, 1]; gain broadcasts.
    """
    normalize = ar.div if divides else ar.mul
    constant = post_scale(choices, numerator.shape[-1])
    if gain is not None and choices.association == GAIN_FIRST:
        product = normalize(ar.mul(numerator, gain, compute_dtype), scale, compute_dtype)
    elif gain is not None and choices.association == SCALE_FIRST:
        scaled_gain = ar.div(gain, scale, compute_dtype) if divides else ar.mul(scale, gain, compute_dtype)
        product = ar.mul(numerator, scaled_gain, compute_dtype)
    else:
        point = rounding_point(choices, compute_dtype)
        normalized = ar.cast(normalize(numerator, scale, compute_dtype), point)
        if constant is not None:
            normalized = ar.mul(normalized, ar.constant(constant), point)
        watch("normalised", normalized)
        return normalized if gain is None else ar.mul(normalized, gain, choices.gain_product_dtype)
    if constant is not None:
        product = ar.mul(product, ar.constant(constant), compute_dtype)
    return ar.cast(product, choices.gain_product_dtype)


def rounding_point(choices: Gain, compute_dtype: str) -> str:
    """The dtype that x·i is rounded to before the gain; compute_dtype means that it is not rounded."""
    match choices.cast_point:
        case "before_gain":
            return choices.normalized_dtype
        case "after_gain":
            return compute_dtype
        case "weight_if_half":
            return choices.gain_dtype if FORMATS[choices.gain_dtype].is_half else compute_dtype


def post_scale(choices: Gain, size: int) -> float | None:
    """The constant factor as a float64, or None."""
    if choices.post_scale == "none":
        return None
    return sqrt(size) if choices.post_scale == "sqrt_width" else float(choices.post_scale)
