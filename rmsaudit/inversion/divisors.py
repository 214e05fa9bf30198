"""What the root of a black box may be taken of, from its largest rows."""

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np

from rmsaudit.formats import FORMATS
from rmsaudit.inversion.box import NotThisFamily
from rmsaudit.inversion.eps_reading import Rows
from rmsaudit.inversion.structure import Structure

_ALIKE = 1 / 8  # relative: what eps may still do to the largest rows; the candidates are far more apart
_LARGEST = 4  # rows per group


@dataclass(frozen=True)
class Divisor:
    """over: what the sum of squares is divided by: the number of elements in the sum (counted), of all that are
    normalised together (all), or one. post_scale: what the result is multiplied by, √width or nothing."""

    over: Literal["counted", "all", "one"]
    post_scale: Literal["none", "sqrt_width"] = "none"

    @property
    def statistic(self) -> Literal["mean_square", "sum_square"]:
        return "sum_square" if self.over == "one" else "mean_square"

    def count(self, structure: Structure) -> int:
        return {"counted": sum(structure.counted), "all": len(structure.counted), "one": 1}[self.over]

    def factor(self, structure: Structure) -> float:
        return sqrt(len(structure.counted)) if self.post_scale == "sqrt_width" else 1.0


DIVISORS = (Divisor("counted"), Divisor("all"), Divisor("one"), Divisor("counted", "sqrt_width"))


def possible_divisors(structure: Structure, rows: Rows) -> tuple[Divisor, ...] | NotThisFamily:
    """The divisors that the largest rows have, nearly: there eps does next to nothing.

    Of the rows that no sum in float16 overflows, if there are any. Several are possible where few elements are left out
    of the sum and may still be counted.
    """
    if not len(rows.count):
        return NotThisFamily("no row of any scale gives outputs that are finite")
    small = np.flatnonzero(rows.squares.hi <= FORMATS["float16"].max)
    kept = rows.at(small) if len(small) else rows
    largest = kept.at(kept.squares.lo.argsort()[-_LARGEST * structure.groups :])
    middle = (largest.scale.lo + np.minimum(largest.scale.hi, 2 * largest.scale.lo)) / 2
    factor = float(np.median(middle * np.sqrt(largest.squares.lo)))
    wanted = {divisor: sqrt(divisor.count(structure)) * divisor.factor(structure) for divisor in DIVISORS}
    found = {value: divisor for divisor, value in reversed(wanted.items()) if abs(factor / value - 1.0) < _ALIKE}
    if found:
        return tuple(reversed(found.values()))
    count = sum(structure.counted)
    rms = float(np.sqrt(largest.squares.lo.max() / count))
    return NotThisFamily(
        f"rows of rms about {rms:.3g} are multiplied by {factor / sqrt(count):.4g}/rms: neither the factor of a mean"
        " square nor that of a sum"
    )
