"""What two outputs say about a change of variables: numbers read from the data, for causes to propose.

Everything here is a guess with a good reason. What makes it a finding is that the emulator, run with it, gives the
candidate's bits; so nothing here needs to be certain, and rows that do not fit are outvoted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, format_of, round_to, word_of
from rmsaudit.causes import Words
from rmsaudit.evidence import Sample
from rmsaudit.formats import FORMATS
from rmsaudit.inversion.decimals import Written, simplest, written
from rmsaudit.inversion.eps_reading import Rows, implied_eps
from rmsaudit.inversion.interval import Interval, divide, exactly, widen
from rmsaudit.inversion.row_scale import Allowance, row_scales
from rmsaudit.inversion.sum_of_squares import sum_of_squares
from rmsaudit.semantics import NormSpec, gain, scope, variables
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.eps import PLACEMENTS
from rmsaudit.semantics.resolve import at_width

HALVES = ("bfloat16", "float16")
SLACKS = (2.0**-21, 2.0**-17, 2.0**-11, 2.0**-7)
"""How far a row's divisor may be off, relative: a statistic in float32, a coarser one, one in float16, in bfloat16."""
ALIKE = 2.0**-6
"""Two factors that are this close, relative, are taken for the same number."""
MOST_LIMITS = 3
"""How many different limits rows may speak for."""
FEWEST = 4
"""Elements of a row that have to agree on its factor."""
STATED = 1 / 3
"""The share of the rows that say something about eps which must agree on one."""


@dataclass(frozen=True)
class EpsFit:
    """An eps that many rows agree on, at one placement. lo, hi: what they leave of it. agreed: all rows do."""

    placement: str
    number: Written
    lo: float
    hi: float
    agreed: bool

    @property
    def values(self) -> tuple[float, ...]:
        """The number, and shorter decimals near it: rows are read under a spec that may not be the whole truth yet."""
        near = (simplest_near(self.number.value, off) for off in (2.0**-12, 2.0**-9, 2.0**-6))
        return tuple(dict.fromkeys((self.number.value, *near)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Clues:
    """A spec, what it gives, and what the candidate gave instead.

    words: as declared; spec: the same, resolved. emulated: an output for each sample. eps_is_off: rows that see eps are
    not met by it. rows_stand_alone: each row of the candidate is scaled by its own size.
    """

    words: Words
    spec: NormSpec
    samples: tuple[Sample, ...]
    emulated: tuple[Array, ...]
    eps_is_off: bool = True
    rows_stand_alone: bool = True

    # --- values to enumerate -----------------------------------------------------------------------------------------

    def other_values(self, name: str) -> Iterator[Any]:
        """The values of a variable that can be enumerated, except the one it has."""
        described, now = variables()[name], getattr(self.spec, name)
        match described.kind:
            case "flag":
                yield not now
            case "dtype":
                allowed = ("none",) if "none" in described.words else ()
                yield from (word for word in (*allowed, *self.dtypes) if word != now)
            case "word":
                yield from (word for word in described.words if word != now)

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes worth trying: float32, the 16-bit ones (those of input, gain or output first), float64."""
        held = (self.spec.input_dtype, self.spec.gain_dtype, self.spec.output_dtype, *map(self._output, self.samples))
        halves = sorted(HALVES, key=lambda word: word not in held)
        return ("float32", *halves, "float64")

    @staticmethod
    def _output(sample: Sample) -> str:
        return word_of(sample.candidate)

    @cached_property
    def divisors(self) -> tuple[int, ...]:
        """Numbers of equal parts of at least two elements, the current one left out."""
        width = self.spec.width
        return tuple(n for n in range(1, width // 2 + 1) if width % n == 0 and n != self.spec.groups)

    # --- eps ---------------------------------------------------------------------------------------------------------

    @cached_property
    def eps_fits(self) -> tuple[EpsFit, ...]:
        """The values of eps that the rows agree on, one for each placement and slack that gives another number.

        None where the rows that see eps are met already.
        """
        if not self.eps_is_off:
            return ()
        found: dict[tuple[str, float], EpsFit] = {}
        for placement in PLACEMENTS:
            for slack in SLACKS if placement != "none" else ():
                fit = self._eps_vote(placement, slack)
                if fit is not None:
                    found.setdefault((placement, fit.number.value), fit)
                    if fit.agreed:
                        break
        return tuple(found.values())

    def _eps_vote(self, placement: str, slack: float) -> EpsFit | None:
        rows = self._rows
        if rows is None:
            return None
        divisor = widen(divide(exactly(np.ones(len(rows.count))), rows.scale), slack)
        implied = implied_eps(placement, divisor, rows)
        telling = (implied.lo > 0) & (implied.hi < 4 * implied.lo)
        if telling.sum() < 2:
            return None
        lo, hi = implied.lo[telling], implied.hi[telling]
        point, votes = _best_supported(lo, hi)
        if votes < max(2, STATED * telling.sum()):
            return None
        agree = (implied.lo <= point) & (implied.hi >= point)
        low, high = float(implied.lo[agree].max()), float(implied.hi[agree].min())
        with np.errstate(over="ignore"):
            number = written(low, high, narrow=HALVES, squared=placement.startswith("floor"))
        agreed = bool(agree.all())
        return None if number is None else EpsFit(placement, number, low, high, agreed)

    @cached_property
    def _rows(self) -> Rows | None:
        """The factor of each row, as the candidate's outputs confine it, beside the row's sum of squares."""
        found = [rows for sample in self.samples if (rows := self._rows_of(sample)) is not None]
        if not found:
            return None
        return Rows(
            scale=Interval(*(np.concatenate([getattr(r.scale, end) for r in found]) for end in ("lo", "hi"))),
            squares=Interval(*(np.concatenate([getattr(r.squares, end) for r in found]) for end in ("lo", "hi"))),
            count=np.concatenate([r.count for r in found]),
            smallest=np.concatenate([r.smallest for r in found]),
        )

    def _rows_of(self, sample: Sample) -> Rows | None:
        spec = at_width(self.spec, sample.case.width)
        if spec is None or spec.axes != (-1,) or spec.gain_position == "before_statistic":
            return None
        with np.errstate(all="ignore"):
            x, factor = operand(spec, sample), self.factor(sample)
            size = x.shape[-1] // spec.groups
            parts = (len(x) * spec.groups, size)
            scales = row_scales(
                x.reshape(parts),
                sample.candidate.reshape(parts),
                factor=np.broadcast_to(factor, x.shape).reshape(parts),
                fmt=format_of(sample.candidate),
                allowance=Allowance(relative=_second_roundings(spec), flushes=True),
            ).scale
            entering = scope.statistic_size(size, spec)
            squares = sum_of_squares(x.reshape(parts)[:, :entering])
        usable = ~scales.is_empty() & (scales.lo > 0) & np.isfinite(scales.hi) & (squares.lo > 0)
        usable &= np.isfinite(squares.hi)
        if not usable.any():
            return None
        count = 1.0 if spec.statistic == "sum_square" else float(entering)
        index = np.flatnonzero(usable)
        return Rows(
            scale=scales.at(index),
            squares=squares.at(index),
            count=np.full(len(index), count),
            smallest=np.abs(x.reshape(parts)[index]).min(axis=-1),
        )

    def factor(self, sample: Sample) -> Array:
        """What x times the row's factor is multiplied by, float64 [width]."""
        spec = self.spec
        width = sample.case.width
        one = np.ones(width)
        if spec.gain_applied:
            with np.errstate(all="ignore"):
                one = gain.factor(sample.case.gain, spec, Arithmetic()).astype(np.float64)
        constant = gain.post_scale(spec, width // spec.groups)
        return one if constant is None else one * constant

    # --- factors -----------------------------------------------------------------------------------------------------

    @cached_property
    def ratios(self) -> tuple[Array, ...]:
        """candidate / emulated for each sample; NaN where there is none."""
        found = []
        for sample, emulated in zip(self.samples, self.emulated, strict=True):
            wanted, have = sample.candidate.astype(np.float64), emulated.astype(np.float64)
            with np.errstate(all="ignore"):
                ratio = wanted / have
            found.append(np.where(np.isfinite(ratio) & (ratio != 0), ratio, np.nan))
        return tuple(found)

    def common_factor(self) -> tuple[float, float] | None:
        """An interval for the one factor that most rows of the battery's own width differ by, or None.

        None as well where it may be 1.
        """
        medians = []
        for sample, ratio in zip(self.samples, self.ratios, strict=True):
            if sample.case.width == self.spec.width:
                medians += [float(np.nanmedian(row)) for row in ratio if np.isfinite(row).sum() > row.size / 4]
        if len(medians) < 4:
            return None
        middle = float(np.median(medians))
        near = [value for value in medians if abs(value / middle - 1.0) < ALIKE]
        if len(near) < len(medians) / 3:
            return None
        fmt = FORMATS[word_of(self.samples[0].candidate)]
        off = max(4 * fmt.machine_epsilon / sqrt(self.spec.width), 2.0**-20)
        low, high = float(np.median(near)) * (1 - off), float(np.median(near)) * (1 + off)
        return None if low <= 1.0 <= high else (low, high)

    def offsets(self) -> list[float]:
        """What would have to be added to the gains instead of the offset there is, where all columns agree."""
        found: list[float] = []
        for sample, ratio in zip(self.samples, self.ratios, strict=True):
            if sample.case.width != self.spec.width:
                continue
            stored = sample.case.gain.astype(np.float64)
            with np.errstate(all="ignore"):
                columns = _column_median(ratio) * self.factor(sample) - stored
            columns = columns[np.isfinite(columns)]
            if len(columns) < 4:
                continue
            middle = float(np.median(columns))
            if (np.abs(columns - middle) < ALIKE * max(abs(middle), 1.0)).mean() > 0.75:
                found.append(float(f"{middle:.2g}"))
        now = float(self.spec.gain_offset)
        return sorted({value for value in found if value != now and isfinite(value)}, key=found.count, reverse=True)[:2]

    # --- widths ------------------------------------------------------------------------------------------------------

    def leading_widths(self) -> list[int]:
        """How many leading elements have the mean square that the candidate's factors ask for."""
        spec = self.spec
        target, heads = [], []
        for sample in self.samples:
            if sample.case.width != spec.width or spec.groups != 1 or spec.axes != (-1,):
                continue
            with np.errstate(all="ignore"):
                x = operand(spec, sample)
                ratio = np.abs(sample.candidate.astype(np.float64) / (x * self.factor(sample)))
                factor = _column_median(np.where(ratio > 0, ratio, np.nan).T)
                target.append(1.0 / factor**2 - (spec.eps if spec.eps_placement == "inside_sqrt" else 0.0))
                heads.append(np.cumsum(x * x, axis=-1) / np.arange(1, spec.width + 1))
        if not heads:
            return []
        with np.errstate(all="ignore"):
            off = np.abs(np.log(np.concatenate(heads) / np.concatenate(target)[:, None]))
            off = np.minimum(np.nan_to_num(off, nan=1.0, posinf=1.0), 1.0)
        off = off[off.min(axis=-1) < ALIKE]  # the other rows say nothing of a leading width
        if len(off) < 4:
            return []
        total = off.sum(axis=0)
        best = [int(k) + 1 for k in np.argsort(total, kind="stable")[:2]]
        return [k for k in best if k != scope.statistic_size(spec.width, spec)]

    # --- limits ------------------------------------------------------------------------------------------------------

    def input_limits(self) -> list[float]:
        """Limits of |x| that would explain why the largest elements of a row give less than the others say."""
        found = []
        for sample in self.samples:
            if sample.case.width == self.spec.width and self.spec.axes == (-1,):
                found += self._limits_of(sample)
        largest = max((_largest(sample.case.x) for sample in self.samples), default=0.0)
        usual = [fmt.max for fmt in FORMATS.values() if fmt.max < largest]
        if not found:
            return usual
        values, off = np.array(found), self._second_rounding
        limits: list[float] = []
        for _ in range(MOST_LIMITS):
            point, _ = _best_supported(values * (1 - off), values * (1 + off))
            limits += [*(simplest_near(point, wide) for wide in (ALIKE, 2 * off, off)), point]
            values = values[np.abs(values / point - 1) > 2 * off]
            if not len(values):
                break
        return list(dict.fromkeys(limits + usual))

    @property
    def _second_rounding(self) -> float:
        """How far an output may be off after two roundings to its dtype, relative."""
        return 2 * FORMATS[word_of(self.samples[0].candidate)].machine_epsilon + 2.0**-20

    def _limits_of(self, sample: Sample) -> list[float]:
        """What each row says of a limit, where it says anything."""
        with np.errstate(all="ignore"):
            x = sample.case.x.astype(np.float64)
            added = sample.case.residual.astype(np.float64) if self.spec.residual == "add" else np.zeros_like(x)
            y = sample.candidate.astype(np.float64) / self.factor(sample)
        rows = zip(x, added, y, strict=True)
        limits = (_limit_of(*row, centred=self.spec.center, off=self._second_rounding) for row in rows)
        return [limit for limit in limits if limit is not None]

    def output_limits(self) -> list[float]:
        """The magnitude at which several outputs of the candidate stop, where the emulated ones go on."""
        best = 0.0
        count = 0
        for sample, emulated in zip(self.samples, self.emulated, strict=True):
            size = np.abs(sample.candidate.astype(np.float64))
            size = size[np.isfinite(size)]
            largest = float(size.max(initial=0.0))
            if largest <= best:
                continue
            with np.errstate(invalid="ignore"):
                beyond = int((np.abs(emulated.astype(np.float64)) > largest).sum())
            best, count = largest, beyond
        if not count:
            return []
        simple = simplest(best * (1 - 2.0**-9), best * (1 + 2.0**-9))
        return list(dict.fromkeys([best, *([simple.value] if simple else [])]))


def operand(spec: NormSpec, sample: Sample) -> Array:
    """What is normalised, in float64: x, with residual, without its mean, scaled, as the spec has it."""
    x = sample.case.x.astype(np.float64)
    if spec.residual == "add":
        x = x + sample.case.residual.astype(np.float64)
        if spec.numerator_source == "rounded":
            x = round_to(x, spec.residual_out_dtype).astype(np.float64)
    if spec.center:
        parts = x.reshape(len(x), spec.groups, -1)
        x = (parts - parts.mean(axis=-1, keepdims=True)).reshape(x.shape)
    if spec.prescale == "max_abs":
        x = x / np.abs(x).max(axis=-1, keepdims=True)
    return x


def _second_roundings(spec: NormSpec) -> float:
    """What may have happened before the last rounding, relative."""
    point = gain.rounding_point(spec, spec.compute_dtype) if spec.association == gain.NORMALIZE_FIRST else "float32"
    total = 2.0**-22
    for word in (spec.compute_dtype, point):
        if FORMATS[word].precision < 24:
            total += FORMATS[word].machine_epsilon
    return total


def _best_supported(lo: Array, hi: Array) -> tuple[float, int]:
    """A value in as many of the intervals as any value is, and how many these are."""
    ends = np.concatenate([lo, hi])
    change = np.concatenate([np.ones(len(lo)), -np.ones(len(hi))])
    order = np.lexsort((-change, ends))
    depth = np.cumsum(change[order])
    return float(ends[order][depth.argmax()]), int(depth.max())


def _column_median(ratio: Array) -> Array:
    """The median of each column over its finite rows; NaN where there are none."""
    if not len(ratio):
        return np.full(ratio.shape[-1], np.nan)
    finite = np.isfinite(ratio)
    ordered = np.sort(np.where(finite, ratio, inf), axis=0)
    middle = np.maximum(finite.sum(axis=0) - 1, 0) // 2
    found: Array = ordered[middle, np.arange(ratio.shape[-1])]
    return np.where(finite.any(axis=0), found, np.nan)


def simplest_near(value: float, off: float) -> float:
    """The shortest decimal within `off`, relative, of `value`; `value` where there is none."""
    number = simplest(value * (1 - off), value * (1 + off))
    return value if number is None else number.value


def _limit_of(x: Array, added: Array, y: Array, *, centred: bool, off: float) -> float | None:
    """The limit of |x| beyond which y = a·(x + added) + b stops growing, in one row; None where it does not stop.

    a, and b where the mean is subtracted, are those of the smaller elements, which have to agree on them. off: how far
    y may be off, relative.
    """
    size = np.abs(x)
    usable = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (y != 0))
    if len(usable) < 2 * FEWEST:
        return None
    small = usable[np.argsort(size[usable], kind="stable")[: max(len(usable) // 4, FEWEST)]]
    base = x + added
    with np.errstate(all="ignore"):
        factor, constant = _line(base[small], y[small]) if centred else (float(np.median(y[small] / base[small])), 0.0)
        apart = np.abs(base[small] * factor + constant - y[small])
        reached = np.abs((y - constant) / factor - added)
    if not isfinite(factor) or factor <= 0 or not apart.max() <= ALIKE * np.abs(y[small]).max():
        return None
    limit = float(reached[np.isfinite(reached)].max(initial=0.0))
    beyond_small = limit > size[small].max() * (1 + 2 * off)  # otherwise these may have stopped as well
    return limit if beyond_small and limit < _largest(x) * (1 - max(2 * off, 2.0**-9)) else None


def _line(x: Array, y: Array) -> tuple[float, float]:
    """The line of least squares through the points: its slope, and where it begins."""
    middle = x.mean(), y.mean()
    apart = x - middle[0]
    slope = float((apart * (y - middle[1])).sum() / (apart * apart).sum())
    return slope, float(middle[1] - slope * middle[0])


def _largest(x: Array) -> float:
    size = np.abs(x.astype(np.float64))
    return float(size[~np.isnan(size)].max(initial=0.0))


def spread(numbers: Sequence[float]) -> float:
    """Largest over smallest, less 1; inf without any."""
    return max(numbers) / min(numbers) - 1.0 if numbers and min(numbers) > 0 else inf
