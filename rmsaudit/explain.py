"""The third instrument: why two norms differ, proved by re-creating the candidate from the reference.

Causes propose changes of variables; the emulator runs the reference with them; what gives the candidate's outputs is an
explanation. Single changes come first, then a bounded search on top of those that helped. The shortest explanation
wins, equal ones are listed together, and where nothing fits nothing is claimed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, sqrt
from typing import Any, Literal

import numpy as np

from rmsaudit import causes, gains
from rmsaudit.arrays import Array, word_of
from rmsaudit.case import Case
from rmsaudit.causes import GAIN_VALUES, Words
from rmsaudit.clues import Clues
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Sample, distance, steps
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, at_width, resolve

ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:8", "lanes:128", "exact")
"""Reduction orders whose spread is what order alone can do."""
FLIPS = 4.0
"""How many times the likely number of 16-bit outputs that an order moves by one ulp is still put down to it."""
BY_ORDER = {False: 0.25, True: 10.0}
"""How far a row may be off by order, as in `evidence.distance`: in 16-bit outputs, and in wider ones."""
MOST_MATCHED = 12
"""How many of the states of one step are held against all the evidence, nearest first."""
EXACT = ("exact-sum", "zero")
"""Rows whose squares add up exactly, so that no order can move them."""
UNLUCKY = 5.0
"""How many standard deviations of a running sum of n squares (√(n/12) roundoffs of its root) are put down to order."""
OTHER_ORDERS = 2.0
"""How many times farther than the orders that are run an order that is not run may be."""
MOST_FLIPS, LUCK = 2.0**-9, 4
"""Over everything looked at: no more 16-bit outputs than this share and this number may be put down to order."""
ROUNDING_ONLY = (
    "association", "cast-point", "gain-rounded", "inverse-method", "inverse-rounded", "mean-scaling", "product-dtype",
    "truncation",
)  # fmt: skip
"""Causes that move a row by no more than one rounding to bfloat16."""
SEES_EPS = ("near-eps", "tiny", "zero")

Word = Literal[
    "bit-equal", "explainable by rounding", "not explainable by rounding", "not observable with these inputs"
]


@dataclass(frozen=True)
class Effort:
    """How far the search goes: emulated elements, depth, states kept at each depth."""

    elements: int = 100_000_000
    depth: int = 3
    kept: int = 5


@dataclass(frozen=True, eq=False)
class Match:
    """How an emulated spec meets the candidate. share: of the elements that differ from the reference, those met.

    word: bit-equal, or explainable by rounding where only the order of the sum can be behind what is left; None where
    something else is. worst: the largest distance left, in ulp.
    """

    word: Word | None
    share: float
    worst: int
    left_in: tuple[str, ...]


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


@dataclass(frozen=True, eq=False, kw_only=True)
class Explanations:
    """What is known in the end.

    base: the words that changes are against. unchanged: how the reference itself meets the candidate. found: the best
    explanation, or None. partial: where none is complete, the one that re-creates most. tried: specs emulated.
    """

    base: Words
    unchanged: Match
    found: Explanation | None = None
    partial: Explanation | None = None
    tried: int = 0

    @property
    def nothing_to_explain(self) -> bool:
        """True where the reference is the candidate already, up to the order of the sum."""
        return self.unchanged.word is not None


Starts = Mapping[str, Words]
"""Other places to search from, by name: presets, or what a side is believed to be."""


def explain(
    reference: Words, evidence: Evidence, *, starts: Callable[[], Starts] = dict, effort: Effort | None = None
) -> Explanations:
    """Why the candidate's outputs in `evidence` are not those of `reference` (all variables, as declared).

    starts: asked for only where the search from the reference finds nothing short.
    """
    search = _Search(dict(reference), evidence, effort or Effort())
    return search.run(starts)


@dataclass(frozen=True, eq=False)
class Alone:
    """What one change does by itself. seen_in: categories in which it moves the reference, most first."""

    match: Match
    seen_in: tuple[str, ...]


def alone(reference: Words, evidence: Evidence, change: Words) -> Alone:
    """What is left of the difference when only `change` is applied to the reference."""
    search = _Search(dict(reference), evidence, Effort())
    root, state = search.state(search.reference), search.state({**reference, **change})
    if root is None or state is None:
        return Alone(Match(None, 0.0, 0, ()), ())
    return Alone(search.match(state), search.moved(root, state))


@dataclass(frozen=True, eq=False)
class Near:
    """How near a known declaration is. equal: the share of equal outputs. word: as in Match; worst: in ulp."""

    name: str
    equal: float
    word: Word | None
    worst: int


def rank(reference: Words, evidence: Evidence, known: Starts) -> tuple[Near, ...]:
    """The declarations in `known`, with the reference's inputs, nearest first."""
    search = _Search(dict(reference), evidence, Effort())
    search.budget = inf
    states = [(name, state) for name, words in known.items() if (state := search._begun(name, words)) is not None]
    states.sort(key=lambda item: item[1].total)
    return tuple(sorted((search.near(name, state) for name, state in states), key=lambda n: (n.word is None, -n.equal)))


@dataclass(frozen=True, eq=False)
class _State:
    """A spec that was held against the evidence. far: the distance of each row; total: their mean over categories."""

    words: dict[str, Any]
    spec: NormSpec
    outputs: tuple[Array, ...]
    far: Array
    total: float
    start: str = ""


class _Exhausted(Exception):
    """The search has emulated as many elements as it may."""


class _Search:
    def __init__(self, reference: dict[str, Any], evidence: Evidence, effort: Effort) -> None:
        self.reference, self.evidence, self.effort = reference, evidence, effort
        self.seen: dict[tuple[NormSpec, Any], _State] = {}
        self.spent, self.budget = 0, float(effort.elements)
        self.accepted: list[_State] = []
        self.weights: dict[bool, Array] = {}
        self.names: dict[bool, Array] = {}
        self.unresolved: set[tuple[str, Any]] = set()
        self.matches: dict[int, Match] = {}

    def run(self, starts: Callable[[], Starts]) -> Explanations:
        root = self.state(self.reference)
        if root is None:
            nothing = Match(None, 0.0, 0, ())
            return Explanations(base=self.reference, unchanged=nothing)
        self.root = root
        unchanged = self.match(root)
        if unchanged.word is not None:
            return Explanations(base=self.reference, unchanged=unchanged, tried=len(self.seen))
        with suppress(_Exhausted):
            self._search(root, starts)
        self.budget = inf
        found = self._shortest(self.accepted)
        partial = None if found else self._partial()
        return Explanations(
            base=self.reference, unchanged=unchanged, found=found, partial=partial, tried=len(self.seen)
        )

    # --- states ------------------------------------------------------------------------------------------------------

    def state(self, words: Mapping[str, Any], start: str = "") -> _State | None:
        """The state of these words; None where they do not resolve, or have nothing to be held against."""
        form = words.get(GAIN_VALUES)
        plain = {name: value for name, value in words.items() if name != GAIN_VALUES}
        try:
            spec = resolve(plain)
        except CannotResolve:
            self.unresolved |= set(_changes(words, self.reference).items())
            return None
        key = spec, form
        if key in self.seen:
            known = self.seen[key]
            return (
                known
                if len(_changes(known.words, self.reference)) <= len(_changes(words, self.reference))
                else (replace(known, words=dict(words), start=start))
            )
        samples = self.evidence.seen_by(spec.axes)
        if not samples:
            return None
        self._spend(samples)
        outputs = tuple(_emulated(spec, sample, form) for sample in samples)
        far = np.concatenate([_far(output, sample) for output, sample in zip(outputs, samples, strict=True)])
        total = float((far * self._weight(samples, spec.axes == (-1,))).sum())
        found = _State(dict(words), spec, outputs, far, total, start)
        self.seen[key] = found
        return found

    def _spend(self, samples: Sequence[Sample]) -> None:
        self.spent += sum(sample.case.x.size + 2000 for sample in samples)
        if self.spent > self.budget:
            raise _Exhausted

    def _weight(self, samples: Sequence[Sample], rows_alone: bool) -> Array:
        """So that every category counts as much as another, however many of its rows are looked at."""
        if rows_alone not in self.weights:
            names = np.array([name for sample in samples for name in sample.category])
            categories, index, count = np.unique(names, return_inverse=True, return_counts=True)
            self.weights[rows_alone] = 1.0 / count[index] / len(categories)
        return self.weights[rows_alone]

    def near(self, name: str, state: _State) -> Near:
        """What is told of a declaration that was looked at as a whole."""
        samples = self.evidence.seen_by(state.spec.axes)
        apart = [np.abs(steps(*pair)) for pair in zip(state.outputs, (s.candidate for s in samples), strict=True)]
        equal = sum(int((each == 0).sum()) for each in apart) / sum(each.size for each in apart)
        finite = max((float(each[np.isfinite(each)].max(initial=0.0)) for each in apart), default=0.0)
        word = self.match(state).word if self._could_match(state) else None
        return Near(name, equal, word, int(finite))

    def moved(self, root: _State, state: _State) -> tuple[str, ...]:
        """The categories of rows in which the two give different outputs, those most apart first."""
        samples = self.evidence.seen_by(state.spec.axes)
        if root.spec.axes != state.spec.axes:
            return tuple(dict.fromkeys(self._names(state)))
        apart = [distance(*pair) for pair in zip(root.outputs, state.outputs, strict=True)]
        far: dict[str, float] = {}
        for sample, rows in zip(samples, apart, strict=True):
            for name, row in zip(sample.category, rows, strict=True):
                far[name] = max(far.get(name, 0.0), float(row))
        return tuple(name for name in sorted(far, key=lambda n: -far[n]) if far[name])

    # --- the search --------------------------------------------------------------------------------------------------

    def _search(self, root: _State, starts: Callable[[], Starts]) -> None:
        """Fills `accepted`, from the nearest places on; stops at the first depth that gives anything."""
        singles = self._children(root, causes_=self._coarse) if self._is_large(root) else []
        if self._accept(singles):
            return
        singles += self._children(root, causes_=self._fine if singles else causes.names())
        if self._accept(singles):
            return
        useful = self._useful(root, singles)
        nearest = self._best(singles, [])
        pairs = self._grown(nearest, useful)
        if self.accepted:
            return
        begun = [state for name, words in starts().items() if (state := self._begun(name, words)) is not None]
        if self._accept(begun):
            return
        frontier = self._best(begun, [*nearest, root]) + self._best(pairs, nearest)
        for _ in range(2, self.effort.depth + 1):
            frontier = self._best(self._grown(frontier, useful), frontier)
            if self.accepted:
                return

    def _grown(self, frontier: Sequence[_State], useful: set[tuple[str, Any]]) -> list[_State]:
        """The states one more change away, those of near states first; stops where one that began elsewhere is met."""
        grown: list[_State] = []
        for state in sorted(frontier, key=lambda s: s.total):
            nearly = bool(state.start) or state.total < self.root.total / 4
            children = self._children(state, None if nearly else useful)
            grown += children
            if self._accept(children) and state.start:
                break
        return grown

    @property
    def _coarse(self) -> tuple[str, ...]:
        return tuple(name for name in causes.names() if name not in ROUNDING_ONLY)

    @property
    def _fine(self) -> tuple[str, ...]:
        return tuple(name for name in causes.names() if name in ROUNDING_ONLY)

    def _is_large(self, root: _State) -> bool:
        """Whether some row is farther off than a rounding to bfloat16 can move it."""
        words = {word_of(sample.candidate) for sample in self.evidence.seen_by(root.spec.axes)}
        return bool(root.far.max(initial=0.0) > max(FORMATS[word].precision for word in words) - 5)

    def _accept(self, states: Iterable[_State]) -> bool:
        self.accepted += self._accepted(states)
        return bool(self.accepted)

    def _begun(self, name: str, words: Words) -> _State | None:
        kept = {name: self.reference[name] for name in OPERANDS}
        return self.state({**{n: v.default for n, v in variables().items()}, **words, **kept}, name)

    def _children(
        self, state: _State, only: "set[tuple[str, Any]] | None" = None, causes_: Sequence[str] | None = None
    ) -> list[_State]:
        """The states one proposal away. only: enumerated changes that are worth it; fitted numbers always are."""
        found: dict[int, _State] = {}
        for change in self._proposals(state, causes.names() if causes_ is None else causes_):
            if only is not None and not _fitted(change) and not any((n, v) in only for n, v in change.items()):
                continue
            child = self.state({**state.words, **change}, state.start)
            if child is not None and (child.spec != state.spec or GAIN_VALUES in change):
                found.setdefault(id(child.outputs), child)
        return list(found.values())

    def _proposals(self, state: _State, names: Sequence[str]) -> Iterator[Words]:
        clues = Clues(
            words=state.words,
            spec=state.spec,
            samples=self.evidence.seen_by(state.spec.axes),
            emulated=state.outputs,
            eps_is_off=bool(state.far[np.isin(self._names(state), SEES_EPS)].any()),
        )
        yield from _undone(state.words, self.reference)
        for name in names:
            yield from causes.describe(name).propose(clues)

    def _useful(self, root: _State, singles: Iterable[_State]) -> set[tuple[str, Any]]:
        """Single values that bring at least one row nearer, and those that cannot stand alone."""
        helped = set()
        for state in singles:
            if len(state.far) == len(root.far) and (state.far < root.far - 1e-9).any():
                helped |= set(_changes(state.words, self.reference).items())
        return helped | self.unresolved

    def _best(self, states: Iterable[_State], before: Sequence[_State]) -> list[_State]:
        """The nearest states, no two with the same distances."""
        kept: list[_State] = []
        for state in sorted(states, key=lambda s: (s.total, len(_changes(s.words, self.reference)))):
            if any(np.array_equal(state.far, other.far) for other in (*kept, *before)):
                continue
            kept.append(state)
            if len(kept) == self.effort.kept:
                break
        return kept

    def _accepted(self, states: Iterable[_State]) -> list[_State]:
        near = sorted((state for state in states if self._could_match(state)), key=lambda s: s.total)
        return [state for state in islice(near, MOST_MATCHED) if self.match(state).word is not None]

    # --- does it match -----------------------------------------------------------------------------------------------

    def _could_match(self, state: _State) -> bool:
        """Quick: on exact-sum rows nothing may be left, and elsewhere no more than an order of summation moves."""
        narrow = FORMATS[state.spec.accumulate_dtype].precision < 24
        most = BY_ORDER[FORMATS[state.spec.output_dtype].bits >= 32]
        if narrow or state.far.max(initial=0.0) > most:
            return not state.far.any()
        return not state.far[self._names(state) == "exact-sum"].any()

    def _names(self, state: _State) -> Array:
        """The category of each row of `state.far`."""
        rows_alone = state.spec.axes == (-1,)
        if rows_alone not in self.names:
            samples = self.evidence.seen_by(state.spec.axes)
            self.names[rows_alone] = np.array([name for sample in samples for name in sample.category])
        return self.names[rows_alone]

    def match(self, state: _State) -> Match:
        if id(state.outputs) not in self.matches:
            self.matches[id(state.outputs)] = self._match(state)
        return self.matches[id(state.outputs)]

    def _match(self, state: _State) -> Match:
        samples, outputs = self.evidence.seen_by(state.spec.axes), state.outputs
        if state.spec.axes == (-1,):
            form = state.words.get(GAIN_VALUES)
            outputs += tuple(_emulated(state.spec, sample, form) for sample in self.evidence.rest)
            samples += self.evidence.rest
        differing = met = 0
        worst = 0.0
        left: list[str] = []
        equal, flips = True, 0.0
        for sample, output in zip(samples, outputs, strict=True):
            if output.dtype != sample.candidate.dtype:
                return Match(None, 0.0, 0, self.evidence.categories)
            apart = steps(output, sample.candidate)
            equal &= not apart.any()
            if FORMATS[state.spec.output_dtype].bits < 32:
                flips += np.count_nonzero(apart) - MOST_FLIPS * apart.size
            allowed = self._allowed(state, sample, output, apart)
            rows = (np.abs(apart) > allowed).any(axis=-1)
            left += [sample.category[row] for row in np.flatnonzero(rows)]
            changed = steps(sample.reference, sample.candidate) != 0
            differing += int(changed.sum())
            met += int((changed & (np.abs(apart) <= allowed)).sum())
            finite = np.abs(apart[np.isfinite(apart)])
            worst = max(worst, float(finite.max(initial=0.0)))
        share = met / differing if differing else 0.0
        too_many = flips > LUCK
        word: Word | None = "bit-equal" if equal else None if left or too_many else "explainable by rounding"
        return Match(word, share, int(worst), tuple(dict.fromkeys(left)))

    def _allowed(self, state: _State, sample: Sample, output: Array, apart: Array) -> Array:
        """How many ulp the order of the sum may be behind, [rows, width]; 0 in rows where orders agree."""
        allowed = np.zeros(output.shape)
        rows = np.flatnonzero(apart.any(axis=-1))
        spec = at_width(state.spec, sample.case.width)
        if not len(rows) or spec is None or FORMATS[spec.accumulate_dtype].precision < 24 or sample.whole:
            return allowed
        part = _rows(sample, rows)
        form = state.words.get(GAIN_VALUES)
        low, high = np.zeros(output[rows].shape), np.zeros(output[rows].shape)
        for order in ORDERS:
            moved = steps(output[rows], _emulated(replace(spec, accumulate_order=order), part, form))
            low, high = np.minimum(low, moved), np.maximum(high, moved)
        spread = np.where(np.isfinite(high - low), high - low, 0.0).max(axis=-1, keepdims=True)
        beyond = np.maximum(np.maximum(high, -low), 0.0) + spread
        if FORMATS[spec.output_dtype].bits >= 32:  # any row may have the luck of any other
            walk = UNLUCKY * sqrt(sample.case.width / 12)
            beyond = np.full(apart[rows].shape, max(OTHER_ORDERS * float(spread.max(initial=0.0)), walk) + 2.0)
        if FORMATS[spec.output_dtype].bits < 32:
            beyond = np.where(self._flips(spec, part, apart[rows]), np.maximum(beyond, 1.0), beyond)
        exact = np.isin(np.array(part.category), EXACT)[:, None]
        allowed[rows] = np.where(exact, 0.0, beyond)
        return allowed

    def _flips(self, spec: NormSpec, part: Sample, apart: Array) -> Array:
        """Rows in which no more 16-bit outputs moved by one ulp than their order can be behind, bool [rows, 1].

        A factor that orders move by s float32 ulp moves a share of about s · 2^(p − 24) of the outputs of p bits over
        a rounding boundary.
        """
        wide = replace(spec, output_dtype="float32", cast_point="after_gain", gain_product_dtype="float32")
        base = _emulated(replace(wide, accumulate_order="exact"), part, None)
        others = ("pairwise", "sequential", "lanes:8")
        moved = [steps(base, _emulated(replace(wide, accumulate_order=order), part, None)) for order in others]
        found = np.abs(np.stack(moved)).max(axis=(0, 2))
        found = np.where(np.isfinite(found), found, 0.0)
        share = FLIPS * (found + 2.0) * 2.0 ** (FORMATS[spec.output_dtype].precision - 24)
        few = (apart != 0).sum(axis=-1) <= np.maximum(1.0, share * apart.shape[-1])
        enough: Array = few[:, None]
        return enough

    # --- the shortest ------------------------------------------------------------------------------------------------

    def _shortest(self, accepted: Sequence[_State]) -> Explanation | None:
        """The accepted state with the fewest changes, each of which is needed; with those that tie with it."""
        minimal: dict[tuple[tuple[str, Any], ...], _State] = {}
        for state in accepted[:12]:
            try:
                small = self._minimal(state)
            except _Exhausted:
                small = state
            changes = _changes(small.words, self.reference)
            minimal.setdefault(tuple(sorted(changes.items(), key=str)), small)
        if not minimal:
            return None
        fewest = min(map(len, minimal))
        tied = [state for changes, state in minimal.items() if len(changes) == fewest]
        tied.sort(key=self._plausibility)
        best = tied[0]
        return Explanation(
            changes=_changes(best.words, self.reference),
            words=best.words,
            spec=best.spec,
            match=self.match(best),
            start=best.start,
            same=tuple(_changes(state.words, self.reference) for state in tied[1:]),
        )

    def _plausibility(self, state: _State) -> tuple[int, int, int, float]:
        """Bit-equal before equal up to order; short numbers before long ones; usual mechanisms before rare ones."""
        changes = _changes(state.words, self.reference)
        digits = sum(len(f"{value:g}") for value in changes.values() if isinstance(value, float))
        rank = sum(USUAL.index(name) if name in USUAL else len(USUAL) for name in changes)
        return (0 if self.match(state).word == "bit-equal" else 1, rank, digits, state.total)

    def _minimal(self, state: _State) -> _State:
        """The state with every change taken back that is not needed for the match."""
        wanted = self.match(state).word
        again = True
        while again:
            again = False
            for name in list(_changes(state.words, self.reference)):
                words = _reverted(state.words, self.reference, name)
                tried = self.state(words, state.start)
                if tried is None or not self._could_match(tried):
                    continue
                word = self.match(tried).word
                if word is not None and (word == wanted or wanted != "bit-equal"):
                    state, again = replace(tried, words=words), True
        return state

    def _partial(self) -> Explanation | None:
        """The single state that re-creates most, where that is nearly everything."""
        near = sorted(self.seen.values(), key=lambda s: s.total)[:5]
        best: tuple[float, _State] | None = None
        for state in near:
            if state is self.root or state.start:
                continue
            try:
                share = self.match(state).share
            except _Exhausted:
                return None
            if best is None or share > best[0] or (share == best[0] and _fewer(state, best[1], self.reference)):
                best = share, state
        if best is None or best[0] < NEARLY:
            return None
        state = best[1]
        return Explanation(
            changes=_changes(state.words, self.reference), words=state.words, spec=state.spec, match=self.match(state)
        )


NEARLY = 0.9
"""The share of differing elements that an incomplete explanation must meet to be told."""

OPERANDS = ("width", "input_dtype", "gain_dtype", "residual_dtype")
"""What the inputs are, whatever is done with them: kept from the reference when the search begins elsewhere."""

USUAL = (
    "eps", "eps_placement", "gain_offset", "cast_point", "center", "groups", "compute_dtype", "gain_applied",
    "statistic", "statistic_width", "output_dtype", "axes", "inverse_dtype", "statistic_dtype", "gain_offset_dtype",
    "inverse", "association", "mean_scaling",
)  # fmt: skip


def _fewer(one: _State, other: _State, reference: Words) -> bool:
    return len(_changes(one.words, reference)) < len(_changes(other.words, reference))


def _changes(words: Words, reference: Words) -> dict[str, Any]:
    """The words that are not the reference's."""
    return {name: value for name, value in words.items() if name not in reference or value != reference[name]}


def _reverted(words: Words, reference: Words, name: str) -> dict[str, Any]:
    kept = {other: value for other, value in words.items() if other != name}
    return {**kept, name: reference[name]} if name in reference else kept


def _undone(words: Words, reference: Words) -> Iterator[Words]:
    """Each change taken back: a search that began at a preset may have to leave it."""
    return ({name: reference[name]} for name in _changes(words, reference) if name in reference)


def _fitted(change: Words) -> bool:
    """Whether a number in it was read from the data, and so depends on the other variables."""
    return any(isinstance(value, float | int) and not isinstance(value, bool) for value in change.values())


def _emulated(spec: NormSpec, sample: Sample, form: str | None) -> Array:
    """The output on a sample; the candidate's own, at another width that says nothing about the spec."""
    fitted = spec if spec.width == sample.case.width else at_width(spec, sample.case.width)
    counted = isinstance(spec.statistic_width, int) and sample.case.width != spec.width
    if fitted is None or counted:
        return sample.candidate
    case = sample.case if form is None else sample.case.with_gain(gains.transformed(sample.case.gain, form))
    return emulate(fitted, case)


def _far(output: Array, sample: Sample) -> Array:
    return distance(output, sample.candidate)


def _rows(sample: Sample, rows: Array) -> Sample:
    case = sample.case
    return replace(
        sample,
        case=Case(
            category=case.category, label=case.label, x=case.x[rows], gain=case.gain, bias=case.bias,
            residual=case.residual[rows],
        ),
        reference=sample.reference[rows],
        candidate=sample.candidate[rows],
        category=tuple(sample.category[row] for row in rows),
        number=tuple(sample.number[row] for row in rows),
    )  # fmt: skip
