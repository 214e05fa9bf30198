"""What a black box is made of, asked with one question each: which elements are normalised together, what the gain does,
whether the mean is subtracted, and where the result is rounded.

Every answer is a value. Where the answers cannot be those of an RMSNorm, the value is a `NotThisFamily` with what was
seen; nothing is claimed beyond that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array, bits, dtype_of, format_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.black_box import CannotAsk, Run
from rmsaudit.inversion.interval import Interval
from rmsaudit.inversion.probes import Probes, odd_sixteenths
from rmsaudit.inversion.row_scale import Allowance, Contradiction, RowScales, row_scales

Centred = Literal["no", "yes", "statistic only"]
CastPoint = Literal["before_gain", "after_gain", "not observable"]

ROWS = 8
_INFLUENCED = 1 / 8  # a loud block moves the factor of its row by more than half; rounding by less than 1/16


@dataclass(frozen=True)
class NotThisFamily:
    """The box is no RMSNorm that these instruments can read. says: what was seen, with numbers."""

    says: str


@dataclass(frozen=True)
class Box:
    """A black box under one eps and one width, with the dtypes that it is fed."""

    run: Run
    width: int
    input_dtype: str
    gain_dtype: str
    eps: float | None = None

    @cached_property
    def probes(self) -> Probes:
        return Probes(self.width, self.input_dtype)

    def ask(self, x: Array, gain: Array | float) -> Array:
        """The output on x[rows, width]; a number stands for a gain that is the same in every column.

        Raises CannotAsk, also where the output is not of the shape of x.
        """
        gains = np.broadcast_to(np.asarray(gain, dtype=np.float64), (self.width,))
        y = self.run(x, round_to(np.ascontiguousarray(gains), self.gain_dtype), self.eps)
        if y.shape != x.shape:
            raise CannotAsk(f"it answers {list(x.shape)} with {list(y.shape)}")
        return y


@dataclass(frozen=True)
class Structure:
    """What is known of a box at one width before its eps is.

    counted: which columns of a group enter the statistic, [width / groups]. gain_offset_dtypes: those that gain + offset
    may be rounded to; empty without an offset. cast_point: whether x·i was rounded to `grid` before the gain; not
    observable where it is held in the dtype of the output anyway. associations: those that give these bits; all three
    where that is not observable. grid: the format of the last rounding under a gain of 1, which may be coarser than the
    output's. allowance: what a row's outputs need beside that rounding to agree on one factor. zero_row: what zeros give.
    """

    groups: int
    counted: tuple[bool, ...]
    gain_applied: bool
    gain_offset: float
    gain_offset_dtypes: tuple[str, ...]
    centred: Centred
    cast_point: CastPoint
    associations: tuple[str, ...]
    output_dtype: str
    grid: str
    allowance: Allowance
    zero_row: Literal["zeros", "NaN"]

    @property
    def unit_gain(self) -> float:
        """The gain under which nothing is multiplied."""
        return 1.0 - self.gain_offset

    def parts(self, values: Array) -> Array:
        """values[rows, width] as [rows · groups, width / groups]."""
        return values.reshape(-1, values.shape[-1] // self.groups)

    @property
    def product_is_wide(self) -> bool:
        """Whether x, the row's factor and the gain are multiplied in float32 or wider and rounded only then."""
        return self.cast_point == "after_gain" and len(self.associations) == 3

    def scales(self, x: Array, y: Array, factor: Array | None = None) -> RowScales:
        """The factor of each group of each row, from outputs under `unit_gain`, or where every column is multiplied by
        its own factor[width]."""
        by = np.ones(1, np.float32) if factor is None else self.parts(np.broadcast_to(factor, x.shape))
        return row_scales(self.parts(x), self.parts(y), factor=by, fmt=FORMATS[self.grid], allowance=self.allowance)


def read_structure(box: Box) -> Structure | NotThisFamily:
    """The answers to all questions, or the first that no RMSNorm gives. Raises CannotAsk where the box does not run."""
    x = box.probes.ordinary(ROWS)
    y = box.ask(x, 1.0)
    strange = _repeats(box, x, y) or _rows_apart(box, x, y)
    zero_row = strange or _zero_row(box)
    scope = zero_row if isinstance(zero_row, NotThisFamily) else _scope(box)
    if isinstance(scope, NotThisFamily):
        return scope
    draft = _draft(box, x, y, scope, "NaN" if zero_row == "NaN" else "zeros")
    if isinstance(draft, NotThisFamily):
        return draft
    return _with_gain(replace(draft, centred=_centred(box, draft)), box, x)


def at_width(structure: Structure, box: Box) -> Structure | NotThisFamily:
    """The structure at another width: groups, elements that count, grid and allowance; the rest is taken over."""
    scope = _scope(box)
    if isinstance(scope, NotThisFamily):
        return scope
    x = box.probes.ordinary(ROWS)
    draft = _draft(box, x, box.ask(x, structure.unit_gain), scope, structure.zero_row)
    if isinstance(draft, NotThisFamily):
        return draft
    return replace(structure, groups=draft.groups, counted=draft.counted, grid=draft.grid, allowance=draft.allowance)


# --- calls and rows --------------------------------------------------------------------------------------------------


def _same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and bool((bits(one) == bits(other)).all())


def _repeats(box: Box, x: Array, y: Array) -> NotThisFamily | None:
    if _same(y, box.ask(x, 1.0)):
        return None
    return NotThisFamily("two calls with the same input differ")


def _rows_apart(box: Box, x: Array, y: Array) -> NotThisFamily | None:
    """One row four times as large must leave the others alone."""
    scaled = x.copy()
    scaled[0] = round_to(x[0].astype(np.float64) * 4.0, box.input_dtype)
    changed = np.flatnonzero((bits(box.ask(scaled, 1.0)) != bits(y)).any(axis=-1)[1:]) + 1
    if not len(changed):
        return None
    return NotThisFamily(f"scaling row 0 alone changes row {changed[0]}: the statistic is not taken over single rows")


def _zero_row(box: Box) -> NotThisFamily | Literal["zeros", "NaN"]:
    y = box.ask(np.zeros((1, box.width), dtype=dtype_of(box.input_dtype)), 1.0).astype(np.float64)
    if np.isnan(y).all():
        return "NaN"
    if not y.any():
        return "zeros"
    column = int(np.flatnonzero(y[0])[0])
    return NotThisFamily(
        f"a row of zeros gives {y[0, column]:g} in column {column}: something is added, a bias for one"
    )


# --- which elements belong together ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scope:
    groups: int
    counted: tuple[bool, ...]


def _scope(box: Box) -> _Scope | NotThisFamily:
    """Which columns change the factor of which: a block is made loud, and the other columns are watched."""
    x, loud = box.probes.influence()
    y = box.ask(x, 1.0).astype(np.float64)
    with np.errstate(all="ignore"):
        factor = y / x.astype(np.float64)
        changed = ~(np.abs(factor[1:] / factor[0] - 1.0) <= _INFLUENCED)
    moved = (changed[: len(loud)] | changed[len(loud) :]) & ~loud
    if not moved.any():
        return NotThisFamily("no column changes the factor of another: nothing is normalised")
    for groups in _divisors(box.width):
        counted = _counted(moved, loud, groups)
        if counted is not None:
            return _Scope(groups, counted)
    return NotThisFamily(
        "which columns change the factor of which others follows no grouping of the row in equal parts"
    )


def _divisors(width: int) -> Iterator[int]:
    return (groups for groups in range(1, width // 2 + 1) if width % groups == 0)


def _counted(moved: Array, loud: Array, groups: int) -> tuple[bool, ...] | None:
    """Which columns of a group count, if `moved` is what `groups` groups would show; None if it is not."""
    width = moved.shape[-1]
    group = np.arange(width) * groups // width
    first = group[loud.argmax(axis=-1)][:, None]
    together = (group == first) & ~loud
    silent = ~moved.any(axis=-1)
    whole = (group[width - 1 - loud[:, ::-1].argmax(axis=-1)][:, None] == first).all()
    if not whole or not ((moved == together).all(axis=-1) | silent).all():
        return None
    counts = ~(loud & silent[:, None]).any(axis=0).reshape(groups, -1)
    if not (counts == counts[0]).all():
        return None
    return tuple(bool(column) for column in counts[0])


# --- one factor ------------------------------------------------------------------------------------------------------


def _draft(box: Box, x: Array, y: Array, scope: _Scope, zero_row: Literal["zeros", "NaN"]) -> Structure | NotThisFamily:
    """The structure before gain and mean are asked about: which grid and allowance give every row one factor.

    Here the factor of a gain of 1 may still be 1 + offset; it is the same in every column, so it hides in the row's.
    """
    output = word_of(y)
    grid = _grid(y)
    draft = Structure(
        groups=scope.groups, counted=scope.counted, gain_applied=True, gain_offset=0.0, gain_offset_dtypes=(),
        centred="no", cast_point="not observable", associations=(), output_dtype=output, grid=grid,
        allowance=Allowance(), zero_row=zero_row,
    )  # fmt: skip
    for allowance in _allowances(grid):
        tried = replace(draft, allowance=allowance)
        scales = tried.scales(x, y)
        if not len(scales.contradicted):
            return tried
    return NotThisFamily(several_factors(scales.contradiction(int(scales.contradicted[0])), x, y, draft))


def _grid(y: Array) -> str:
    """The coarsest format that holds every value: what was rounded to 16 bits stays recognisable in 32."""
    own = word_of(y)
    narrower = [word for word in ("bfloat16", "float16", "float32") if FORMATS[word].precision < FORMATS[own].precision]
    with np.errstate(all="ignore"):
        held = [word for word in narrower if np.array_equal(round_to(y, word).astype(y.dtype), y)]
    return held[0] if held else own


def _allowances(grid: str) -> Iterator[Allowance]:
    """Two roundings in float64 (only for its own grid), two in float32, and two more in the grid itself."""
    if grid == "float64":
        yield Allowance(relative=2.0**-52, flushes=True)
    yield Allowance(relative=2.0**-23, flushes=True)
    if grid not in ("float64", "float32"):
        yield Allowance(relative=2.0**-23 + FORMATS[grid].machine_epsilon, flushes=True)


def several_factors(found: Contradiction, x: Array, y: Array, structure: Structure) -> str:
    """In words, why a row has no one factor."""
    inputs, outputs = structure.parts(x)[found.row], structure.parts(y)[found.row]
    column = found.columns[0]
    return (
        f"the outputs of one row are not x times one factor: {len(found.columns)} of {len(inputs)} columns do not share"
        f" the factor {found.lo:.6g} of the others (column {column} has {float(outputs[column]):g} where x is"
        f" {float(inputs[column]):g})"
    )


# --- the mean --------------------------------------------------------------------------------------------------------


def _centred(box: Box, draft: Structure) -> Centred:
    """Whether a constant added to a row leaves the output alone, or leaves only the factor alone."""
    x, shifted = box.probes.shifted(ROWS)
    y, moved = (box.ask(rows, 1.0).astype(np.float64) for rows in (x, shifted))
    if np.abs(moved - y).max() <= np.abs(y).max() / 16:
        return "yes"
    used = x[:, : box.width - box.width % 2].astype(np.float64)
    factor = np.median(np.abs(y[:, : used.shape[-1]] / used))
    factor_moved = np.median(np.abs(moved / shifted.astype(np.float64)))
    return "statistic only" if abs(factor_moved / factor - 1.0) < 1 / 4 else "no"


# --- the gain --------------------------------------------------------------------------------------------------------


def _with_gain(draft: Structure, box: Box, x: Array) -> Structure | NotThisFamily:
    at_zero, at_one = box.ask(x, 0.0), box.ask(x, 1.0)
    if not at_zero.astype(np.float64).any():
        return _with_cast_point(draft, box, x, at_one)
    if _same(at_zero, at_one):
        return replace(draft, gain_applied=False)
    offset = _offset(at_zero, at_one)
    if offset is None:
        return NotThisFamily(
            "under gains of 0 it gives neither zeros nor a fixed share of what it gives under gains of 1"
        )
    shifted = replace(draft, gain_offset=offset)
    unit = box.ask(x, shifted.unit_gain)
    return _with_cast_point(replace(shifted, gain_offset_dtypes=_offset_dtypes(shifted, box, x, unit)), box, x, unit)


def _offset(at_zero: Array, at_one: Array) -> float | None:
    """c where the outputs are x·r·(gain + c), to three digits; None where their quotient differs by column."""
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
    kept = []
    for word in ("float32", "float16", "bfloat16"):
        factor = round_to(gain + shifted.gain_offset, word).astype(np.float64)
        if _product_matches(unit, factor, y) or _shares_factor(shifted, x, y, factor):
            kept.append(word)
    return tuple(kept)


def _product_matches(unit: Array, factor: Array, y: Array) -> bool:
    """Whether y is the unit output times the factor, rounded once."""
    with np.errstate(all="ignore"):
        product = round_to(unit.astype(np.float64) * factor, _grid(y)).astype(y.dtype)
    return _same(product, y)


def _shares_factor(structure: Structure, x: Array, y: Array, factor: Array) -> bool:
    return not len(replace(structure, grid=_grid(y)).scales(x, y, factor).contradicted)


def _with_cast_point(draft: Structure, box: Box, x: Array, unit: Array) -> Structure | NotThisFamily:
    """Whether outputs under other gains are the unit outputs times the gain, bit for bit, or come from unrounded ones."""
    factor = odd_sixteenths(box.width)
    y = box.ask(x, factor - draft.gain_offset)
    wide = FORMATS[draft.grid].precision >= FORMATS["float32"].precision
    if _product_matches(unit, factor, y):
        if wide:
            return replace(draft, associations=("(x*i)*g",))
        return replace(draft, cast_point="before_gain", associations=("(x*i)*g",))
    found = _associations(draft, x, y, factor, unit) if draft.grid == "float32" else ()
    if found:
        return replace(draft, associations=found)
    if _shares_factor(draft, x, y, factor):
        return replace(draft, cast_point="after_gain", associations=("(x*i)*g", "(x*g)*i", "x*(i*g)"))
    return _in_the_grid(draft, x, y, factor)


def _in_the_grid(draft: Structure, x: Array, y: Array, factor: Array) -> Structure | NotThisFamily:
    """Where the products agree on no factor: whether they do once the product with the gain is rounded to `grid` too."""
    with np.errstate(all="ignore"):
        product = round_to(x.astype(np.float64) * factor, draft.grid)
    if not len(draft.scales(product, y).contradicted):
        return replace(draft, cast_point="after_gain", associations=("(x*g)*i",))
    wider = Allowance(relative=2.0**-23 + FORMATS[draft.grid].machine_epsilon, flushes=True)
    if _shares_factor(replace(draft, allowance=wider), x, y, factor):
        return replace(draft, cast_point="after_gain", associations=("(x*g)*i", "x*(i*g)"))
    return NotThisFamily("a gain does not act as a factor of its own column")


def _associations(draft: Structure, x: Array, y: Array, factor: Array, unit: Array) -> tuple[str, ...]:
    """Of the orders that multiply the gain earlier, in float32, those that give every bit; from the row's factor i, which
    the unit outputs leave a few float32 values, as a multiplier or as a divisor."""
    exact = replace(draft, allowance=Allowance(flushes=True)).scales(x, unit).scale
    parts = draft.parts(x).astype(np.float32)
    gains = draft.parts(np.broadcast_to(factor.astype(np.float32), x.shape))
    wanted = draft.parts(y)
    found = []
    for name in ("(x*g)*i", "x*(i*g)"):
        if all(_row_matches(name, parts[row], gains[row], wanted[row], exact.at(row)) for row in range(len(parts))):
            found.append(name)
    return tuple(found)


def _row_matches(name: str, x: Array, gain: Array, y: Array, scale: Interval) -> bool:
    lo, hi = float(scale.lo), float(scale.hi)
    with np.errstate(all="ignore"):
        for i in _between(lo, hi):
            if np.array_equal(x * (i * gain) if name == "x*(i*g)" else (x * gain) * i, y):
                return True
        for root in _between(1.0 / hi, 1.0 / lo):
            if np.array_equal(x * (gain / root) if name == "x*(i*g)" else (x * gain) / root, y):
                return True
    return False


def _between(lo: float, hi: float) -> Iterator[np.float32]:
    """The float32 values in [lo, hi], a few of them."""
    value = np.float32(lo)
    if value < lo:
        value = np.nextafter(value, np.float32(np.inf))
    for _ in range(64):
        if value > hi:
            return
        yield value
        value = np.nextafter(value, np.float32(np.inf))
