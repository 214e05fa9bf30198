"""What the gain does: whether it acts, what is added to it, and where the product is rounded."""

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

import numpy as np

from rmsaudit.arrays import Array, format_of, round_to
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.box import Box, NotThisFamily, same
from rmsaudit.inversion.grid import grid_of
from rmsaudit.inversion.interval import Interval
from rmsaudit.inversion.probes import odd_sixteenths
from rmsaudit.inversion.row_scale import Allowance
from rmsaudit.inversion.structure import ONE_ROUNDING, CastPoint, Structure
from rmsaudit.semantics.gain import GAIN_FIRST, NORMALIZE_FIRST, SCALE_FIRST

_ALL = (NORMALIZE_FIRST, GAIN_FIRST, SCALE_FIRST)
_INVERSE_ROUNDED = 2.0**-23  # more than 1/root and its rounding can be apart
_CANDIDATES = 64  # float32 values between the ends of a row's factor: a few where its outputs are float32


def with_gain(draft: Structure, box: Box, x: Array) -> Structure | NotThisFamily:
    """`draft` with everything about the gain, from outputs on x[rows, width]. Raises CannotAsk."""
    at_zero, at_one = box.ask(x, 0.0), box.ask(x, 1.0)
    if not at_zero.astype(np.float64).any():
        return _with_cast_point(draft, box, x, at_one)
    if same(at_zero, at_one):
        return replace(draft, gain_applied=False)
    offset = _offset(at_zero, at_one)
    if offset is None:
        return NotThisFamily("gains of 0 give neither zeros nor a fixed share of what gains of 1 give")
    shifted = replace(draft, gain_offset=offset)
    unit = box.ask(x, shifted.unit_gain)
    return _with_cast_point(replace(shifted, gain_offset_dtypes=_offset_dtypes(shifted, box, x, unit)), box, x, unit)


def _offset(at_zero: Array, at_one: Array) -> float | None:
    """c where the outputs are x·r·(gain + c), to two digits; None where their quotient differs by column."""
    zero, one = at_zero.astype(np.float64), at_one.astype(np.float64)
    present = (one != 0) & np.isfinite(one) & np.isfinite(zero)
    shares = zero[present] / one[present]
    share = float(np.median(shares)) if len(shares) else np.nan
    close = np.abs(shares - share) <= 4 * format_of(at_zero).machine_epsilon * abs(share)
    if not isfinite(share) or share == 1.0 or not close.all():
        return None
    return float(f"{share / (1.0 - share):.2g}")


def _offset_dtypes(shifted: Structure, box: Box, x: Array, unit: Array) -> tuple[str, ...]:
    """The dtypes of gain + offset that explain the outputs under gains too fine for 16 bits beside a 1."""
    gain = (2.0 * (np.arange(box.width) % 64) + 1.0) * 2.0**-13
    y = box.ask(x, gain)

    def explains(word: str) -> bool:
        factor = round_to(gain + shifted.gain_offset, word).astype(np.float64)
        return _is_product(unit, factor, y) or _shares_factor(shifted, x, y, factor)

    return tuple(word for word in ("float32", "float16", "bfloat16") if explains(word))


def _is_product(unit: Array, factor: Array, y: Array) -> bool:
    """Whether y is the unit output times the factor, rounded once."""
    with np.errstate(all="ignore"):
        return same(round_to(unit.astype(np.float64) * factor, grid_of(y)).astype(y.dtype), y)


def _shares_factor(structure: Structure, x: Array, y: Array, factor: Array) -> bool:
    """Whether each row of y is x times the factor of every column times one factor of the row."""
    return not len(replace(structure, grid=grid_of(y)).scales(x, y, factor).contradicted)


def _with_cast_point(draft: Structure, box: Box, x: Array, unit: Array) -> Structure | NotThisFamily:
    """Whether outputs under other gains are the unit outputs times the gain, bit for bit, or of unrounded ones."""
    factor = odd_sixteenths(box.width)
    y = box.ask(x, factor - draft.gain_offset)
    if _is_product(unit, factor, y):
        wide = FORMATS[draft.grid].precision >= FORMATS["float32"].precision
        return replace(draft, cast_point="not observable" if wide else "before_gain", associations=(NORMALIZE_FIRST,))
    found = _earlier_products(draft, x, y, factor, unit) if draft.grid == "float32" else ()
    if found:
        return replace(draft, associations=found)
    if not _shares_factor(draft, x, y, factor):
        return _with_coarse_product(draft, x, y, factor)
    point: CastPoint = "after_gain" if draft.allowance.relative == ONE_ROUNDING else "not observable"
    return replace(draft, cast_point=point, associations=_ALL)


def _with_coarse_product(draft: Structure, x: Array, y: Array, factor: Array) -> Structure | NotThisFamily:
    """Where the outputs agree on no factor: whether they do once a product with the gain is rounded to `grid` too."""
    with np.errstate(all="ignore"):
        product = round_to(x.astype(np.float64) * factor, draft.grid)
    if not len(draft.scales(product, y).contradicted):
        return replace(draft, cast_point="after_gain", associations=(GAIN_FIRST,))
    wider = Allowance(relative=ONE_ROUNDING + FORMATS[draft.grid].machine_epsilon, flushes=True)
    if _shares_factor(replace(draft, allowance=wider), x, y, factor):
        return replace(draft, cast_point="after_gain", associations=(GAIN_FIRST, SCALE_FIRST))
    return NotThisFamily("a gain does not act as a factor of its own column")


def _earlier_products(draft: Structure, x: Array, y: Array, factor: Array, unit: Array) -> tuple[str, ...]:
    """The orders in which the gain multiplies before x is normalised, in float32, that give every bit of y.

    The unit outputs leave a row's factor a few float32 values, as a multiplier or as a divisor; each is tried.
    """
    scale = replace(draft, allowance=Allowance(flushes=True)).scales(x, unit).scale
    inputs, outputs = draft.parts(x).astype(np.float32), draft.parts(y)
    gains = draft.parts(np.broadcast_to(factor.astype(np.float32), x.shape))
    rows = range(len(inputs))
    return tuple(
        name
        for name in (GAIN_FIRST, SCALE_FIRST)
        if all(_matches(name, inputs[row], gains[row], outputs[row], scale.at(row)) for row in rows)
    )


def _matches(name: str, x: Array, gain: Array, y: Array, scale: Interval) -> bool:
    """Whether some float32 factor, or divisor, within `scale` gives y."""
    lo, hi = float(scale.lo), float(scale.hi)
    factors = list(_between(lo, hi))
    off = _INVERSE_ROUNDED if name == SCALE_FIRST else 0.0  # there even a gain of 1 is divided by the root first
    roots = list(_between((1 - off) / hi, (1 + off) / lo))
    with np.errstate(all="ignore"):
        if name == GAIN_FIRST:
            tried: list[Array] = [*(x * gain * i for i in factors), *(x * gain / root for root in roots)]
        else:
            tried = [*(x * (i * gain) for i in factors), *(x * (gain / root) for root in roots)]
    return any(np.array_equal(one, y) for one in tried)


def _between(lo: float, hi: float) -> Iterator[np.float32]:
    """The float32 values from lo to hi, at most _CANDIDATES of them."""
    value = np.float32(lo)
    if value < lo:
        value = np.nextafter(value, np.float32(np.inf))
    for _ in range(_CANDIDATES):
        if value > hi:
            return
        yield value
        value = np.nextafter(value, np.float32(np.inf))
