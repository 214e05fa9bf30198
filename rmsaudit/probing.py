"""The probe: a few rows, and of wide ones a few columns, that hypotheses are run on at the least cost.

What does not depend on the gain is worked out once for all hypotheses that share it, over the whole row; the last
products are formed in the columns that are looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import sqrt

import numpy as np

from rmsaudit import gains
from rmsaudit.arrays import Array
from rmsaudit.evidence import Sample, distance, steps
from rmsaudit.matching import Emulated
from rmsaudit.semantics import NormSpec, Reduced, factor_of, finish, reduce
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.eps import Eps
from rmsaudit.semantics.inverse import Inverse
from rmsaudit.semantics.operands import Operands
from rmsaudit.semantics.scope import Scope
from rmsaudit.semantics.statistic import Statistic

ELEMENTS = 3 << 13
"""Elements that every hypothesis is run on, about: six rows of 4096, all guiding rows where they are narrow."""
FIRST = ("near-eps", "ordinary", "tiny", "exact-sum", "large", "edge", "offset", "blocks", "zero")
"""Categories of which a row is in the probe before one of the others is."""
FEWEST = 6
COLUMNS = 400
"""Of wider rows, about so many columns are looked at: evenly spread ones, the largest of each row and the last ones."""
LAST = 4
CALL = 6000
"""Elements that could be worked on in the time that a call takes."""

_REDUCING = tuple(f.name for stage in (Scope, Operands, Statistic, Eps, Inverse) for f in fields(stage))
_WITH_GAIN = ("gain_applied", "gain_dtype", "gain_cast", "gain_offset", "gain_offset_dtype")


@dataclass(eq=False)
class _Part:
    """Rows of one sample. columns: those that are looked at; None for all of them."""

    sample: Sample
    columns: Array | None
    begun: dict[tuple[object, ...], Reduced] = field(default_factory=dict)

    @cached_property
    def wanted(self) -> Array:
        return self.sample.candidate if self.columns is None else self.sample.candidate[:, self.columns]

    def output(self, by: Emulated) -> Array:
        """What `by` gives in the columns that are looked at."""
        spec, case = by.spec, self.sample.case
        if spec.axes != (-1,) or spec.width != case.width:
            found = by.on(self.sample)
            return found if self.columns is None else found[:, self.columns]
        gain, bias = case.gain, case.bias
        if by.form is not None:
            gain = gains.transformed(gain, by.form)
        arithmetic = Arithmetic(spec.subnormals, spec.rounding)
        with np.errstate(all="ignore"):
            reduced = self._reduced(by, gain, arithmetic)
            if self.columns is not None:
                gain, bias = gain[self.columns], bias[self.columns]
            shape = reduced.numerator.shape[0], reduced.numerator.shape[-1]
            last = _of_columns(spec, shape[1])
            return finish(last, reduced, factor_of(last, gain, shape[0], arithmetic), bias, shape, arithmetic)

    def _reduced(self, by: Emulated, gain: Array, arithmetic: Arithmetic) -> Reduced:
        spec, case = by.spec, self.sample.case
        before = spec.gain_position == "before_statistic"
        names = (*_REDUCING, "subnormals", "rounding", *(_WITH_GAIN if before else ()))
        key = (*(getattr(spec, name) for name in names), by.form if before else None)
        if key not in self.begun:
            factor = factor_of(spec, gain, len(case.x), arithmetic) if before else None
            self.begun[key] = self._looked_at(reduce(spec, case.x, case.residual, factor, arithmetic))
        return self.begun[key]

    def _looked_at(self, reduced: Reduced) -> Reduced:
        """Every column with its own factor, so that groups need not be known any more."""
        shape = len(reduced.numerator), 1, self.sample.case.width
        scale = np.broadcast_to(reduced.scale, reduced.numerator.shape).reshape(shape)
        numerator = reduced.numerator.reshape(shape)
        if self.columns is not None:
            numerator, scale = numerator[..., self.columns], scale[..., self.columns]
        return Reduced(numerator, scale, reduced.divides)


def _of_columns(spec: NormSpec, columns: int) -> NormSpec:
    """What forms the last products where each column has its own factor."""
    size = spec.width // spec.groups
    constant = sqrt(size) if spec.post_scale == "sqrt_width" else spec.post_scale
    return replace(spec, width=columns, groups=1, statistic_width="all", post_scale=constant)


@dataclass(eq=False)
class Probe:
    """The rows that every hypothesis is run on. added: how many times rows have joined it."""

    parts: list[_Part]
    added: int = 0

    @property
    def joined(self) -> tuple[Sample, ...]:
        """What has joined it."""
        return tuple(part.sample for part in self.parts[len(self.parts) - self.added :])

    def join(self, sample: Sample) -> None:
        """More rows, in all their columns, for all hypotheses from now on."""
        self.parts.append(_Part(sample, None))
        self.added += 1
        vars(self).pop("names", None)
        vars(self).pop("weights", None)

    def distances(self, by: Emulated, known: int) -> Iterator[tuple[int, Array]]:
        """How far each row is from the candidate's, part by part after the first `known`; with the elements that it
        took, those of a call included."""
        for part in self.parts[known:]:
            before = len(part.begun)
            far = distance(part.output(by), part.wanted)
            shared = 0 < len(part.begun) == before
            yield CALL + part.wanted.size + (0 if shared else part.sample.case.x.size), far

    @cached_property
    def names(self) -> Array:
        """The category of each row."""
        return np.array([name for part in self.parts for name in part.sample.category])

    @cached_property
    def weights(self) -> Array:
        """So that every category counts as much as another, however many of its rows are looked at."""
        _, index, count = np.unique(self.names, return_inverse=True, return_counts=True)
        weights: Array = 1.0 / count[index] / len(count)
        return weights


def probe(guides: tuple[Sample, ...], *, rows_alone: bool) -> Probe:
    """The first probe of what guides a search. rows_alone: False where whole cases have to be run."""
    if not guides or not rows_alone:
        return Probe([_Part(sample, None) for sample in guides])
    few = _few(max(guides, key=lambda sample: sample.rows))
    return Probe([_Part(few, _columns(few))])


def _few(sample: Sample) -> Sample:
    """About ELEMENTS of it: a row of each category of FIRST, then one of the others, then second rows."""
    wanted = max(ELEMENTS // sample.case.width, FEWEST)
    if sample.rows <= wanted:
        return sample
    differing = (steps(sample.reference, sample.candidate) != 0).any(axis=-1)
    order = sorted(range(sample.rows), key=lambda row: not differing[row])
    turn: dict[int, int] = {}
    count: dict[str, int] = {}
    for row in order:
        name = sample.category[row]
        count[name] = turn[row] = count.get(name, 0) + 1
    place = {name: index for index, name in enumerate(FIRST)}
    order.sort(key=lambda row: (turn[row], place.get(sample.category[row], len(place))))
    return sample.taken(np.array(sorted(order[:wanted])))


def _columns(sample: Sample) -> Array | None:
    width = sample.case.width
    if width <= COLUMNS:
        return None
    spread = np.arange(0, width, width // COLUMNS | 1)  # an odd step: gains repeat by powers of two
    largest = np.abs(sample.case.x.astype(np.float64)).argmax(axis=-1)
    differing = (steps(sample.reference, sample.candidate) != 0).argmax(axis=-1)
    found: Array = np.unique(np.concatenate([spread, largest, differing, np.arange(width - LAST, width)]))
    return found
