"""Candidate ÷ reference, row by row: what a cause that scales whole rows looks like."""

from math import isnan
from zlib import crc32

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.measure.measurement import ROWS_KEPT, RowFactor, RowFactors

_RUNS, _RUN = 16, 16  # of a row wider than 256, so many runs of so many columns are looked at, evenly spread
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 ÷ golden ratio, odd: multiples of it are spread evenly over 64 bits
_MAX = np.finfo(np.float64).max


def row_factors(reference: Array, candidate: Array, *, case: str = "", first_row: int = 0) -> RowFactors:
    """Of [rows, width] each. Of wide rows some columns are looked at, in runs, so that no pattern over lanes hides."""
    rows = reference.shape[0]
    if not reference.size:
        return RowFactors(rows=rows)
    keys = _keys(case, first_row, rows)
    chosen = np.sort(np.argpartition(keys, ROWS_KEPT)[:ROWS_KEPT]) if rows > ROWS_KEPT else np.arange(rows)
    medians, spreads = _medians(*(_picked(side, chosen) for side in (reference, candidate)))
    found = [
        RowFactor(key, None if isnan(median) else median, None if isnan(spread) else spread)
        for key, median, spread in zip(keys[chosen].tolist(), medians.tolist(), spreads.tolist(), strict=True)
    ]
    return RowFactors(rows=rows).merge(RowFactors(kept=tuple(found)))


def _keys(case: str, first_row: int, rows: int) -> Array:
    """uint64, a different one for each row of a case."""
    numbers = np.arange(first_row, first_row + rows, dtype=np.uint64)
    return (numbers + np.uint64(crc32(case.encode()) << 32)) * np.uint64(_GOLDEN)


def _picked(side: Array, rows: Array) -> Array:
    width = side.shape[1]
    if width <= _RUNS * _RUN:
        return side[rows]
    starts = (run * (width - _RUN) // (_RUNS - 1) for run in range(_RUNS))
    return np.hstack([side[rows, start : start + _RUN] for start in starts])


def _medians(reference: Array, candidate: Array) -> tuple[Array, Array]:
    """Per row: the lower median of the quotients, and the width of the middle nine tenths; NaN where there are none."""
    with np.errstate(all="ignore"):
        wide_reference, wide_candidate = reference.astype(np.float64), candidate.astype(np.float64)
        quotients = np.clip(wide_candidate / wide_reference, -_MAX, _MAX)
        usable = np.isfinite(wide_reference) & np.isfinite(wide_candidate) & (wide_reference != 0)
        quotients[~usable] = np.nan  # sorts last
        count = usable.sum(axis=1)
        quotients.sort(axis=1)
        edge = np.maximum(count - 1, 0) // 20

        def at(column: Array) -> Array:
            return np.take_along_axis(quotients, column[:, None], axis=1)[:, 0]

        spread = np.minimum(at(np.maximum(count - 1 - edge, 0)) - at(edge), _MAX)
    return at(np.maximum(count - 1, 0) // 2), spread
