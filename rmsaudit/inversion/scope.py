"""Which elements are normalised together: some columns are made loud, and the factors of the others are watched."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.inversion.box import Box, NotThisFamily

_INFLUENCED = 1 / 8  # a loud block moves the factor of its row by more than half; rounding by less than 1/16


@dataclass(frozen=True)
class Scope:
    """groups: equal parts of a row, each with a statistic of its own. counted: the columns of a part that enter it."""

    groups: int
    counted: tuple[bool, ...]


def read_scope(box: Box) -> Scope | NotThisFamily:
    """The groups and the columns that count, to the column. Raises CannotAsk."""
    blocks = box.probes.blocks()
    found = _scope(blocks, _moved(box, blocks))
    if isinstance(found, NotThisFamily) or box.probes.block_size == 1:
        return found
    return _to_the_column(box, found)


def _moved(box: Box, loud: Array) -> Array:
    """For each block of loud[blocks, width], the other columns whose factor it changes."""
    x = box.probes.influence(loud)
    y = box.ask(x, 1.0).astype(np.float64)
    with np.errstate(all="ignore"):
        factor = y / x.astype(np.float64)
        changed = ~(np.abs(factor[1:] / factor[:1] - 1.0) <= _INFLUENCED)
    moved: Array = (changed[: len(loud)] | changed[len(loud) :]) & ~loud
    return moved


def _scope(loud: Array, moved: Array) -> Scope | NotThisFamily:
    if not moved.any():
        return NotThisFamily("no column changes the factor of another: nothing is normalised")
    for groups in _divisors(loud.shape[-1]):
        counted = _counted(moved, loud, groups)
        if counted is not None:
            return Scope(groups, tuple(bool(column) for column in counted))
    return NotThisFamily("the columns that change each other's factors are no equal parts of the row")


def _divisors(width: int) -> Iterator[int]:
    return (groups for groups in range(1, width // 2 + 1) if width % groups == 0)


def _counted(moved: Array, loud: Array, groups: int) -> Array | None:
    """Which columns of a group count, if `moved` is what `groups` groups would show; None if it is not."""
    group = np.arange(loud.shape[-1]) * groups // loud.shape[-1]
    first = group[loud.argmax(axis=-1)][:, None]
    if not (group == first)[loud].all():
        return None  # a block that reaches into two groups
    silent: Array = np.logical_not(moved.any(axis=-1))
    if not ((moved == ((group == first) & ~loud)).all(axis=-1) | silent).all():
        return None
    counts = ~(loud & silent[:, None]).any(axis=0).reshape(groups, -1)
    return counts[0] if (counts == counts[0]).all() else None


def _to_the_column(box: Box, scope: Scope) -> Scope | NotThisFamily:
    """The same, where blocks were of several columns: the last block that counts is asked about column by column."""
    size = box.width // scope.groups
    counted = np.array(scope.counted)
    last = int(np.flatnonzero(counted[: size - 1]).max(initial=0))
    columns = np.arange(max(last + 1 - box.probes.block_size, 0), min(last + 1, size - 1))
    moved = _moved(box, np.arange(box.width) == columns[:, None])
    counted[columns] = moved.any(axis=-1)
    return Scope(scope.groups, tuple(bool(column) for column in counted))
