"""What a black box is made of, asked with one question each, in an order in which each answer helps with the next."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rmsaudit.arrays import Array, bits, dtype_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.box import Box, NotThisFamily, same
from rmsaudit.inversion.gain import with_gain
from rmsaudit.inversion.grid import grid_of
from rmsaudit.inversion.row_scale import Allowance, Contradiction
from rmsaudit.inversion.scope import Scope, read_scope
from rmsaudit.inversion.structure import ONE_ROUNDING, Centred, Structure, ZeroRow

ROWS = 8
FEWEST = 8  # elements of a group: two of them, a and −a, always come out as 1 and −1


def read_structure(box: Box) -> Structure | NotThisFamily:
    """The answers to all questions, or the first that no RMSNorm gives. Raises CannotAsk where the box does not run."""
    x = box.probes.ordinary(ROWS)
    y = box.ask(x, 1.0)
    strange = _repeats(box, x, y) or _keeps_rows_apart(box, x, y)
    zero_row = strange or _zero_row(box)
    if isinstance(zero_row, NotThisFamily):
        return zero_row
    scope = read_scope(box)
    if isinstance(scope, NotThisFamily):
        return scope
    size = len(scope.counted)
    if size < FEWEST:
        return NotThisFamily(f"it normalises groups of {size} elements; fewer than {FEWEST} do not confine a factor")
    draft = _draft(x, y, scope, _centred(box))
    if isinstance(draft, NotThisFamily):
        return draft
    return with_gain(replace(draft, zero_row=zero_row), box, x)


def at_width(structure: Structure, box: Box) -> Structure | NotThisFamily:
    """The structure at another width: groups, elements that count, grid and allowance; the rest is taken over."""
    scope = read_scope(box)
    if isinstance(scope, NotThisFamily):
        return scope
    x = box.probes.ordinary(ROWS)
    draft = _draft(x, box.ask(x, structure.unit_gain), scope, structure.centred)
    if isinstance(draft, NotThisFamily):
        return draft
    return replace(structure, groups=draft.groups, counted=draft.counted, grid=draft.grid, allowance=draft.allowance)


def _repeats(box: Box, x: Array, y: Array) -> NotThisFamily | None:
    return None if same(y, box.ask(x, 1.0)) else NotThisFamily("two calls with the same input differ")


def _keeps_rows_apart(box: Box, x: Array, y: Array) -> NotThisFamily | None:
    """One row four times as large must leave the others alone."""
    scaled = x.copy()
    scaled[0] = round_to(x[0].astype(np.float64) * 4.0, box.input_dtype)
    changed = np.flatnonzero((bits(box.ask(scaled, 1.0)) != bits(y)).any(axis=-1)[1:]) + 1
    if not len(changed):
        return None
    return NotThisFamily(f"scaling row 0 alone changes row {changed[0]}: the statistic is not taken over single rows")


def _zero_row(box: Box) -> NotThisFamily | ZeroRow:
    y = box.ask(np.zeros((1, box.width), dtype=dtype_of(box.input_dtype)), 1.0).astype(np.float64)
    if np.isnan(y).all():
        return "NaN"
    if not y.any():
        return "zeros"
    column = int(np.flatnonzero(y[0])[0])
    return NotThisFamily(f"a row of zeros gives {y[0, column]:g} in column {column}: something is added, as a bias is")


def _draft(x: Array, y: Array, scope: Scope, centred: Centred) -> Structure | NotThisFamily:
    """The structure before the gain is asked about: which grid and allowance give every row one factor.

    Under a gain that is the same in every column, an offset of the gain hides in the factor of the row.
    """
    draft = Structure(
        groups=scope.groups,
        counted=scope.counted,
        gain_applied=True,
        gain_offset=0.0,
        gain_offset_dtypes=(),
        centred=centred,
        cast_point="not observable",
        associations=(),
        output_dtype=word_of(y),
        grid=grid_of(y),
        allowance=Allowance(),
        zero_row="zeros",
    )
    for allowance in _allowances(draft.grid):
        tried = replace(draft, allowance=allowance)
        scales = tried.scales(x, y)
        if not len(scales.contradicted):
            return tried
    return NotThisFamily(several_factors(scales.contradiction(int(scales.contradicted[0])), x, y, draft))


def _allowances(grid: str) -> Iterator[Allowance]:
    """Two roundings in float64 (only for its own grid), two in float32, and two more in the grid itself."""
    if grid == "float64":
        yield Allowance(relative=2.0**-52, flushes=True)
    yield Allowance(relative=ONE_ROUNDING, flushes=True)
    if grid not in ("float64", "float32"):
        yield Allowance(relative=ONE_ROUNDING + FORMATS[grid].machine_epsilon, flushes=True)


def several_factors(found: Contradiction, x: Array, y: Array, structure: Structure) -> str:
    """In words, why a row has no one factor."""
    inputs, outputs = structure.parts(x)[found.row], structure.parts(y)[found.row]
    column = found.columns[0]
    return (
        f"the outputs of one row are not x times one factor: {len(found.columns)} of {len(inputs)} columns do not share"
        f" the factor {found.lo:.6g} of the others (column {column} has {float(outputs[column]):g} where x is"
        f" {float(inputs[column]):g})"
    )


def _centred(box: Box) -> Centred:
    """Whether a constant added to a row leaves the output alone, or leaves only the factor alone."""
    x, shifted = box.probes.shifted(ROWS)
    y, moved = (box.ask(rows, 1.0).astype(np.float64) for rows in (x, shifted))
    if np.abs(moved - y).max() <= np.abs(y).max() / 16:
        return "yes"
    paired = slice(0, box.width - box.width % 2)  # a last odd column is 0
    factor = np.median(np.abs(y[:, paired] / x[:, paired].astype(np.float64)))
    factor_moved = np.median(np.abs(moved / shifted.astype(np.float64)))
    return "statistic only" if abs(factor_moved / factor - 1.0) < 1 / 4 else "no"
