"""Where a declared norm leaves the normal range of its formats: what underflow can do, what overflow leaves open."""

from collections.abc import Iterator

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS, opmath
from rmsaudit.inversion.operands import Operands
from rmsaudit.inversion.roundoff import holds, tiny
from rmsaudit.semantics import NormSpec, takes_root_of_sum
from rmsaudit.semantics.gain import GAIN_FIRST, NORMALIZE_FIRST, SCALE_FIRST, rounding_point

_ROOM = 2.0  # a value that may reach half of its format's largest is taken to overflow


def underflow(spec: NormSpec, given: Operands) -> Array:
    """What results that become subnormal can do to D, as a term, [parts]; infinite where that may be all of it."""
    count = 1 if spec.statistic == "sum_square" else given.entering
    compute, accumulate = tiny(spec.compute_dtype, spec), tiny(spec.accumulate_dtype, spec)
    square = max(compute, tiny(spec.square_dtype, spec))
    per_term = given.entering / count
    off = np.zeros(len(given.x))
    if spec.mean_scaling == "per_element" and spec.statistic != "sum_square":
        per_term = given.entering  # the terms are divided before they are added, and so x·1/n may be subnormal as well
        off = compute * np.sqrt(given.entering * given.squares.hi)  # times x: Σ|x| <= √(n Σ x²)
    # Squares, their casts, partial sums; then the mean, its cast, and the sum with an eps of more bits than fit.
    held = tiny(spec.mean_dtype, spec) + 2 * tiny(spec.statistic_dtype, spec)
    off = off + per_term * (2 * square + 3 * accumulate) + 3 * accumulate + held
    each = operand_error(spec, given) + _entering_a_square(spec)  # of x: moves Σ x² by 2 Σ|x| · each and each² a term
    off = off + (2 * np.sqrt(given.entering * given.squares.hi) + given.entering * each) * each / count
    divisor = given.divisor.lo
    if spec.eps_placement in ("inside_sqrt", "inside_sum"):
        inside = _term(off / divisor**2) / 2
    else:  # √(a + off) − √a is at most √off, and at most off / (2√a)
        ms = given.squares.lo / count
        inside = np.minimum(_term(off / ms) / 2, _term(np.sqrt(off) / divisor))
    held = tiny(spec.statistic_dtype, spec) + 3 * tiny(spec.inverse_dtype, spec)  # root, cast, eps, inverse
    whole: Array = inside + _term(held / divisor) + _term(held * given.divisor.hi)
    return whole


def _entering_a_square(spec: NormSpec) -> float:
    """What becoming subnormal on the way into its square can do to x."""
    inner = opmath(spec.square_dtype)
    return 0.0 if holds(FORMATS[inner], FORMATS[spec.compute_dtype]) else tiny(inner, spec)


def _term(share: Array) -> Array:
    """−log(1 − share), infinite from 1/2 on."""
    return np.where(share < 1 / 2, -np.log1p(-np.minimum(share, 1 / 2)), np.inf)


def absolute_error(spec: NormSpec, given: Operands) -> Array:
    """α before the last rounding, [parts, size]: what subnormal results on an element's way add up to in its output.

    Infinite for an element that may overflow on the way.
    """
    gain, post, inverse = np.abs(given.gain), abs(given.post_scale), given.inverse
    compute, product = tiny(spec.compute_dtype, spec), tiny(spec.gain_product_dtype, spec)
    point = tiny(rounding_point(spec, spec.compute_dtype), spec)
    with_gain = operand_error(spec, given)[:, None] * inverse * post  # an error of the operand, and of the gain
    with_x = _factor_error(spec) * inverse * post
    if spec.association == NORMALIZE_FIRST:
        with_gain = with_gain + (2 * compute + point) * post + point
        alone = np.asarray(product)
    elif spec.association == GAIN_FIRST:
        alone = compute * (inverse * post + post + 1) + product
    else:
        with_x = with_x + compute * post
        alone = np.asarray(compute * (post + 1) + product)
    total = gain * with_gain + np.abs(given.x) * with_x + alone
    return np.where(_overflows(spec, given) | ~np.isfinite(total), np.inf, total)


def _factor_error(spec: NormSpec) -> float:
    """What flushed or subnormal results can have done to the gain before it multiplies."""
    if not spec.gain_applied:
        return 0.0
    error = tiny(spec.gain_dtype, spec) if spec.subnormals == "flush" else 0.0
    if spec.gain_cast != "none":
        error += tiny(spec.gain_cast, spec)
    return error + (tiny(spec.gain_offset_dtype, spec) if spec.gain_offset != 0 else 0.0)


def operand_error(spec: NormSpec, given: Operands) -> Array:
    """What flushed or subnormal results can have done to x before it is normalised or squared, in its unit, [parts]."""
    error = tiny(spec.input_dtype, spec) if spec.subnormals == "flush" else 0.0
    if not holds(FORMATS[spec.compute_dtype], FORMATS[spec.input_dtype]):
        error += tiny(spec.compute_dtype, spec)
    if spec.residual == "add":
        error += tiny(spec.compute_dtype, spec) + tiny(spec.residual_out_dtype, spec)
    if spec.gain_position == "before_statistic":
        error += tiny(spec.compute_dtype, spec) + tiny(spec.input_dtype, spec)
    scaled: Array = error / given.unit
    return scaled + (tiny(spec.compute_dtype, spec) if spec.prescale != "none" else 0.0)


def _overflows(spec: NormSpec, given: Operands) -> Array:
    """Elements that may leave a format between normalising and the output, [parts, size]."""
    x, gain = np.abs(given.x), np.abs(given.gain)
    largest = x.max(axis=-1, keepdims=True, initial=0.0), gain.max(initial=0.0)
    if not _beyond_any(spec, given, *largest).any():
        return np.zeros(1, dtype=bool)
    return _beyond_any(spec, given, x, gain)


def _beyond_any(spec: NormSpec, given: Operands, x: Array, gain: Array) -> Array:
    """Whether |x| under |gain| may leave a format; both broadcast against [parts, size]."""
    post = abs(given.post_scale)
    normalised = x * given.inverse
    product = normalised * gain * post
    over = _beyond(np.maximum(normalised, product), spec.compute_dtype) | _beyond(product, spec.output_dtype)
    over |= _beyond(normalised * max(1.0, post), rounding_point(spec, spec.compute_dtype))
    if spec.gain_applied:
        over |= _beyond(product, spec.gain_product_dtype)
        over |= (spec.association == GAIN_FIRST) & _beyond(x * gain, spec.compute_dtype)
        over |= (spec.association == SCALE_FIRST) & _beyond(given.inverse * gain, spec.compute_dtype)
    return over


def _beyond(values: Array, dtype: str) -> Array:
    beyond: Array = ~(values * _ROOM <= FORMATS[dtype].max)
    return beyond


def out_of_range(spec: NormSpec, given: Operands) -> list[str]:
    """For each part which of its values may leave the range of its format, or ""."""
    largest = np.abs(given.x * given.unit[:, None]).max(axis=-1, initial=0.0)
    found = np.full(len(largest), "", dtype=object)
    found[~np.isfinite(largest)] = "the input is not finite"
    for what, dtype, values in _intermediates(spec, given, largest):
        found[(found == "") & _beyond(values, dtype)] = f"{what} may leave {dtype}"
    if _tiny_reciprocal(spec, given.entering):
        found[found == ""] = "the reciprocal of the width is subnormal"
    return [str(says) for says in found]


def _intermediates(spec: NormSpec, given: Operands, largest: Array) -> Iterator[tuple[str, str, Array]]:
    """What is formed on the way to a part's divisor: in words, its dtype, and the largest that it can be, [parts]."""
    count = 1 if spec.statistic == "sum_square" else given.entering
    total, divisor = given.squares.hi, given.divisor.hi
    on_the_sum = takes_root_of_sum(spec)
    yield "x", spec.compute_dtype, largest
    if spec.gain_applied and spec.gain_position == "before_statistic":
        yield "x · gain", spec.input_dtype, largest
    if spec.residual == "add":
        yield "x + residual", spec.residual_out_dtype, largest
    yield "a square", spec.square_dtype, np.abs(given.x).max(axis=-1, initial=0.0) ** 2
    yield "the sum of squares", spec.accumulate_dtype, total
    if not on_the_sum:
        yield "the mean square", spec.mean_dtype, total / count
    yield "the statistic", spec.statistic_dtype, total if on_the_sum else total / count
    yield "the root", spec.inverse_dtype, np.maximum(divisor, np.sqrt(total)) if on_the_sum else divisor
    if spec.inverse != "divide_by_sqrt":
        yield "the inverse", spec.inverse_dtype, given.inverse[:, 0]


def _tiny_reciprocal(spec: NormSpec, size: int) -> bool:
    used = {"per_element": spec.compute_dtype, "multiply_by_reciprocal": spec.accumulate_dtype}.get(spec.mean_scaling)
    return used is not None and size * FORMATS[used].smallest_normal > 1
