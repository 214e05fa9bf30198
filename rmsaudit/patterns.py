"""What can be said of a difference that no change of variables re-creates: where, of what kind, at which scale."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array, word_of
from rmsaudit.evidence import Evidence, Sample, steps
from rmsaudit.formats import FORMATS

COHERENT = 4.0
"""A row is off by one common factor where its elements' factors lie within this many ulp of each other."""
MOSTLY = 0.9
SQUARE_RANGES = ("float16", "float32", "bfloat16")


@dataclass(frozen=True, eq=False)
class _Seen:
    """The differing elements of one sample's rows. off: candidate − reference in ulp; ratio: candidate ÷ reference."""

    sample: Sample
    off: Array
    ratio: Array


def describe(evidence: Evidence) -> tuple[str, ...]:
    """Sentences, each true of every row that was looked at; most telling first."""
    samples = (*evidence.guide, *evidence.rest) or evidence.whole
    seen = [_Seen(sample, steps(sample.reference, sample.candidate), _ratio(sample)) for sample in samples]
    if not any(each.off.any() for each in seen):
        return ()
    return (*_where(seen), *_scale(seen), *_kind(seen), *_columns(seen), *_nonfinite(seen))


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


def _scale(seen: list[_Seen]) -> Iterator[str]:
    """Whether only small or only large rows differ, and from where."""
    size, differs = [], []
    for each in seen:
        with np.errstate(all="ignore"):
            x = np.abs(each.sample.case.x.astype(np.float64))
        largest = x.max(axis=-1, initial=0.0)
        finite: Array = np.asarray(np.isfinite(largest) & (largest > 0))
        size.append(largest[finite])
        differs.append(np.asarray(each.off.any(axis=-1))[finite])
    sizes, flags = np.concatenate(size), np.concatenate(differs)
    if not flags.any() or flags.all():
        return
    if sizes[flags].max() < sizes[~flags].min():
        yield (
            f"Only small rows differ: all with max|x| up to {sizes[flags].max():.3g}, none from"
            f" {sizes[~flags].min():.3g} on; look at eps first."
        )
    elif sizes[flags].min() > sizes[~flags].max():
        low, high = float(sizes[~flags].max()), float(sizes[flags].min())
        yield f"Only large rows differ: none with max|x| up to {low:.5g}, all from {high:.5g} on{_range(low, high)}."


def _range(low: float, high: float) -> str:
    """The dtype whose square range ends between the two amplitudes."""
    for word in SQUARE_RANGES:
        edge = FORMATS[word].max ** 0.5
        if low <= edge * 1.01 and edge <= high * 1.01:
            return f"; squares of {word} end at {edge:.4g}"
    return ""


def _kind(seen: list[_Seen]) -> Iterator[str]:
    """One factor a row, or element by element; the sign."""
    rows = coherent = up = elements = 0
    low, high = np.inf, -np.inf
    for each in seen:
        unit = FORMATS[word_of(each.sample.candidate)].machine_epsilon
        for off, ratio in zip(each.off, each.ratio, strict=True):
            usable = np.isfinite(ratio) & (ratio != 0) & np.isfinite(off)
            if not off.any() or usable.sum() < 2:
                continue
            rows += 1
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
        rows = each.off[each.off.any(axis=-1)]
        if len(rows):
            by_width.setdefault(each.sample.case.width, []).append(rows != 0)
    for width, parts in by_width.items():
        columns = np.flatnonzero(np.concatenate(parts).any(axis=0))
        if width >= 8 and len(columns) <= width / 4:
            shown = ", ".join(map(str, columns[:6])) + (", …" if len(columns) > 6 else "")
            count = f"{len(columns)} of {width}"
            yield f"At width {width} only columns {shown} differ ({count}): gain, broadcasting or the tail."


def _nonfinite(seen: list[_Seen]) -> Iterator[str]:
    lost = sum(int(np.isinf(each.off).sum()) for each in seen)
    if lost:
        yield f"In {lost} elements one side is finite and the other is not."
