"""How the factor of a row follows from its scale: what the root is taken of, and what eps does to it.

First a coarse grid of scales, one octave apart; then many rows around the scale at which eps was found to act, where
it shows in every one of them. Rows of all widths are judged together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log2, sqrt
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.eps_reading import SINGLE, EpsReading, Rows, Rung, ladder_for, read_eps, together
from rmsaudit.inversion.interval import divide, exactly, multiply
from rmsaudit.inversion.probes import octaves, odd_sixteenths
from rmsaudit.inversion.structure import Box, NotThisFamily, Structure, several_factors
from rmsaudit.inversion.sum_of_squares import sum_of_squares

SMALLEST, LARGEST = -50.0, 6.0  # scales: squares stay normal in float32, and far from overflow in float16
_NEAR = 64  # rows around the scale at which eps acts
_BELOW, _ABOVE = 3.0, 0.5  # how far around it, in octaves of rms
_FREE = 8  # times the rms at which eps acts: there it moves a factor by less than 1/64; and so many rows at least
_ALIKE = 1 / 8  # relative: what eps may still do to the largest rows; the candidates are far more apart


@dataclass(frozen=True)
class Divisor:
    """What the root is taken of, and a factor of the result. over: the number that the sum of squares is divided by: that
    of the elements in the sum (counted), of all that are normalised together (all), or one. post_scale: √width or none.
    """

    over: Literal["counted", "all", "one"]
    post_scale: Literal["none", "sqrt_width"] = "none"

    @property
    def statistic(self) -> Literal["mean_square", "sum_square"]:
        return "sum_square" if self.over == "one" else "mean_square"

    def count(self, structure: Structure) -> int:
        return {"counted": sum(structure.counted), "all": len(structure.counted), "one": 1}[self.over]

    def factor(self, width: int) -> float:
        return sqrt(width) if self.post_scale == "sqrt_width" else 1.0


DIVISORS = (Divisor("counted"), Divisor("all"), Divisor("one"), Divisor("counted", "sqrt_width"))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Rows whose divisor is still to be named. largest: the largest magnitude of each."""

    rows: Rows
    largest: Array

    def prescaled(self) -> "Evidence":
        """As if each row had been divided by its largest magnitude first."""
        by = exactly(self.largest)
        rows = replace(
            self.rows,
            scale=multiply(self.rows.scale, by),
            squares=divide(self.rows.squares, multiply(by, by)),
            smallest=self.rows.smallest / self.largest,
        )
        return Evidence(rows, np.ones_like(self.largest))

    def named(self, divisor: Divisor, view: "View") -> Rows:
        factor = divisor.factor(view.box.width)
        scale = self.rows.scale if factor == 1.0 else divide(self.rows.scale, exactly(np.asarray(factor)))
        return replace(self.rows, scale=scale, count=np.full(len(self.largest), float(divisor.count(view.structure))))


@dataclass(frozen=True)
class View:
    """A box at one width, with its structure there."""

    box: Box
    structure: Structure

    @property
    def ladder(self) -> tuple[Rung, ...]:
        return ladder_for(self.box.input_dtype, self.structure.grid)

    @cached_property
    def flushes_inputs(self) -> bool:
        """Whether subnormal inputs come out as zeros."""
        fmt = FORMATS[self.box.input_dtype]
        x = self.box.probes.balanced(np.array([fmt.min_exponent - 2.0]), "subnormal")
        return not self.box.ask(x, self.structure.unit_gain).astype(np.float64).any()

    @cached_property
    def smallest(self) -> float:
        """The smallest scale that is asked about."""
        lowest = self.box.probes.lowest
        if lowest < SMALLEST:
            return SMALLEST
        return FORMATS[self.box.input_dtype].min_exponent + 8.0 if self.flushes_inputs else lowest

    def evidence(self, scales: Array, stream: str) -> Evidence | NotThisFamily:
        """The factors of rows at `scales`, or why some row has none. Raises CannotAsk.

        Where the product with the gain is rounded only once, every column has a gain of its own, which gives more
        places at which an output confines its row.
        """
        x = self.box.probes.balanced(scales, stream)
        factor = odd_sixteenths(self.box.width).astype(np.float32) if self.structure.product_is_wide else None
        y = self.box.ask(x, self.structure.unit_gain if factor is None else factor - self.structure.gain_offset)
        parts = np.abs(self.structure.parts(x.astype(np.float64)))
        squares = sum_of_squares(parts[:, np.array(self.structure.counted)])
        finite = self.structure.parts(np.isfinite(y.astype(np.float64))).all(axis=-1)
        used = np.flatnonzero((squares.lo > 0) & finite)
        found = self.structure.scales(x, y, factor)
        strange = np.intersect1d(found.contradicted, used)
        if len(strange):
            return NotThisFamily(several_factors(found.contradiction(int(strange[0])), x, y, self.structure))
        rows = Rows(
            scale=found.scale,
            squares=squares,
            count=np.ones(len(parts)),
            smallest=np.where(parts == 0, np.inf, parts).min(axis=-1),
        )
        return Evidence(rows.at(used), parts.max(axis=-1)[used])


@dataclass(frozen=True)
class ScaleLaw:
    """prescale: max_abs where the rows agree only after each is divided by its largest magnitude, so that eps is relative
    to it."""

    divisor: Divisor
    prescale: Literal["none", "max_abs"]
    eps: EpsReading

    @property
    def slack(self) -> float:
        return inf if self.eps.rung is None else self.eps.rung.slack


def read_scale_law(views: Sequence[View]) -> ScaleLaw | NotThisFamily:
    """What explains the rows of all scales and all views. Raises CannotAsk."""
    coarse = [view.evidence(octaves(view.smallest, LARGEST, 1.0), "coarse") for view in views]
    gathered = [seen for seen in coarse if isinstance(seen, Evidence)]
    if len(gathered) < len(coarse):
        return next(seen for seen in coarse if isinstance(seen, NotThisFamily))
    draft = _explained(views, gathered)
    if isinstance(draft, NotThisFamily):
        return draft
    near = [view.evidence(_near(draft.eps, view), "near") for view in views]
    more = [seen for seen in near if isinstance(seen, Evidence)]
    if len(more) < len(near):
        return next(seen for seen in near if isinstance(seen, NotThisFamily))
    return _judged((*views, *views), (*gathered, *more), draft.divisor, draft.prescale)


def _explained(views: Sequence[View], seen: Sequence[Evidence]) -> ScaleLaw | NotThisFamily:
    """The law with each row as it is, or else divided by its largest magnitude, whichever needs less slack."""
    plain = _with_prescale(views, seen, "none")
    if isinstance(plain, ScaleLaw) and plain.slack <= SINGLE[0].slack:
        return plain
    scaled = _with_prescale(views, [part.prescaled() for part in seen], "max_abs")
    if isinstance(scaled, ScaleLaw) and (isinstance(plain, NotThisFamily) or scaled.slack < plain.slack):
        return scaled
    return plain


def _with_prescale(
    views: Sequence[View], seen: Sequence[Evidence], prescale: Literal["none", "max_abs"]
) -> ScaleLaw | NotThisFamily:
    divisor = _divisor(views[0], seen[0])
    if isinstance(divisor, NotThisFamily):
        return divisor
    return _law(views, seen, divisor, prescale)


def _judged(
    views: Sequence[View], seen: Sequence[Evidence], divisor: Divisor, prescale: Literal["none", "max_abs"]
) -> ScaleLaw | NotThisFamily:
    used = [part.prescaled() for part in seen] if prescale == "max_abs" else seen
    return _law(views, used, divisor, prescale)


def _law(
    views: Sequence[View], seen: Sequence[Evidence], divisor: Divisor, prescale: Literal["none", "max_abs"]
) -> ScaleLaw | NotThisFamily:
    rows = together([part.named(divisor, view) for part, view in zip(seen, views, strict=True)])
    eps = read_eps(rows, views[0].ladder)
    if not eps.standing:
        return NotThisFamily(_no_placement(eps, rows))
    power = _other_power(eps, rows)
    if power is not None:
        return NotThisFamily(f"the factor of a row follows rms^{-power:.5g}, and not 1/rms")
    return ScaleLaw(divisor, prescale, eps)


def _divisor(view: View, seen: Evidence) -> Divisor | NotThisFamily:
    """The divisor whose factor the largest rows have, nearly: there eps does next to nothing.

    Of the rows that no sum in float16 overflows, if there are any.
    """
    small = np.flatnonzero(seen.rows.squares.hi <= FORMATS["float16"].max)
    rows = seen.rows.at(small) if len(small) else seen.rows
    largest = rows.at(rows.squares.lo.argsort()[-4 * view.structure.groups :])
    middle = (largest.scale.lo + np.minimum(largest.scale.hi, 2 * largest.scale.lo)) / 2
    factor = float(np.median(middle * np.sqrt(largest.squares.lo)))
    for divisor in DIVISORS:
        wanted = sqrt(divisor.count(view.structure)) * divisor.factor(view.box.width)
        if abs(factor / wanted - 1.0) < _ALIKE:
            return divisor
    count = Divisor("counted").count(view.structure)
    rms = float(np.sqrt(largest.squares.lo.max() / count))
    return NotThisFamily(
        f"rows of rms about {rms:.3g} are multiplied by {factor / sqrt(count):.4g}/rms, which is neither the factor of a"
        " mean square nor that of a sum"
    )


def _other_power(eps: EpsReading, rows: Rows) -> float | None:
    """The power of rms by which rows are divided that no eps reaches, where it is not 1.

    A statistic of few bits scatters the factors; another power makes them drift. It is a drift where a straight line
    through them, over the scale, explains all but a fifth of the scatter.
    """
    assert eps.rung is not None
    if eps.rung.slack <= SINGLE[0].slack:
        return None
    rms = np.sqrt(rows.mean_squares().lo)
    knee = max(placed.knee(float(rows.count.min())) for placed in eps.standing)
    beyond = np.flatnonzero(rms >= _FREE * knee)
    octave = np.log2(rms[beyond])
    off = np.log2((rows.scale.lo[beyond] + rows.scale.hi[beyond]) / 2) + octave
    if len(beyond) < _FREE or np.ptp(off) == 0:
        return None
    slope = float(np.polyfit(octave, off, 1)[0])
    return 1.0 - slope if np.corrcoef(octave, off)[0, 1] ** 2 > 0.8 else None


def _near(eps: EpsReading, view: View) -> Array:
    """Scales around the one at which eps acts, for each placement that stands; the smallest ones where none must act."""
    if not eps.acts:
        return octaves(view.smallest, view.smallest + 4.0, 1 / 8)
    count = len(view.structure.counted)
    knees = sorted({round(log2(placed.knee(count)), 1) for placed in eps.standing})
    step = (_BELOW + _ABOVE) * len(knees) / _NEAR
    scales = np.concatenate([octaves(knee - _BELOW, knee + _ABOVE, step) for knee in knees])
    return np.clip(scales, view.smallest, None)


def _no_placement(eps: EpsReading, rows: Rows) -> str:
    """In words: two rows that the simplest placement cannot explain together."""
    inside = next(excluded for excluded in eps.excluded if excluded.placement == "inside_sqrt")
    rms = np.sqrt(rows.mean_squares().lo)
    return (
        "no eps at any placement explains all rows, unless their squares are added up in 16 bits: inside the root, the"
        f" row of rms {rms[inside.asks]:.3g} needs eps >= {inside.at_least:.3g} and the row of rms"
        f" {rms[inside.allows]:.3g} needs eps <= {inside.at_most:.3g}"
    )
