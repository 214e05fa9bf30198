"""A deterministic bound on what rounding can do to a declared RMSNorm, term by term.

Every rounding to a format of precision p multiplies by a factor 1 + δ with |δ| <= u = 2^-p (2u toward zero), unless the
result is subnormal. A product of such factors, each to a power of ±w, is within exp(± Σ w · −log(1 − u)) of 1 (each
factor lies between 1 − u and 1/(1 − u)), so the terms here are logarithms, w · −log(1 − u), and add up exactly. Terms
about the row's divisor weigh 1/2 inside the root: squares are not negative, so nothing cancels and the sum of n squares
is off by no more than the h roundings of its most travelled term (`depth.py`).

    |ŷ − y| <= θ |y| + α        θ = exp(Σ terms) − 1

α is for results that become subnormal, whose rounding is absolute. Where an intermediate value may leave the range of
its format, or θ is 1 or more, the bound says nothing: the row is void.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, log1p

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS, Format, opmath
from rmsaudit.inversion.depth import depth
from rmsaudit.inversion.divisor import divisor, eps_share
from rmsaudit.inversion.interval import Interval
from rmsaudit.inversion.preimage import Rounding
from rmsaudit.inversion.sum_of_squares import sum_of_squares
from rmsaudit.semantics import NormSpec, takes_root_of_sum
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.gain import GAIN_FIRST, NORMALIZE_FIRST, SCALE_FIRST, rounding_point
from rmsaudit.semantics.scope import statistic_size

_ROOM = 2.0  # an intermediate value that reaches half of its format's largest is taken to leave it


@dataclass(frozen=True, eq=False, kw_only=True)
class Bound:
    """What rounding can do to the outputs of one spec on one input. Rows are taken apart in their groups: parts[rows ·
    groups, size].

    row, element: the terms of a row's divisor, and of an element beside it, by name; of those that differ between rows
    or columns, the largest. slack: Σ of the row's terms, [parts]. before_last: Σ of the element's terms but for its last
    rounding, which is `last`, to format `fmt`; [parts, size]. absolute: α without the last rounding, [parts, size]; inf
    where an element may overflow. void: why nothing is said of a part, "" where something is. factor: what x/D is
    multiplied by, [parts, size].
    """

    row: Mapping[str, float]
    element: Mapping[str, float]
    slack: Array
    before_last: Array
    last: float
    fmt: Format
    rounding: Rounding
    flushes: bool
    absolute: Array
    void: tuple[str, ...]
    factor: Array

    @property
    def theta(self) -> Array:
        """θ, [parts, size]."""
        with np.errstate(over="ignore"):
            return up(np.expm1((self.slack[:, None] + self.before_last + self.last) * (1 + 2.0**-40)))

    @property
    def alpha(self) -> Array:
        """α, [parts, size]."""
        last = self.fmt.smallest_normal if self.flushes else self.fmt.smallest_subnormal
        return self.absolute + last


def bound(spec: NormSpec, case: Case) -> Bound | str:
    """The bound of `spec` on `case`, or why there is none for such a spec."""
    reason = _without_bound(spec)
    if reason:
        return reason
    with np.errstate(all="ignore"):
        return _bound(spec, case)


def _without_bound(spec: NormSpec) -> str | None:
    if spec.axes != (-1,):
        return "no bound is derived for a statistic over columns or over all rows"
    if spec.center or spec.statistic == "variance" or spec.statistic_algorithm == "variance_plus_mean_square":
        return "subtracting a mean can cancel every digit, so no bound holds for all inputs"
    if spec.bias:
        return "adding a bias can cancel every digit, so no bound holds for all inputs"
    if spec.input_clamp != "none" or spec.output_clamp != "none":
        return "no bound is derived for clamped values"
    return None


# --- roundoff --------------------------------------------------------------------------------------------------------


def _log(u: float) -> float:
    return -log1p(-u)


def _operation(dtype: str) -> float:
    """One operation in `dtype`: below 32 bits it is carried out in float32 and rounded again."""
    own = _log(2.0 ** -FORMATS[dtype].precision)
    return own if FORMATS[dtype].bits >= 32 else own + _log(2.0**-24)


def _entering(held: str, dtype: str) -> float:
    """An operand held in `held` that enters an operation in `dtype`."""
    narrower = FORMATS[opmath(dtype)].precision < FORMATS[held].precision
    return _log(2.0 ** -FORMATS[opmath(dtype)].precision) if narrower else 0.0


def _cast(held: str, dtype: str, spec: NormSpec) -> float:
    """A value held in `held` that is rounded to `dtype`; 0 where the latter holds it."""
    if _holds(FORMATS[dtype], FORMATS[held]):
        return 0.0
    u = 2.0 ** -FORMATS[dtype].precision
    return _log(2 * u if spec.rounding == "toward_zero" else u)


def _holds(outer: Format, inner: Format) -> bool:
    return outer.precision >= inner.precision and outer.min_exponent <= inner.min_exponent


def _tiny(dtype: str, spec: NormSpec) -> float:
    """How far a rounding to `dtype` can move a subnormal result, in the worst case."""
    fmt = FORMATS[dtype]
    if spec.subnormals == "flush":
        return fmt.smallest_normal
    return fmt.smallest_subnormal if spec.rounding == "toward_zero" else fmt.smallest_subnormal / 2


# --- the row's divisor -----------------------------------------------------------------------------------------------


def row_terms(spec: NormSpec, size: int) -> dict[str, float]:
    """The relative terms of D that no input changes; `size` elements enter the statistic."""
    power_of_two = size & (size - 1) == 0
    terms = dict(_prepared(spec))
    compute, accumulate = _operation(spec.compute_dtype), _operation(spec.accumulate_dtype)
    squares = compute / 2
    if spec.statistic_algorithm == "max_scaled":
        squares += compute + accumulate + _entering(spec.compute_dtype, spec.accumulate_dtype)
    terms["squares"] = squares
    terms["sum"] = depth(spec.accumulate_order, size) * accumulate / 2
    terms["sum"] += _cast(spec.compute_dtype, spec.accumulate_dtype, spec) / 2
    terms["mean"] = 0.0 if power_of_two else _mean(spec, compute, accumulate)
    terms["statistic"] = _cast(spec.accumulate_dtype, spec.statistic_dtype, spec) / 2
    terms["eps added"] = _eps_added(spec)
    terms["root"] = _operation(spec.statistic_dtype) + _cast(spec.statistic_dtype, spec.inverse_dtype, spec)
    terms["inverse"] = _inverse(spec)
    if takes_root_of_sum(spec) and spec.statistic != "sum_square" and not _exact_root(size):
        terms["mean"] += _log(2.0**-52) + _entering("float64", spec.inverse_dtype) + _operation(spec.inverse_dtype)
    return {name: value for name, value in terms.items() if value}


def _prepared(spec: NormSpec) -> Iterator[tuple[str, float]]:
    """What the operand went through before it was squared; the square doubles it, the root halves it."""
    yield from _operand(spec, spec.statistic_source)


def _operand(spec: NormSpec, source: str) -> Iterator[tuple[str, float]]:
    compute = _operation(spec.compute_dtype)
    if spec.gain_applied and spec.gain_position == "before_statistic":
        held = _cast(spec.compute_dtype, spec.input_dtype, spec)
        yield "gain before the statistic", compute + _gain_entering(spec) + held
    if spec.residual == "add":
        rounded = _cast(spec.compute_dtype, spec.residual_out_dtype, spec) if source == "rounded" else 0.0
        yield "residual", compute + rounded + _cast(spec.input_dtype, spec.compute_dtype, spec)
    else:
        yield "input", _cast(spec.input_dtype, spec.compute_dtype, spec)
    if spec.prescale != "none":
        yield "prescale", compute


def _mean(spec: NormSpec, compute: float, accumulate: float) -> float:
    if spec.statistic == "sum_square" or takes_root_of_sum(spec):
        return 0.0
    match spec.mean_scaling:
        case "per_element":
            return compute  # 1/n and the product with it, halved
        case "multiply_by_reciprocal":
            return accumulate
    return accumulate / 2


def _eps_added(spec: NormSpec) -> float:
    match spec.eps_placement:
        case "inside_sum":
            return _operation(spec.accumulate_dtype) / 2
        case "inside_sqrt":
            return _operation(spec.statistic_dtype) / 2
        case "outside_sqrt":
            return _operation(spec.inverse_dtype)
    return 0.0


def _inverse(spec: NormSpec) -> float:
    """What follows the root; rsqrt is one rounding in place of two, through float64."""
    if spec.inverse == "divide_by_sqrt":
        return 0.0
    if spec.inverse == "rsqrt" and _root_is_final(spec):
        return _log(2.0**-51) if spec.statistic_dtype != "float64" else 0.0
    dtype = spec.statistic_dtype if _root_is_final(spec) else spec.inverse_dtype
    return _operation(dtype)


def _root_is_final(spec: NormSpec) -> bool:
    return spec.eps_placement not in ("outside_sqrt", "floor_rms") and not takes_root_of_sum(spec)


def _exact_root(size: int) -> bool:
    """Whether √size is a power of two."""
    return size & (size - 1) == 0 and size.bit_length() % 2 == 1


def _eps_off(spec: NormSpec) -> float:
    """How far the eps that is used may be from the one that was declared, relative; inf where it is rounded to 0."""
    declared = effective(spec)
    if spec.eps_placement == "none" or declared == 0:
        return 0.0
    used = float(round_to(np.asarray(declared), spec.eps_dtype))
    if used == 0:
        return inf
    into = {"inside_sum": spec.accumulate_dtype, "floor_sum": spec.accumulate_dtype, "inside_sqrt": spec.statistic_dtype}
    entering = _entering(spec.eps_dtype, into.get(spec.eps_placement, spec.inverse_dtype))
    squared = _operation(spec.accumulate_dtype) / 2 if spec.eps_placement == "floor_sum" else 0.0
    low, high = sorted((used, declared))
    return float(np.log(high / low)) + entering + squared + 2.0**-50


# --- the element -----------------------------------------------------------------------------------------------------


def element_terms(spec: NormSpec) -> tuple[dict[str, float], tuple[str, float, bool]]:
    """The relative terms of an element beside D; and its last rounding: the dtype, the term, and whether it is a cast."""
    compute = _operation(spec.compute_dtype)
    terms = {name: value for name, value in _operand(spec, spec.numerator_source)}
    held = spec.compute_dtype
    terms["normalise"] = compute + _entering(spec.inverse_dtype, held)
    last = (held, terms["normalise"], False)
    has_gain = spec.gain_applied and spec.gain_position == "after_normalize"
    if has_gain:
        terms["gain"] = _gain_terms(spec)
    if has_gain and spec.association != NORMALIZE_FIRST:
        terms["product"] = compute + _entering(_gain_held(spec), held)
    else:
        point = rounding_point(spec, spec.compute_dtype)
        terms["cast before gain"] = _cast(held, point, spec)
        held = point
        last = (held, terms["cast before gain"], True) if terms["cast before gain"] else last
    if spec.post_scale != "none":
        terms["post scale"] = _log(2.0**-52) + _entering("float64", held) + _operation(held)
        last = (held, _operation(held), False)
    return _finished(spec, terms, held, last, has_gain)


def _finished(
    spec: NormSpec, terms: dict[str, float], held: str, last: tuple[str, float, bool], has_gain: bool
) -> tuple[dict[str, float], tuple[str, float, bool]]:
    """The same with the product with the gain, where it comes last, and the cast to the output."""
    if has_gain:
        product = spec.gain_product_dtype
        if spec.association == NORMALIZE_FIRST:
            entering = _entering(held, product) + _entering(_gain_held(spec), product)
            terms["product"] = _operation(product) + entering
            last = (product, _operation(product), False)
        elif narrowed := _cast(held, product, spec):
            terms["cast of the product"] = narrowed
            last = (product, narrowed, True)
        held = product
    if narrowed := _cast(held, spec.output_dtype, spec):
        terms["output"] = narrowed
        last = (spec.output_dtype, narrowed, True)
    return {name: value for name, value in terms.items() if value}, last


def _gain_held(spec: NormSpec) -> str:
    if spec.gain_offset != 0:
        return spec.gain_offset_dtype
    return spec.gain_dtype if spec.gain_cast == "none" else spec.gain_cast


def _gain_terms(spec: NormSpec) -> float:
    """gain + offset, relative to itself; what rounding the gain first does to it is `_gain_off`."""
    return _operation(spec.gain_offset_dtype) if spec.gain_offset != 0 else 0.0


def _gain_entering(spec: NormSpec) -> float:
    return _gain_terms(spec) + _entering(_gain_held(spec), spec.compute_dtype)


def _gain_off(spec: NormSpec, gain: Array) -> Array:
    """What rounding the stored gain does to gain + offset, as a term of each column, [width]."""
    if spec.gain_cast == "none" and spec.gain_offset == 0:
        return np.zeros(len(gain))
    u = np.expm1(_cast(spec.gain_dtype, spec.gain_cast, spec)) if spec.gain_cast != "none" else 0.0
    entering = np.expm1(_entering(spec.gain_dtype, spec.gain_offset_dtype)) if spec.gain_offset != 0 else 0.0
    own = np.abs(gain) * (u + entering) * (1 + 2.0**-20)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(own == 0, 0.0, own / np.abs(gain + spec.gain_offset))
    return np.where(share < 1, -np.log1p(-np.minimum(share, 0.5)), inf) + np.where(share > 0.5, inf, 0.0)


# --- rows and their ranges -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Parts:
    """The exact operands in float64, [rows · groups, size]; divisor, squares: enclosed, [rows · groups].

    x: what is normalised (x + residual; times the gain that comes first). prescaled: x in units of each part's largest
    magnitude where the spec divides by it. amplified: what an absolute error of the operand is multiplied by.
    """

    x: Array
    factor: Array
    squares: Interval
    divisor: Interval
    unit: Array
    entering: int

    @property
    def amplified(self) -> Array:
        return 1.0 / self.divisor.lo[:, None]


def _parts(spec: NormSpec, case: Case) -> _Parts:
    rows, width = case.x.shape
    size = width // spec.groups
    x = case.x.astype(np.float64)
    if spec.residual == "add":
        x = x + case.residual.astype(np.float64)
    gain = case.gain.astype(np.float64) + spec.gain_offset if spec.gain_applied else np.ones(width)
    if spec.gain_applied and spec.gain_position == "before_statistic":
        x, gain = x * gain, np.ones(width)
    x = x.reshape(-1, size)
    unit = np.ones(len(x))
    if spec.prescale != "none":
        largest = np.abs(x).max(axis=-1)
        unit = np.where(largest > 0, largest, 1.0)
    entering = statistic_size(size, spec)
    squares = widened(sum_of_squares((x / unit[:, None])[:, :entering]))
    factor = np.broadcast_to(gain.reshape(spec.groups, size), (rows, spec.groups, size)).reshape(-1, size)
    return _Parts(x / unit[:, None], factor, squares, divisor(spec, squares, entering), unit, entering)


def widened(squares: Interval) -> Interval:
    """By what preparing the operand in float64 may have moved it; nothing where every operand is exact there."""
    return Interval(squares.lo * (1 - 2.0**-48), squares.hi * (1 + 2.0**-48))


def _bound(spec: NormSpec, case: Case) -> Bound:
    parts = _parts(spec, case)
    fixed = row_terms(spec, parts.entering)
    moving = {"eps": _eps_term(spec, parts), "underflow": _underflow(spec, parts)}
    slack = sum(fixed.values()) + moving["eps"] + moving["underflow"] + 2.0**-48
    terms, (dtype, _, is_cast) = element_terms(spec)
    u = 2.0 ** -FORMATS[dtype].precision
    last = _log(2 * u if is_cast and spec.rounding == "toward_zero" else u)
    off = np.broadcast_to(_gain_off(spec, case.gain.astype(np.float64)).reshape(spec.groups, -1), parts.factor.shape[:0] + (spec.groups, parts.x.shape[-1]))
    off = np.tile(off, (len(parts.x) // spec.groups, 1)) if spec.gain_applied else np.zeros_like(parts.x)
    before_last = sum(terms.values()) - last + off + 2.0**-48
    bound_ = Bound(
        row={**fixed, **{name: float(value.max(initial=0.0)) for name, value in moving.items() if value.any()}},
        element={**terms, **({"gain cast": float(off.max())} if off.any() else {})},
        slack=slack, before_last=before_last, last=last, fmt=FORMATS[dtype],
        rounding=spec.rounding if is_cast else "nearest_even", flushes=spec.subnormals == "flush",
        absolute=np.zeros_like(parts.x), void=(), factor=parts.factor,
    )
    return bound_


def _eps_term(spec: NormSpec, parts: _Parts) -> Array:
    off = _eps_off(spec)
    share = eps_share(spec, parts.squares, parts.entering)
    return np.where(share > 0, share * off, 0.0) if off else share * 0.0
