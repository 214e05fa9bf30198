"""What the candidate's gains are of the reference's: the first thing that is compared, before anything is run."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rmsaudit import gains
from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.model.sites import SitePair, equal

Kind = Literal["same", "restated", "of another site", "other"]


@dataclass(frozen=True)
class Relation:
    """kind: same: the applied gains are equal; restated: a variable accounts for them; of another site: they are those
    that the reference has at `site`; other: whatever `says` says. by: how far rounded gains are off at most."""

    kind: Kind
    says: str
    site: str | None = None
    by: float | None = None


Index = Mapping[str, tuple[str, ...]]


def index(pairs: Iterable[SitePair]) -> Index:
    """The sites of the reference by the digest of what they apply."""
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key = digest(pair.reference.applied)
        found[key] = (*found.get(key, ()), pair.name)
    return found


def digest(gain: Array) -> str:
    """sha256 of the values, whatever dtype holds them."""
    return hashlib.sha256(np.ascontiguousarray(gain.astype(np.float64)).data).hexdigest()


def relate(pair: SitePair, reference_sites: Index) -> Relation:
    """What the pair's gains are to each other. Stored dtypes and conventions are told where they differ."""
    reference, candidate = pair.reference, pair.candidate
    if candidate.gain is None or reference.gain is None:
        return Relation("same", "none" if candidate.gain is None and reference.gain is None else "on one side only")
    if equal(reference.applied, candidate.applied):
        return Relation("same", _told_as_equal(pair))
    if pair.restated.has_one_gain:
        return _restated(pair)
    elsewhere = reference_sites.get(digest(candidate.applied), ())
    if elsewhere:
        return Relation("of another site", f"those of {elsewhere[0]}", elsewhere[0])
    return Relation(
        "other", gains.compare(reference.applied, candidate.applied) or _distance(reference.applied, candidate.applied)
    )


def _told_as_equal(pair: SitePair) -> str:
    reference, candidate = pair.reference, pair.candidate
    offsets = reference.spec.gain_offset, candidate.spec.gain_offset
    if offsets[0] != offsets[1]:
        return f"equal: {offsets[0] - offsets[1]:+g} is folded in"
    if reference.stored != candidate.stored:
        return "equal, widened" if _wider(pair) else "equal"
    return "identical"


def _wider(pair: SitePair) -> bool:
    from rmsaudit.formats import FORMATS

    stored = pair.reference.stored, pair.candidate.stored
    return all(word in FORMATS for word in stored) and FORMATS[stored[0] or ""].bits < FORMATS[stored[1] or ""].bits


def _restated(pair: SitePair) -> Relation:
    """The variable that accounts for the candidate's gains, in words."""
    reference, candidate = pair.reference.spec, pair.restated.candidate.spec
    if candidate.gain_cast != reference.gain_cast:
        first, second = (side.applied.astype(np.float64) for side in (pair.reference, pair.candidate))
        return Relation("restated", f"rounded to {candidate.gain_cast}", by=float(np.max(np.abs(first - second))))
    more = candidate.gain_offset - reference.gain_offset
    wrong = "too large: added twice" if more > 0 else "too small: the offset is missing"
    return Relation("restated", f"{abs(more):g} {wrong}")


def by_how_much(relations: Iterable[Relation]) -> str:
    """How far gains are off that were rounded, as the end of a sentence; empty where none were."""
    amounts = [relation.by for relation in relations if relation.by is not None]
    return f", by up to {max(amounts):.3g}" if amounts else ""


def _distance(one: Array, other: Array) -> str:
    """How far apart two gains are that have nothing simple in common."""
    if one.shape != other.shape:
        return f"of another width: {other.size} for {one.size}"
    first, second = one.astype(np.float64), other.astype(np.float64)
    differing = int(np.count_nonzero(first != second))
    largest = float(np.max(np.abs(first - second)))
    return f"other values: {differing} of {one.size} differ, by up to {largest:.3g}"


def digest_of_all(gains_: Iterable[Array | None]) -> str:
    """One digest over the gains of many sites, in order, with their dtypes."""
    seen = hashlib.sha256()
    for gain in gains_:
        if gain is not None:
            patterns = bits(gain)
            seen.update(f"{word_of(gain)} {list(gain.shape)}\n".encode())
            seen.update(np.ascontiguousarray(patterns, dtype=patterns.dtype.newbyteorder("<")).data)
    return seen.hexdigest()
