"""Where a declared norm leaves the normal range of its formats: what underflow can do, and what overflow leaves open."""

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.operands import Operands
from rmsaudit.inversion.roundoff import holds, tiny
from rmsaudit.semantics import NormSpec, takes_root_of_sum
from rmsaudit.semantics.gain import GAIN_FIRST, NORMALIZE_FIRST, SCALE_FIRST, rounding_point

_ROOM = 2.0  # a value that may reach half of its format's largest is taken to overflow


def underflow(spec: NormSpec, given: Operands) -> Array:
    """What results that become subnormal can do to D, as a term, [parts]; infinite where that may be all of it."""
    count = 1 if spec.statistic == "sum_square" else given.entering
    squares = 2 * tiny(spec.compute_dtype, spec) + 3 * tiny(spec.accumulate_dtype, spec)
    off = given.entering / count * squares + 2 * tiny(spec.accumulate_dtype, spec) + tiny(spec.statistic_dtype, spec)
    each = operand_error(spec, given)  # of x: moves Σ x² by 2 Σ|x| · each at most, and Σ|x| is at most √(n Σ x²)
    off = off + (2 * np.sqrt(given.entering * given.squares.hi) + given.entering * each) * each / count
    divisor = given.divisor.lo
    if spec.eps_placement in ("inside_sqrt", "inside_sum"):
        inside = _term(off / divisor**2) / 2
    else:  # √(a + off) − √a is at most √off, and at most off / (2√a)
        ms = given.squares.lo / count
        inside = np.minimum(_term(off / ms) / 2, _term(np.sqrt(off) / divisor))
    held = tiny(spec.statistic_dtype, spec) + 2 * tiny(spec.inverse_dtype, spec)
    return inside + _term(held / divisor) + _term(held * given.divisor.hi)


def _term(share: Array) -> Array:
    """−log(1 − share), infinite from 1/2 on."""
    return np.where(share < 1 / 2, -np.log1p(-np.minimum(share, 1 / 2)), np.inf)


def absolute_error(spec: NormSpec, given: Operands) -> Array:
    """α before the last rounding, [parts, size]: what subnormal results on an element's way add up to in its output.

    Infinite for an element that may overflow on the way.
    """
    gain, post, x = np.abs(given.gain), abs(given.post_scale), np.abs(given.x)
    compute, product = tiny(spec.compute_dtype, spec), tiny(spec.gain_product_dtype, spec)
    point = tiny(rounding_point(spec, spec.compute_dtype), spec)
    through = given.inverse * gain * post  # what an error of the operand is multiplied by
    total = operand_error(spec, given)[:, None] * through
    if spec.gain_cast != "none":
        total = total + tiny(spec.gain_cast, spec) * x * given.inverse * post
    match spec.association:
        case _ if spec.association == NORMALIZE_FIRST:
            total = total + (2 * compute + point) * gain * post + point * gain + product
        case _ if spec.association == GAIN_FIRST:
            total = total + compute * given.inverse * post + compute * (post + 1) + product
        case _:
            total = total + compute * x * post + compute * (post + 1) + product
    return np.where(_overflows(spec, given) | ~np.isfinite(total), np.inf, total)


def operand_error(spec: NormSpec, given: Operands) -> Array:
    """What flushed or subnormal results can have done to x before it is normalised or squared, in its units, [parts]."""
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
    normalised = x * given.inverse
    product = normalised * gain * abs(given.post_scale)
    on_the_way = {
        spec.compute_dtype: np.maximum(normalised, product),
        rounding_point(spec, spec.compute_dtype): normalised * max(1.0, abs(given.post_scale)),
        spec.output_dtype: product,
    }
    if spec.gain_applied:
        on_the_way[spec.gain_product_dtype] = np.maximum(product, on_the_way.get(spec.gain_product_dtype, product))
    over = np.zeros(x.shape, dtype=bool)
    for dtype, values in on_the_way.items():
        over |= ~(values * _ROOM <= FORMATS[dtype].max)
    if spec.gain_applied and spec.association == GAIN_FIRST:
        over |= ~(x * gain * _ROOM <= FORMATS[spec.compute_dtype].max)
    if spec.gain_applied and spec.association == SCALE_FIRST:
        over |= ~(given.inverse * gain * _ROOM <= FORMATS[spec.compute_dtype].max)
    return over


def void_parts(spec: NormSpec, given: Operands, theta: Array) -> tuple[str, ...]:
    """For each part why nothing is said of it, or "". theta: the largest θ of its elements."""
    count = 1 if spec.statistic == "sum_square" else given.entering
    largest = np.abs(given.x * given.unit[:, None]).max(axis=-1, initial=0.0)
    squared = np.abs(given.x).max(axis=-1, initial=0.0) ** 2
    mean = given.squares.hi / count
    kept = given.squares.hi if takes_root_of_sum(spec) else mean
    inverse = np.where(spec.inverse == "divide_by_sqrt", 0.0, given.inverse[:, 0])
    reasons = [
        ("the input is not finite", ~np.isfinite(largest)),
        (f"x may leave {spec.compute_dtype}", _beyond(largest, spec.compute_dtype)),
        (f"x · gain may leave {spec.input_dtype}", (spec.gain_position == "before_statistic") & _beyond(largest, spec.input_dtype)),
        (f"x + residual may leave {spec.residual_out_dtype}", (spec.residual == "add") & _beyond(largest, spec.residual_out_dtype)),
        (f"the squares may leave {spec.compute_dtype}", _beyond(squared, spec.compute_dtype)),
        (f"the sum of squares may leave {spec.accumulate_dtype}", _beyond(given.squares.hi, spec.accumulate_dtype)),
        (f"the statistic may leave {spec.statistic_dtype}", _beyond(kept, spec.statistic_dtype)),
        (f"the inverse may leave {spec.inverse_dtype}", _beyond(np.maximum(inverse, given.divisor.hi), spec.inverse_dtype)),
        (f"rounding may be everything: {spec.accumulate_order} additions in {spec.accumulate_dtype}, or underflow", ~(theta < 1)),
    ]  # fmt: skip
    found = np.full(len(theta), "", dtype=object)
    for says, where in reversed(reasons):
        found[where] = says
    return tuple(found)


def _beyond(values: Array, dtype: str) -> Array:
    beyond: Array = ~(values * _ROOM <= FORMATS[dtype].max)
    return beyond
