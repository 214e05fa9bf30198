"""A tensor of a file in blocks of whole rows; and the same rows as cases, for two sides to be run on."""

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rmsaudit.arrays import Array, bits_of, dtype_of
from rmsaudit.battery import common_format
from rmsaudit.case import Case
from rmsaudit.categories import REAL_ROWS
from rmsaudit.errors import CouldNotRun
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import NormSpec
from rmsaudit.storage import open_binary

if TYPE_CHECKING:
    from rmsaudit.documents.tensors import TensorPlace

MOST_BYTES = 1 << 22  # of a block: few calls, and little memory
CASE_BYTES = 1 << 20


def why_no_rows(place: "TensorPlace", width: int | None = None) -> str | None:
    """Why a tensor holds no rows of that width (of any, where none is given), in words; None where it holds some."""
    shape = list(place.shape)
    if place.dtype not in FORMATS:
        return f"has dtype {place.dtype}; rows are of one of {', '.join(FORMATS)}"
    if len(shape) < 2:
        return f"has shape {shape}; rows that enter a norm come as [..., width], one of them as [1, width]"
    if width is not None and shape[-1] != width:
        return f"has shape {shape}, and this norm takes rows of width {width}"
    if not prod(shape):
        return f"has shape {shape}: no row is in it"
    return None


def rows_in(place: "TensorPlace") -> int:
    """How many rows a tensor [..., width] holds."""
    return prod(place.shape[:-1])


def blocks(place: "TensorPlace", width: int, most_bytes: int = MOST_BYTES) -> Iterator[Array]:
    """All rows of a tensor [..., width] in order, as arrays [rows, width] of its dtype and of at most `most_bytes`, but
    of one row at least. The memory of each is its own.

    Raises ValueError for a tensor without such rows (`why_no_rows`), CouldNotRun where the file cannot be read.
    """
    reason = why_no_rows(place, width)
    if reason:
        raise ValueError(f"{place.name} {reason}")
    step = max(1, most_bytes // (width * FORMATS[place.dtype].bits // 8))
    left = rows_in(place)
    try:
        with open_binary(place.path) as file:
            file.seek(place.offset)
            while left:
                count = min(step, left)
                patterns = np.empty((count, width), bits_of(place.dtype).newbyteorder("<"))
                if file.readinto(patterns.data.cast("B")) < patterns.nbytes:  # type: ignore[attr-defined]
                    raise CouldNotRun(f"{place.path}: became shorter while it was read; {place.name} is not all there")
                left -= count
                yield patterns.astype(bits_of(place.dtype), copy=False).view(dtype_of(place.dtype))
    except OSError as error:
        raise CouldNotRun(f"{place.path}: cannot be read any more ({error.strerror or error})") from None


class RealRows:
    """The rows of a tensor as cases of the category REAL_ROWS, a block at a time, rounded to the input dtype.

    What entered a norm is what it squares, so a side that adds a residual gets the rows as x and zeros as residual.
    x is rounded once to what both input dtypes hold, as battery inputs are (`common_format`). gain: [width], as a case
    has it. most_rows: no more than so many rows, evenly spread; None for all. `says` is complete once all cases were
    taken. Raises as `blocks` does, while they are taken.
    """

    def __init__(
        self,
        place: "TensorPlace",
        specs: tuple[NormSpec, NormSpec],
        gain: Array,
        *,
        most_rows: int | None = None,
    ) -> None:
        self.place, self.gain = place, gain
        self.width = specs[0].width
        self.format = common_format(specs[0].input_dtype, specs[1].input_dtype)
        self._residual = np.zeros((), dtype_of(common_format(*(spec.residual_dtype for spec in specs)).held))
        self.rows = min(rows_in(place), most_rows or rows_in(place))
        self.rounded = 0
        self.overflowed = 0

    def __iter__(self) -> Iterator[Case]:
        self.rounded = self.overflowed = 0
        first = 0
        for block in blocks(self.place, self.width, CASE_BYTES):
            chosen = self._chosen(first, first + len(block))
            if chosen.size:
                yield self._case(block[chosen - first], chosen)
            first += len(block)

    @property
    def says(self) -> str:
        """How many rows they are, of which dtype, and what rounding did to them."""
        of_all = f" of {rows_in(self.place)}, evenly spread," if self.rows < rows_in(self.place) else ""
        words = f"{self.rows}{of_all} rows of {self.place.dtype}, {self._rounding}"
        return f"{words}; {self.overflowed} of them overflow there" if self.overflowed else words

    @property
    def _rounding(self) -> str:
        if not self.rounded:
            return f"which {self.format.held} holds as they are"
        return f"rounded once to {' and '.join(self.format.through)}"

    def _chosen(self, start: int, stop: int) -> Array:
        """The numbers of the wanted rows from `start` to `stop`: with n of N wanted, row ⌊i·N/n⌋ for every i < n."""
        total = rows_in(self.place)
        first, last = (-(-at * self.rows // total) for at in (start, stop))
        return np.arange(first, last) * total // self.rows

    def _case(self, block: Array, numbers: Array) -> Case:
        with np.errstate(over="ignore"):
            x = self.format.round(block)
        wide, given = x.astype(np.float64), block.astype(np.float64)
        self.rounded += int(np.count_nonzero((wide != given) & ~np.isnan(given)))
        self.overflowed += int(np.count_nonzero((~np.isfinite(wide) & np.isfinite(given)).any(axis=-1)))
        return Case(
            category=REAL_ROWS,
            label=f"rows {numbers[0]} to {numbers[-1]}",
            x=x,
            gain=self.gain,
            bias=np.broadcast_to(np.zeros((), self.gain.dtype), (self.width,)),
            residual=np.broadcast_to(self._residual, x.shape),
        )
