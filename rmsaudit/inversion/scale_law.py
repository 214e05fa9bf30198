"""How the factor of a row follows from its scale: what the root is taken of, and what eps does to it.

First a coarse grid of scales, one octave apart; then many rows around the scale at which eps was found to act, where
it shows in every one of them. Rows of all widths are judged together.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log2
from typing import Literal

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.box import Box, NotThisFamily
from rmsaudit.inversion.divisors import Divisor, possible_divisors
from rmsaudit.inversion.eps_reading import SINGLE, EpsReading, Rows, Rung, ladder_for, read_eps, together
from rmsaudit.inversion.interval import divide, exactly, multiply
from rmsaudit.inversion.probes import octaves, odd_sixteenths
from rmsaudit.inversion.questions import several_factors
from rmsaudit.inversion.structure import Structure
from rmsaudit.inversion.sum_of_squares import sum_of_squares

Prescale = Literal["none", "max_abs"]

SMALLEST, LARGEST = -50.0, 6.0  # scales: squares stay normal in float32, and far from overflow in float16
_NEAR = 64  # rows around the scale at which eps acts
_BELOW, _ABOVE = 3.0, 0.5  # how far around it, in octaves of rms
_FREE = 8  # times the rms at which eps acts: there it moves a factor by less than 1/64; and so many rows at least


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

    def named(self, divisor: Divisor, structure: Structure) -> Rows:
        """The same rows under a divisor."""
        factor = divisor.factor(structure)
        scale = self.rows.scale if factor == 1.0 else divide(self.rows.scale, exactly(np.asarray(factor)))
        return replace(self.rows, scale=scale, count=np.full(len(self.largest), float(divisor.count(structure))))


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
        """Whether subnormal inputs come out as zeros; asked where the smallest scales have any. Raises CannotAsk."""
        if FORMATS[self.box.input_dtype].min_exponent < SMALLEST:
            return False
        y = self.box.ask(self.box.probes.subnormal(), self.structure.unit_gain).astype(np.float64)
        return not np.nan_to_num(y).any()  # NaN is what 0/0 gives

    @property
    def smallest(self) -> float:
        """The smallest scale that is asked about."""
        if self.flushes_inputs:
            return self.box.probes.smallest_normal
        return max(self.box.probes.lowest, SMALLEST)

    def evidence(self, scales: Array, stream: str) -> Evidence | NotThisFamily:
        """The factors of rows at `scales`, or why some row has none. Raises CannotAsk.

        Where the product with the gain is rounded only once, every column has a gain of its own, which gives more
        places at which an output confines its row.
        """
        structure = self.structure
        x = self.box.probes.balanced(scales, stream)
        factor = odd_sixteenths(self.box.width).astype(np.float32) if structure.product_is_wide else None
        y = self.box.ask(x, structure.unit_gain if factor is None else factor - structure.gain_offset)
        parts = np.abs(structure.parts(x.astype(np.float64)))
        squares = sum_of_squares(structure.squared(x))
        finite = structure.parts(np.isfinite(y.astype(np.float64))).all(axis=-1)
        used = np.flatnonzero((squares.lo > 0) & finite)
        found = structure.scales(x, y, factor)
        strange = np.intersect1d(found.contradicted, used)
        if len(strange):
            return NotThisFamily(several_factors(found.contradiction(int(strange[0])), x, y, structure))
        rows = Rows(
            scale=found.scale,
            squares=squares,
            count=np.ones(len(parts)),
            smallest=np.where(parts == 0, np.inf, parts).min(axis=-1),
        )
        return Evidence(rows.at(used), parts.max(axis=-1)[used])


@dataclass(frozen=True)
class ScaleLaw:
    """What explains the rows of all scales. prescale: max_abs where they only agree after each is divided by its
    largest magnitude, so that eps is relative to it."""

    divisor: Divisor
    prescale: Prescale
    eps: EpsReading

    @property
    def slack(self) -> float:
        return inf if self.eps.rung is None else self.eps.rung.slack


def read_scale_law(views: Sequence[View]) -> ScaleLaw | NotThisFamily:
    """What explains the rows of all scales and all views. Raises CannotAsk."""
    coarse = _gather([view.evidence(octaves(view.smallest, LARGEST, 1.0), "coarse") for view in views])
    if isinstance(coarse, NotThisFamily):
        return coarse
    draft = _explained(views, coarse)
    if isinstance(draft, NotThisFamily):
        return draft
    near = _gather([view.evidence(_near(draft, view), "near") for view in views])
    if isinstance(near, NotThisFamily):
        return near
    return _law((*views, *views), (*coarse, *near), draft.divisor, draft.prescale)


def _gather(seen: Sequence[Evidence | NotThisFamily]) -> list[Evidence] | NotThisFamily:
    gathered = []
    for part in seen:
        if isinstance(part, NotThisFamily):
            return part
        gathered.append(part)
    return gathered


def _explained(views: Sequence[View], seen: Sequence[Evidence]) -> ScaleLaw | NotThisFamily:
    """The law that needs the least slack: with each row as it is, or else divided by its largest magnitude."""
    plain = _best(views, seen, "none")
    if isinstance(plain, ScaleLaw) and plain.slack <= SINGLE[0].slack:
        return plain
    scaled = _best(views, seen, "max_abs")
    if isinstance(scaled, ScaleLaw) and (isinstance(plain, NotThisFamily) or scaled.slack < plain.slack):
        return scaled
    return plain


def _best(views: Sequence[View], seen: Sequence[Evidence], prescale: Prescale) -> ScaleLaw | NotThisFamily:
    """Of the laws with a divisor that is possible, the one that needs the least slack; of equal ones the first."""
    first = seen[0].prescaled() if prescale == "max_abs" else seen[0]
    divisors = possible_divisors(views[0].structure, first.rows)
    if isinstance(divisors, NotThisFamily):
        return divisors
    laws = [_law(views, seen, divisor, prescale) for divisor in divisors]
    found = [law for law in laws if isinstance(law, ScaleLaw)]
    return min(found, key=lambda law: law.slack) if found else laws[0]


def _law(
    views: Sequence[View], seen: Sequence[Evidence], divisor: Divisor, prescale: Prescale
) -> ScaleLaw | NotThisFamily:
    used = [part.prescaled() for part in seen] if prescale == "max_abs" else seen
    rows = together([part.named(divisor, view.structure) for part, view in zip(used, views, strict=True)])
    eps = read_eps(rows, views[0].ladder)
    if not eps.standing:
        return NotThisFamily(_no_placement(eps, rows))
    power = _other_power(eps, rows)
    if power is not None:
        return NotThisFamily(f"the factor of a row follows rms^{-power:.5g}, and not 1/rms")
    return ScaleLaw(divisor, prescale, eps)


def _other_power(eps: EpsReading, rows: Rows) -> float | None:
    """The power of rms by which rows are divided that no eps reaches, where it is not 1.

    A statistic of few bits scatters the factors; another power makes them drift. It is a drift where a straight line
    through them, over the scale, explains all but a fifth of the scatter.
    """
    if eps.rung is None or eps.rung.slack <= SINGLE[0].slack:
        return None
    rms = np.sqrt(rows.mean_squares().lo)
    knee = max(placed.knee(float(rows.count.min())) for placed in eps.standing)
    beyond = np.flatnonzero(rms >= _FREE * knee)
    octave = np.log2(rms[beyond])
    off = np.log2((rows.scale.lo[beyond] + rows.scale.hi[beyond]) / 2) + octave
    if len(beyond) < _FREE or np.ptp(off) == 0 or np.ptp(octave) == 0:
        return None
    slope = float(np.polyfit(octave, off, 1)[0])
    return 1.0 - slope if np.corrcoef(octave, off)[0, 1] ** 2 > 0.8 else None


def _near(law: ScaleLaw, view: View) -> Array:
    """Scales around the one at which eps acts, for each placement that stands; the smallest where none must act.

    Where rows are divided by their largest magnitude, no scale is nearer than another.
    """
    if not law.eps.acts or law.prescale != "none":
        return octaves(view.smallest, view.smallest + 4.0, 1 / 8)
    count = law.divisor.count(view.structure)
    knees = sorted({round(log2(placed.knee(count)), 1) for placed in law.eps.standing})
    step = (_BELOW + _ABOVE) * len(knees) / _NEAR
    scales = np.concatenate([octaves(knee - _BELOW, knee + _ABOVE, step) for knee in knees])
    clipped: Array = np.clip(scales, view.smallest, None)
    return clipped


def _no_placement(eps: EpsReading, rows: Rows) -> str:
    """In words: two rows that the simplest placement cannot explain together."""
    inside = next(excluded for excluded in eps.excluded if excluded.placement == "inside_sqrt")
    rms = np.sqrt(rows.mean_squares().lo)
    return (
        "no eps at any placement explains all rows, unless their squares are added up in 16 bits: inside the root, the"
        f" row of rms {rms[inside.asks]:.3g} needs eps >= {inside.at_least:.3g} and the row of rms"
        f" {rms[inside.allows]:.3g} needs eps <= {inside.at_most:.3g}"
    )
