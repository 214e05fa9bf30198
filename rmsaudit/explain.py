"""The third instrument: why two norms differ, proved by re-creating the candidate from the reference.

Causes propose changes of variables; the emulator runs the reference with them; what gives the candidate's outputs is an
explanation. The shortest one wins, equal ones are listed together, and where nothing fits nothing is claimed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from rmsaudit.causes import Words
from rmsaudit.evidence import Evidence, distance, steps
from rmsaudit.matching import NO_MATCH, Match, Word
from rmsaudit.search import OPERANDS, Effort, Search, Starts, State, changes
from rmsaudit.semantics import NormSpec

__all__ = [
    "OPERANDS",
    "Alone",
    "Effort",
    "Explanation",
    "Explanations",
    "Match",
    "Near",
    "Starts",
    "Word",
    "explain",
    "rank",
]

NEARLY = 0.9
"""The share of differing elements that an incomplete explanation must meet to be told."""
MOST_TIED = 12
"""How many complete explanations are made as short as they can be and listed."""
HALF = 0.5
"""A state that leaves more of the distance than this share is no incomplete explanation."""
NEAREST = 5
"""How many of the states that were seen are looked at for an incomplete explanation."""
USUAL = (
    "eps", "eps_placement", "gain_offset", "cast_point", "center", "groups", "compute_dtype", "gain_applied",
    "statistic", "statistic_width", "output_dtype", "axes", "inverse_dtype", "statistic_dtype", "gain_offset_dtype",
    "inverse", "association", "mean_scaling",
)  # fmt: skip
"""Variables in which implementations usually differ, most usual first."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanation:
    """Changes under which the reference becomes the candidate. words: all declared words with them. spec: resolved.

    start: the preset (or belief) that they were found from, "" for the reference. same: other explanations of as many
    changes that these inputs cannot tell from it.
    """

    changes: Mapping[str, Any]
    words: Words
    spec: NormSpec
    match: Match
    start: str = ""
    same: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, eq=False)
class Alone:
    """What one change does by itself. seen_in: categories in which it moves the reference, most first."""

    match: Match
    seen_in: tuple[str, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanations:
    """What is known in the end.

    unchanged: how the reference itself meets the candidate. found: the best explanation, or None. partial: where none
    is complete, the one that re-creates most. search: what was run on the way.
    """

    search: Search
    unchanged: Match
    found: Explanation | None = None
    partial: Explanation | None = None

    @property
    def base(self) -> Words:
        """The words that changes are against."""
        return self.search.reference

    @property
    def tried(self) -> int:
        """How many specs were run."""
        return len(self.search.seen)

    @property
    def nothing_to_explain(self) -> bool:
        """True where the reference is the candidate already, up to the order of the sum."""
        return self.unchanged.word is not None

    def alone(self, change: Words) -> Alone:
        """What is left of the difference when only `change` is applied to the reference."""
        root, state = self.search.root, self.search.state({**self.base, **change})
        if root is None or state is None:
            return Alone(NO_MATCH, ())
        return Alone(self.search.match(state), _moved(root, state, self.search.evidence))


def _moved(root: State, state: State, evidence: Evidence) -> tuple[str, ...]:
    """The categories of rows in which the two give different outputs, those most apart first."""
    samples = evidence.guides(state.spec.axes)
    if root.spec.axes != state.spec.axes:
        return tuple(dict.fromkeys(name for sample in samples for name in sample.category))
    far: dict[str, float] = {}
    for sample in samples:
        apart = distance(root.held.by.on(sample), state.held.by.on(sample))
        for name, row in zip(sample.category, map(float, apart), strict=True):
            far[name] = max(far.get(name, 0.0), row)
    return tuple(name for name in sorted(far, key=lambda n: -far[n]) if far[name])


def explain(
    reference: Words, evidence: Evidence, *, starts: Callable[[], Starts] = dict, effort: Effort | None = None
) -> Explanations:
    """Why the candidate's outputs in `evidence` are not those of `reference` (all variables, as declared).

    starts: asked for only where the search from the reference finds nothing short.
    """
    search = Search(reference, evidence, effort or Effort())
    if search.root is None:
        return Explanations(search=search, unchanged=NO_MATCH)
    unchanged = search.match(search.root)
    if unchanged.word is not None:
        return Explanations(search=search, unchanged=unchanged)
    search.run(starts)
    search.budget = inf
    found = _shortest(search)
    return Explanations(
        search=search, unchanged=unchanged, found=found, partial=None if found else _partial(search, search.root)
    )


@dataclass(frozen=True, eq=False)
class Near:
    """How near a known declaration is. equal: the share of equal outputs. word: as in Match; worst: in ulp."""

    name: str
    equal: float
    word: Word | None
    worst: int


def rank(reference: Words, evidence: Evidence, known: Starts) -> tuple[Near, ...]:
    """The declarations in `known`, with the reference's inputs, nearest first."""
    search = Search(reference, evidence, Effort())
    search.budget = inf
    near = [_near(search, name, state) for name, words in known.items() for state in search.begun({name: words})]
    return tuple(sorted(near, key=lambda each: (each.word is None, -each.equal)))


def _near(search: Search, name: str, state: State) -> Near:
    samples = search.evidence.guides(state.spec.axes)
    apart = [np.abs(steps(state.held.by.on(sample), sample.candidate)) for sample in samples]
    equal = sum(int((each == 0).sum()) for each in apart) / sum(each.size for each in apart)
    finite = max((float(each[np.isfinite(each)].max(initial=0.0)) for each in apart), default=0.0)
    word = search.word(state) if search.could_match(state) else None
    return Near(name, equal, word, int(finite))


# --- the shortest ----------------------------------------------------------------------------------------------------


def _shortest(search: Search) -> Explanation | None:
    """The accepted state with the fewest changes, each of which is needed; with those that tie with it."""
    minimal: dict[tuple[tuple[str, Any], ...], State] = {}
    for state in search.accepted[:MOST_TIED]:
        small = _minimal(search, state)
        told = changes(small.words, search.reference)
        minimal.setdefault(tuple(sorted(told.items(), key=str)), small)
    if not minimal:
        return None
    fewest = min(map(len, minimal))
    tied = [state for told, state in minimal.items() if len(told) == fewest]
    tied.sort(key=lambda state: _plausibility(search, state))
    return _explanation(search, tied[0], tied[1:])


def _explanation(search: Search, state: State, tied: Sequence[State] = ()) -> Explanation:
    return Explanation(
        changes=changes(state.words, search.reference),
        words=state.words,
        spec=state.spec,
        match=search.match(state),
        start=state.start,
        same=tuple(changes(other.words, search.reference) for other in tied),
    )


def _plausibility(search: Search, state: State) -> tuple[int, int, int, float]:
    """Bit-equal before equal up to order; usual mechanisms before rare ones; short numbers before long ones."""
    told = changes(state.words, search.reference)
    digits = sum(len(f"{value:g}") for value in told.values() if isinstance(value, float))
    rank_ = sum(USUAL.index(name) if name in USUAL else len(USUAL) for name in told)
    return (0 if search.word(state) == "bit-equal" else 1, rank_, digits, search.total(state))


def _minimal(search: Search, state: State) -> State:
    """The state with every change taken back that is not needed for the match."""
    wanted = search.word(state)
    again = True
    while again:
        again = False
        for name in list(changes(state.words, search.reference)):
            tried = search.state(_reverted(state.words, search.reference, name), state.start)
            if tried is None or not search.could_match(tried) or not search.meets(tried):
                continue
            if wanted != "bit-equal" or search.word(tried) == wanted:
                state, again = tried, True
    return state


def _reverted(words: Words, reference: Words, name: str) -> dict[str, Any]:
    kept = {other: value for other, value in words.items() if other != name}
    return {**kept, name: reference[name]} if name in reference else kept


def _partial(search: Search, root: State) -> Explanation | None:
    """The single state that re-creates most, where that is nearly everything."""
    most = HALF * search.total(root)
    states = [state for state in search.seen.values() if not state.start and search.total(state) < most]
    near = sorted(states, key=search.total)[:NEAREST]
    best = max(near, key=lambda s: (search.match(s).share, -len(changes(s.words, search.reference))), default=None)
    return None if best is None or search.match(best).share < NEARLY else _explanation(search, best)
