"""The inputs that a black box is read with: whole numbers times powers of two, drawn as the battery's are.

Every row of `balanced` is made so that what is not asked about cannot matter. Its squares are whole numbers with a sum
below 2^24 in units of the row, so that in float32 the sum is exact in every order. Its elements come in pairs a, −a, so
that its mean is 0 exactly, and a side that subtracts the mean computes the same. Its magnitudes differ, so that each
output confines the row's factor at another place.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, isqrt, log2, sqrt

import numpy as np

from rmsaudit.arrays import Array, dtype_of
from rmsaudit.battery import CommonFormat, common_format
from rmsaudit.battery._draw import Draw

SUM_BITS = 24  # of float32: what an exact sum of squares may fill
MOST_BLOCKS = 256
_FINEST = 12  # bits of a whole number that are used even where the format has more
_STRONG = 64  # pairs that have all of them, at least
_LOUDER = 16  # what a loud block adds to a row's sum of squares, in sums of squares of the row without it


@dataclass(frozen=True)
class Probes:
    """Rows of one width in one input dtype. Every method gives the same x[rows, width] at each call.

    Raises ValueError for a width of 1, where there are no pairs.
    """

    width: int
    input_dtype: str
    seed: int = 0

    def __post_init__(self) -> None:
        if self.width < 2:
            raise ValueError(f"width {self.width} leaves no pair of elements; use 2 or more")

    def balanced(self, scales: Array, stream: str) -> Array:
        """A row for each of `scales`, of rms 2^(scale − 1) to 2^(scale + 1) where the format allows that.

        Where it does not, whole numbers get smaller first; then fewer and fewer pairs are not 0. A last odd column is
        always 0.
        """
        count, pairs = len(scales), self.width // 2
        draw = self._draw(stream)
        rank = draw.below(1 << 30, count, pairs).argsort(axis=-1, kind="stable").argsort(axis=-1)
        unit = self._units(scales)
        target = np.exp2(scales - unit)  # the rms in units
        tops = np.where(target[:, None] < 1, 1, self._tops[rank] * (target / self._rms)[:, None])
        whole = 1 + ((draw.below(1 << 24, count, pairs) * np.maximum(np.floor(tops), 1).astype(np.int64)) >> 24)
        kept = np.clip(np.round(pairs * target**2), 1, pairs)
        values = np.where(rank < kept[:, None], whole, 0) * (1 - 2 * draw.below(2, count, pairs))
        return self._held(np.ldexp(self._paired(values), unit[:, None]))

    @property
    def lowest(self) -> float:
        """The smallest scale at which rows still differ from those of a larger one: one pair of the smallest value."""
        return self._format.smallest_exponent - log2(self.width / 2) / 2

    @property
    def smallest_normal(self) -> float:
        """The smallest scale at which no element is subnormal."""
        return self._format.min_exponent + ceil(log2(self._rms)) + 1.0

    def subnormal(self) -> Array:
        """One row of half the smallest normal value, in both signs."""
        return self._held(self._paired(np.full((1, self.width // 2), 2.0 ** (self._format.min_exponent - 1))))

    def ordinary(self, count: int) -> Array:
        """Balanced rows at about unit scale, no two at the same."""
        return self.balanced(np.arange(count) / count, "ordinary")

    def shifted(self, count: int) -> tuple[Array, Array]:
        """Rows of mean 0, of eighths up to 15/8, and the same rows with 8 added to every element: 7 bits at most."""
        draw = self._draw("shifted")
        eighths = (1 + draw.below(15, count, self.width // 2)) * (1 - 2 * draw.below(2, count, self.width // 2))
        rows = self._paired(eighths / 8.0)
        return self._held(rows), self._held(rows + 8.0)

    @property
    def block_size(self) -> int:
        """How many columns a block has, at most."""
        return -(-self.width // MOST_BLOCKS)

    def blocks(self) -> Array:
        """Blocks of neighbouring columns that cover the row, and the last column by itself: [blocks, width], true
        inside a block."""
        count = min(self.width, MOST_BLOCKS)
        blocks = np.arange(self.width) * count // self.width == np.arange(count)[:, None]
        return np.concatenate([blocks, (np.arange(self.width) == self.width - 1)[None]])

    def influence(self, loud: Array) -> Array:
        """A row of elements of about equal size; for each block of loud[blocks, width] the same row with that block
        much louder; then those again with the loud block negated.

        Negated as well, because where the mean is subtracted an element may happen to move as its row's factor does.
        """
        exponent = np.ceil(np.log2(_LOUDER * self.width / loud.sum(axis=-1, keepdims=True)) / 2).astype(int)
        base = self._held(self._draw("influence").binade(self.width)).astype(np.float64)
        louder = np.ldexp(base, exponent)
        return self._held(np.concatenate([base[None], np.where(loud, louder, base), np.where(loud, -louder, base)]))

    @property
    def _format(self) -> CommonFormat:
        return common_format(self.input_dtype, self.input_dtype)

    def _draw(self, stream: str) -> Draw:
        return Draw(f"{self.seed}/inversion/{self.width}/{stream}", self._format)

    def _paired(self, values: Array) -> Array:
        """values[count, width // 2], each followed by its negative; a last odd column is 0."""
        rows = np.zeros((len(values), self.width))
        even = 2 * values.shape[-1]
        rows[:, 0:even:2], rows[:, 1:even:2] = values, -values
        return rows

    def _held(self, values: Array) -> Array:
        return self._format.round(values.astype(self._format.draft)).astype(dtype_of(self.input_dtype), copy=False)

    @cached_property
    def _tops(self) -> Array:
        """The largest whole number of each pair, such that the squares of a row stay below 2^SUM_BITS.

        Where a row is too wide for one size, some pairs have more bits, from half of the sum, and the rest share the
        other half: many bits in a few elements say more than few bits in all of them.
        """
        pairs, room = self.width // 2, (1 << SUM_BITS) - 1
        most = min((1 << min(self._format.precision, _FINEST)) - 1, isqrt(room // (4 * min(pairs, _STRONG))))
        if self.width * most**2 <= room:
            return np.full(pairs, float(most))
        strong = room // (4 * most**2)
        weak = max(isqrt(room // (2 * self.width)), 1)
        return np.where(np.arange(pairs) < strong, float(most), float(weak))

    @property
    def _rms(self) -> float:
        """Of a row that uses all of `_tops`, in units."""
        return sqrt(float(np.mean(self._tops**2)) / 3.0)

    def _units(self, scales: Array) -> Array:
        """The exponent of each row's unit: one for which more than half of `_tops` is used, but no less than the format
        has."""
        wanted = np.ceil(scales - log2(self._rms)).astype(int)
        units: Array = np.maximum(wanted, self._format.smallest_exponent)
        return units


def odd_sixteenths(width: int, seed: int = 0) -> Array:
    """Factors[width] of both signs, odd numerators from 3/16 to 63/16: no 16-bit gain, with or without an offset of 1,
    rounds them."""
    draw = Draw(f"{seed}/inversion/{width}/factors", common_format("float32", "float32"))
    magnitude = (2 * draw.below(31, width) + 3) / 16.0
    return np.where(draw.below(2, width).astype(bool), -magnitude, magnitude)


def octaves(low: float, high: float, step: float) -> Array:
    """Scales from `low` to about `high`, `step` apart."""
    return low + step * np.arange(max(ceil((high - low) / step), 1))
