"""What can be said of a difference that no change of variables re-creates: where, of what kind, at which scale."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array, round_to, word_of
from rmsaudit.case import Case
from rmsaudit.evidence import Evidence, Sample, steps
from rmsaudit.formats import FORMATS

Ask = Callable[[Case], tuple[Array, Array] | None]
"""What reference and candidate return for one more input, [rows, width]; None where one of them does not answer."""

COHERENT = 4.0
"""A row is off by one common factor where its elements' factors lie within this many ulp of each other."""
MOSTLY = 0.9
SQUARE_RANGES = ("float16", "float32", "bfloat16")
LUCK = 4.0
"""How many standard deviations of a running sum's roundoffs, √n / 4 of its root's ulp, are put down to its order."""
CALLS = 24
"""How many calls an amplitude is bisected with, at most."""
FEW_ROWS = 4
"""Of fewer rows nothing is said by their numbers."""
TWICE = 2.0
"""How much larger rows are that are called large."""
ORDINARY = (0.1, 1e6)
"""Mean squares of rows that no eps of an ordinary size matters to, and that no sum of squares overflows in."""
ALIKE = 2.0**-12
"""How far the mean square of a head may be from the one that a row's factor asks for, relative."""
FEW = 3
"""Among so many rows, one may be an exception."""
NEAR_ENOUGH = 1 + 2.0**-8
"""The ratio of two amplitudes between which nothing more is asked."""
AT_THE_EDGE = 0.02
"""How near an amplitude must be to the end of a dtype's range, relative, to be put down to it."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """The rows of one sample. off: candidate − reference in ulp; ratio: candidate ÷ reference; far: more than the order
    of a sum is likely to move."""

    sample: Sample
    off: Array
    ratio: Array
    far: Array


def describe(evidence: Evidence, ask: Ask | None = None) -> tuple[str, ...]:
    """Sentences, each true of every row that was looked at; most telling first."""
    samples = evidence.cases or (*evidence.guide, *evidence.rest)
    seen = [_seen(sample) for sample in samples]
    if not any(each.off.any() for each in seen):
        return ()
    if not any(each.far.any() for each in seen):
        seen = [replace(each, far=each.off != 0) for each in seen]
    by_size = tuple(_scale(seen, ask))  # categories hold rows in the order of their size
    by_place = (*_columns(seen), *(() if by_size else _rows(seen)))
    return (*_where(seen), *by_size, *_kind(seen), *by_place, *_nonfinite(seen))


def _seen(sample: Sample) -> _Seen:
    off = steps(sample.reference, sample.candidate)
    return _Seen(sample, off, _ratio(sample), _far(off, sample))


def _far(off: Array, sample: Sample) -> Array:
    """Where two outputs are farther apart than an order of the sum is likely to move them."""
    narrow = FORMATS[word_of(sample.candidate)].bits < 32
    far: Array = np.abs(off) > (1.0 if narrow else 2.0 + LUCK * sqrt(sample.case.width) / 4)
    return far


def _ratio(sample: Sample) -> Array:
    with np.errstate(all="ignore"):
        found: Array = sample.candidate.astype(np.float64) / sample.reference.astype(np.float64)
    return found


def _where(seen: list[_Seen]) -> Iterator[str]:
    """Which categories differ, and by how many ulp at most."""
    most: dict[str, float] = {}
    for each in seen:
        for name, row in zip(each.sample.category, np.abs(each.off).max(axis=-1, initial=0.0), strict=True):
            most[name] = max(most.get(name, 0.0), float(row))
    differing = [name for name, ulp in most.items() if ulp]
    alike = [name for name, ulp in most.items() if not ulp]
    shown = ", ".join(f"{name} ({_ulp(most[name])})" for name in sorted(differing, key=lambda n: -most[n])[:4])
    more = f" and {len(differing) - 4} more" if len(differing) > 4 else ""
    yield f"Differs in {shown}{more}" + (f"; agrees in {', '.join(alike)}." if alike else ".")


def _ulp(steps_: float) -> str:
    return f"{steps_:.0f} ulp" if np.isfinite(steps_) else "non-finite on one side"


def _scale(seen: list[_Seen], ask: Ask | None) -> Iterator[str]:
    """Whether only small or only large rows differ, and from where."""
    rows = [(each, row) for each in seen for row in _telling(each)]
    sizes = np.array([_amplitude(each, row) for each, row in rows])
    flags = np.array([bool(each.far[row].any()) for each, row in rows])
    small, large = _split(sizes, ~flags), _split(sizes, flags)
    if small is not None:
        yield (
            f"{small.how} small rows differ: up to max|x| = {small.low:.3g}, not from {small.high:.3g} on; look at eps"
            " first."
        )
    elif large is not None and large.high > 1:
        yield f"{large.how} large rows differ: from max|x| = {large.high:.5g} on, not up to {large.low:.5g}."
        each, row = rows[min(np.flatnonzero(flags & (sizes >= large.high)), key=lambda index: sizes[index])]
        yield from _start(each.sample, row, large.low, ask)


def _telling(each: _Seen) -> list[int]:
    """Rows of finite numbers whose outputs on the reference's side are neither all 0 nor, one of them, not finite."""
    output, x = each.sample.reference.astype(np.float64), each.sample.case.x.astype(np.float64)
    return [int(row) for row in np.flatnonzero(np.isfinite(output).all(-1) & output.any(-1) & np.isfinite(x).all(-1))]


def _amplitude(each: _Seen, row: int) -> float:
    return float(np.abs(each.sample.case.x[row].astype(np.float64)).max())


class _Split(NamedTuple):
    """Two amplitudes, below and above which rows are, but for a few, of another kind. how: Only, or Nearly only."""

    low: float
    high: float
    how: str


def _split(sizes: Array, above: Array) -> _Split | None:
    """Where rows of the kind `above` begin; None where they are not, nearly all, the larger ones."""
    fewer = min(int(above.sum()), int((~above).sum()))
    if not fewer or np.median(sizes[above]) < TWICE * np.median(sizes[~above]):
        return None
    most = max((1 - MOSTLY) * fewer, 1 if fewer >= FEW else 0)
    order = np.argsort(sizes, kind="stable")
    sizes, above = sizes[order], above[order]
    exceptions = np.cumsum(above) + (~above).sum() - np.cumsum(~above)  # at a split after each row
    after = int(exceptions[:-1].argmin())
    if exceptions[after] > most or sizes[after] == sizes[after + 1]:
        return None
    return _Split(float(sizes[after]), float(sizes[after + 1]), "Nearly only" if exceptions[after] else "Only")


def _start(sample: Sample, row: int, low: float, ask: Ask | None) -> Iterator[str]:
    """From which amplitude on a row differs: bisected with new calls, or else between the rows at hand."""
    case = replace(sample.case, x=sample.case.x[[row]], residual=sample.case.residual[[row]])
    begins, calls = (low, float(np.abs(case.x.astype(np.float64)).max())), 0
    if ask is not None and not case.residual.any():
        begins, calls = _bisected(case, begins, ask)
    ends = "; ".join(_ends(case.x.astype(np.float64)[0], *begins))
    if calls:
        name = ", ".join(filter(None, (sample.category[row], f"row {sample.number[row]}")))
        yield (
            f"The smallest of them ({name}), scaled, differs from max|x| = {begins[1]:.5g} on and not at"
            f" {begins[0]:.5g} (bisected, {calls} calls){f': {ends}' if ends else ''}."
        )
    elif ends:
        yield f"Between the two, {ends}."


def _bisected(case: Case, begins: tuple[float, float], ask: Ask) -> tuple[tuple[float, float], int]:
    """The two amplitudes, moved together until the row of `case` scaled to one is alike and to the other is not; and by
    how many calls. None were of use where the row differs at the lower one too, or is not answered."""
    low, high = begins
    if _differs_at(case, low, ask) is not False:
        return begins, 0
    calls = 1
    while high > low * NEAR_ENOUGH and calls < CALLS:
        middle = sqrt(low) * sqrt(high)
        differs = _differs_at(case, middle, ask)
        if differs is None:
            break
        calls += 1
        low, high = (low, middle) if differs else (middle, high)
    return (low, high), calls


def _differs_at(case: Case, amplitude: float, ask: Ask) -> bool | None:
    x = case.x.astype(np.float64)
    scaled = round_to(x * (amplitude / np.abs(x).max()), word_of(case.x))
    outputs = ask(replace(case, x=scaled))
    if outputs is None:
        return None
    reference, candidate = outputs
    sample = Sample(case=case, reference=reference, candidate=candidate, category=(case.category,), number=(0,))
    return bool(_far(steps(reference, candidate), sample).any())


def _ends(row: Array, low: float, high: float) -> Iterator[str]:
    """What ends its range between the two amplitudes of a row: its largest square, or their sum, and in which dtype."""
    share = float((row * row).sum() / np.abs(row).max() ** 2)  # Σ x² in units of max|x|²
    for word in SQUARE_RANGES:
        edge = FORMATS[word].max ** 0.5
        for what, at in (
            ("squares", edge),
            ("sums of squares", edge / sqrt(share)),
            ("means", edge * sqrt(len(row) / share)),
        ):
            if low <= at * (1 + AT_THE_EDGE) and at * (1 - AT_THE_EDGE) <= high and (what == "squares" or share > 1.05):
                yield f"{what} in {word} end at {at:.4g}"
                break


def _kind(seen: list[_Seen]) -> Iterator[str]:
    """One factor a row, or element by element; the sign."""
    rows = coherent = up = elements = 0
    low, high = np.inf, -np.inf
    for each in seen:
        unit = FORMATS[word_of(each.sample.candidate)].machine_epsilon
        for off, ratio, far in zip(each.off, each.ratio, each.far, strict=True):
            usable = np.isfinite(ratio) & (ratio != 0) & np.isfinite(off)
            if not far.any() or usable.sum() < 2:
                continue
            rows += 1
            if (far & ~usable).any():
                continue
            middle = float(np.median(ratio[usable]))
            near = middle != 0 and bool((np.abs(ratio[usable] / middle - 1.0) <= COHERENT * unit).all())
            if near:
                coherent += 1
                low, high = min(low, middle), max(high, middle)
            larger = np.abs(ratio[usable & (off != 0)]) > 1
            up, elements = up + int(larger.sum()), elements + larger.size
    if rows and coherent >= MOSTLY * rows:
        yield f"Each row is off by one common factor, from {low:.6g} to {high:.6g}: a statistic, not single elements."
    elif rows and coherent <= (1 - MOSTLY) * rows:
        yield "Rows are not off by one common factor: columns or single elements are."
    if elements and not (1 - MOSTLY) < up / elements < MOSTLY:
        way = "larger" if up * 2 > elements else "smaller"
        yield f"The candidate is {way} in {max(up, elements - up) / elements:.3g} of what differs."


def _columns(seen: list[_Seen]) -> Iterator[str]:
    """Whether the same few columns differ in every row."""
    by_width: dict[int, list[Array]] = {}
    for each in seen:
        rows = each.far[each.far.any(axis=-1)]
        if len(rows):
            by_width.setdefault(each.sample.case.width, []).append(rows)
    for width, parts in by_width.items():
        columns = np.flatnonzero(np.concatenate(parts).any(axis=0))
        if width >= 8 and len(columns) <= width / 4:
            shown = ", ".join(map(str, columns[:6])) + (", …" if len(columns) > 6 else "")
            count = f"{len(columns)} of {width}"
            yield f"At width {width} only columns {shown} differ ({count}): gain, broadcasting or the tail."


def _rows(seen: list[_Seen]) -> Iterator[str]:
    """Whether rows differ by their number within the case: all but the first, or every other one."""
    flags: dict[int, list[bool]] = {}
    for each in seen:
        own: Array = np.asarray(each.far.any(axis=-1))
        if own.any():
            for number, flag in zip(each.sample.number, own, strict=True):
                flags.setdefault(number, []).append(bool(flag))
    differing = {number for number, own in flags.items() if any(own)}
    alike = set(flags) - differing
    if not alike or len(flags) < FEW_ROWS:
        return
    if max(alike) < min(differing):
        yield f"Only rows from {min(differing)} on differ: look at rows beside each other, and at strides."
    elif len({number % 2 for number in differing}) == 1 and len({number % 2 for number in alike}) == 1:
        which = "odd" if differing.pop() % 2 else "even"
        yield f"Only {which} rows differ: look at rows beside each other, and at strides."


class Head(NamedTuple):
    """A statistic of the first elements of a row, their sum divided by `over`."""

    first: int
    over: int


def heads(evidence: Evidence) -> dict[int, Head]:
    """By width: the leading elements whose mean square gives each row the factor that it is off by.

    Nothing unless that holds for every row of ordinary size that differs, at every width that has such rows.
    """
    found: dict[int, Head] = {}
    by_width: dict[int, list[_Seen]] = {}
    for sample in evidence.cases or (*evidence.guide, *evidence.rest):
        by_width.setdefault(sample.case.width, []).append(_seen(sample))
    for width, seen in by_width.items():
        squares, factors = _factors(seen)
        if not len(factors):
            continue
        head = _head(squares, factors)
        if head is None or len(factors) < FEW:
            return {}
        found[width] = head
    return found


def _factors(seen: list[_Seen]) -> tuple[Array, Array]:
    """x²[rows, width] of the rows that differ, and candidate ÷ reference of each, NaN where a row has no one factor."""
    squares, factors = [], []
    for each in seen:
        unit = FORMATS[word_of(each.sample.candidate)].machine_epsilon
        for row in _telling(each):
            own = each.sample.case.x[row].astype(np.float64) ** 2
            ratio = each.ratio[row][np.isfinite(each.ratio[row]) & (each.ratio[row] != 0)]
            if not each.far[row].any() or not ORDINARY[0] <= own.mean() <= ORDINARY[1] or len(ratio) < 2:
                continue
            middle = float(np.median(ratio))
            if own.mean() / middle**2 < ORDINARY[0]:
                continue
            squares.append(own)
            factors.append(middle if (np.abs(ratio / middle - 1) <= COHERENT * unit).all() else np.nan)
    return np.array(squares), np.array(factors)


def _head(squares: Array, factors: Array) -> Head | None:
    """The one head that gives every row its factor."""
    width = squares.shape[-1]
    sums, wanted = np.cumsum(squares, axis=-1), squares.mean(axis=-1) / factors**2
    fitting = []
    for over in (np.full(width, width), np.arange(1, width + 1)):
        with np.errstate(divide="ignore"):
            off = np.abs(np.log(sums / over / wanted[:, None])).max(axis=0)
        fitting += [Head(int(k) + 1, int(over[k])) for k in np.flatnonzero(off[:-1] < ALIKE)]
    return fitting[0] if len(fitting) == 1 else None


def _nonfinite(seen: list[_Seen]) -> Iterator[str]:
    lost = sum(int(np.isinf(each.off).sum()) for each in seen)
    if lost:
        yield f"In {lost} elements one side is finite and the other is not."
