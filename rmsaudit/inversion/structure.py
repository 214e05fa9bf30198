"""What is known of a black box at one width before its eps is."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.row_scale import Allowance, RowScales, row_scales

Centred = Literal["no", "yes", "statistic only"]
CastPoint = Literal["before_gain", "after_gain", "not observable"]
ZeroRow = Literal["zeros", "NaN"]

ONE_ROUNDING = 2.0**-23  # relative: an allowance for outputs that are rounded to the grid once, from float32
_MEAN_ROUNDED = 2.0**-20  # of the mean magnitude of a row: 16 roundings of float32


@dataclass(frozen=True)
class Structure:
    """Which elements are normalised together, what the gain does, and where the result is rounded.

    counted: which columns of a group enter the statistic, [width / groups]. centred: whether the mean is subtracted, or
    only left out of the statistic. gain_offset_dtypes: those that gain + offset may be rounded to; empty without an
    offset. cast_point: whether x·i was rounded to `grid` before the gain, which a box that computes in 16 bits does
    too; not observable where it is held in the output's dtype anyway, or where outputs are rounded more than once.
    associations: those that give these bits; all three where that is not observable, none without a gain. grid: the
    format of the last rounding under a gain of 1, which may be coarser than the output's. allowance: what a row's
    outputs need beside that rounding to agree on one factor. zero_row: what a row of zeros gives.
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
    zero_row: ZeroRow

    @property
    def unit_gain(self) -> float:
        """The gain under which nothing is multiplied."""
        return 1.0 - self.gain_offset

    @property
    def product_is_wide(self) -> bool:
        """Whether x, the row's factor and the gain are multiplied in float32 or wider and rounded only then."""
        return self.cast_point == "after_gain" and len(self.associations) == 3

    def parts(self, values: Array) -> Array:
        """values[rows, width] as [rows · groups, width / groups]."""
        return values.reshape(-1, values.shape[-1] // self.groups)

    def numerator(self, x: Array) -> Array:
        """What is normalised: the parts of x[rows, width], without their means where these are subtracted."""
        return _without_mean(self.parts(x)) if self.centred == "yes" else self.parts(x)

    def squared(self, x: Array) -> Array:
        """What is squared: the columns of each part that count, without the mean where that is left out."""
        entering = self.parts(x.astype(np.float64))[:, np.array(self.counted)]
        return entering if self.centred == "no" else _without_mean(entering)

    def scales(self, x: Array, y: Array, factor: Array | None = None) -> RowScales:
        """The factor of each group of each row, from outputs under `unit_gain`, or from outputs in which every column
        is multiplied by its own factor[width]."""
        by = np.ones((1, 1), np.float32) if factor is None else self.parts(np.broadcast_to(factor, x.shape))
        outputs = self.parts(y)
        allowance = self.allowance if self.centred != "yes" else self._with_mean(outputs, by)
        return row_scales(self.numerator(x), outputs, factor=by, fmt=FORMATS[self.grid], allowance=allowance)

    def _with_mean(self, outputs: Array, factor: Array) -> Allowance:
        """A mean that was rounded before it was subtracted moves every element of a row by the same amount."""
        size = np.abs(outputs.astype(np.float64) / factor).mean(axis=-1, keepdims=True)
        return replace(self.allowance, absolute=_MEAN_ROUNDED * size * np.abs(factor))


def _without_mean(parts: Array) -> Array:
    """In float64, whose rounding is far within the allowance; even groups of balanced rows have no mean."""
    wide = parts.astype(np.float64)
    centred: Array = wide - wide.mean(axis=-1, keepdims=True)
    return centred
