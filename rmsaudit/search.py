"""The search for specs that give the candidate's outputs: from a reference or a preset, by changes that causes propose.

A hypothesis is run on a few rows, the probe. One that they do not contradict is held against everything that was fed;
rows that contradict it then join the probe, so that the next one has to meet them as well. Single changes come first,
then changes on top of the nearest, from the reference and from other starts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from rmsaudit import causes
from rmsaudit.arrays import Array, word_of
from rmsaudit.causes import GAIN_VALUES, Words
from rmsaudit.clues import Clues, simplest_near
from rmsaudit.evidence import Evidence, Sample
from rmsaudit.formats import FORMATS
from rmsaudit.matching import Emulated, Match, Meeting, Word, contradicted, met, squares_the_input
from rmsaudit.probing import Probe, probe
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, resolve

MOST_ADDED = 6
"""How many times rows that contradict a hypothesis join the probe."""
BY_ORDER = {False: 0.25, True: 10.0}
"""How far a row may be off by order, as in `evidence.distance`: in 16-bit outputs, and in wider ones."""
MOST_MATCHED = 12
"""How many of the states of one step are held against all the evidence, nearest first."""
MOST_EQUAL = 1 << 22
"""Elements that states which are all the candidate are run on in full; one is, however many these are."""
ALIKE = 2
"""How many of the states that are kept may change the same variables of the same start."""
HELPED = 0.8
"""A single change that leaves no more than this share of the distance is tried on top of every other start as well."""
MOST_CARRIED = 3
DIGIT = 0.02
"""What a digit of a number adds to the distance that is left, as a share of it."""
NO_NEARER = 0.95
"""Where one change leaves more of the distance than this share, no second is tried; nor a third, where other starts do
as well."""
NEARLY = 0.25
"""From a state that leaves no more than this share of the distance every proposal is tried, not only useful ones."""
NEARER = 0.95
"""A change is useful where it leaves no more than this share of the distance of some row."""
ROUNDING_ONLY = (
    "association", "cast-point", "gain-rounded", "inverse-method", "inverse-rounded", "mean-scaling", "product-dtype",
    "truncation",
)  # fmt: skip
"""Causes that move a row by no more than one rounding to bfloat16."""
MOST_ALMOST = 4
"""How many changes in a row may be made on top of what is almost the candidate, before other states have their turn."""
BUT_FOR_EPS = 2
"""How many other starts are kept for how near they are without the rows that see eps."""
NUMBERS = ("eps", "input_clamp", "output_clamp", "post_scale")
ADJUSTING = (2, 4, 6, 8, 11, 13)
"""By how much numbers are moved: some steps of 2^-2 of them, then of 2^-4, and so on."""
SEES_EPS = ("near-eps", "tiny", "zero")
OPERANDS = ("width", "input_dtype", "gain_dtype", "residual_dtype")
"""What the inputs are, whatever is done with them: kept from the reference when the search begins elsewhere."""

REFERENCE = "the reference"
"""The name of the reference where it is searched from as other starts are."""

Starts = Mapping[str, Words]
"""Other places to search from, by name: presets, or what a side is believed to be."""


@dataclass(frozen=True)
class Effort:
    """How far the search goes: emulated elements, depth, states kept at each depth."""

    elements: int = 100_000_000
    depth: int = 4
    kept: int = 5


@dataclass(eq=False)
class _Held:
    """What is emulated, and how far its outputs are from the candidate's: a number a row, for each sample of the
    probe that it has been run on so far."""

    by: Emulated
    far: list[Array] = field(default_factory=list)
    total: tuple[int, float] = (-1, 0.0)
    match: Match | None = None
    word: Word | None = None
    worst: int = 0
    verified: bool = False
    contrary: Sample | None = None


@dataclass(frozen=True, eq=False)
class State:
    """Declared words, and what came of running them. start: where the search for them began, "" for the reference."""

    words: dict[str, Any]
    held: _Held
    start: str = ""

    @property
    def spec(self) -> NormSpec:
        """The words, resolved."""
        return self.held.by.spec


class Exhausted(Exception):
    """The search has emulated as many elements as it may."""


class Search:
    """One search on its way."""

    def __init__(self, reference: Words, evidence: Evidence, effort: Effort) -> None:
        self.reference, self.evidence, self.effort = dict(reference), evidence, effort
        self.spent, self.budget = 0.0, float(effort.elements)
        self.nearly = 0.0
        self.size = sum(case.case.x.size for case in evidence.cases)
        self.seen: dict[Emulated, State] = {}
        self.accepted: list[State] = []
        self.unresolved: set[tuple[str, Any]] = set()
        self.probes: dict[bool, Probe] = {}
        self.root: State | None = None
        self.root = self.state(self.reference)

    def run(self, starts: Callable[[], Starts]) -> None:
        """Fills `accepted`: states that meet everything."""
        if self.root is None:
            return
        try:
            self._search(self.root, starts)
        except Exhausted:
            self.budget = inf
            self._accept(self.seen.values())

    # --- states ------------------------------------------------------------------------------------------------------

    def state(self, words: Mapping[str, Any], start: str = "") -> State | None:
        """The state of these words; None where they do not resolve, or have nothing to be held against."""
        try:
            spec = resolve({name: value for name, value in words.items() if name != GAIN_VALUES})
        except CannotResolve:
            self.unresolved |= set(changes(words, self.reference).items())
            return None
        by = Emulated(spec, words.get(GAIN_VALUES))
        known = self.seen.get(by)
        if known is not None:
            shorter = len(changes(known.words, self.reference)) <= len(changes(words, self.reference))
            return known if shorter else State(dict(words), known.held, start)
        if not self._probe(spec.axes).parts:
            return None
        found = State(dict(words), _Held(by), start)
        self.far(found)
        self.seen[by] = found
        return found

    def far(self, state: State) -> Array:
        """How far each row of the probe is from the candidate's."""
        held = state.held
        for elements, far in self._probe(state.spec.axes).distances(held.by, len(held.far)):
            self.spent += elements
            held.far.append(far)
        if self.spent > self.budget:
            raise Exhausted
        return held.far[0] if len(held.far) == 1 else np.concatenate(held.far)

    def total(self, state: State) -> float:
        """The mean distance over the categories of the probe.

        Where a statistic crosses rows, other cases are run: it is that of the reference, times the share that is left
        of the reference's distance in those cases.
        """
        probed = self._probe(state.spec.axes)
        if state.held.total[0] != probed.added:
            state.held.total = probed.added, float((self.far(state) * probed.weights).sum()) * self._scale(probed)
        return state.held.total[1]

    def _scale(self, probed: Probe) -> float:
        if self.root is None or self._probe(self.root.spec.axes) is probed:
            return 1.0
        far = [far for _, far in probed.distances(self.root.held.by, 0)]
        return self.total(self.root) / max(float((np.concatenate(far) * probed.weights).sum()), 2.0**-20)

    def _probe(self, axes: tuple[int, ...]) -> Probe:
        rows_alone = axes == (-1,)
        if rows_alone not in self.probes:
            self.probes[rows_alone] = probe(self.evidence.guides(axes), rows_alone=rows_alone)
        return self.probes[rows_alone]

    # --- does it match -----------------------------------------------------------------------------------------------

    def match(self, state: State) -> Match:
        """How it meets the rows that shares are told of. Its word is that over everything that was fed."""
        held, told = state.held, self.evidence.told(state.spec.axes)
        self.meets(state)
        if held.match is None:
            held.match = met(held.by, told, orders=state is not self.root).match()
        left = held.match.left_in or (() if held.contrary is None else held.contrary.category[:1])
        return replace(held.match, word=held.word, worst=max(held.worst, held.match.worst), left_in=left)

    def word(self, state: State) -> Word | None:
        """What may be said of it after everything that was fed."""
        self.meets(state)
        return state.held.word

    def meets(self, state: State) -> bool:
        """Whether it is the candidate, on everything that was fed. Rows that contradict it join the probe."""
        held, axes = state.held, state.spec.axes
        if held.verified:
            return held.word is not None
        held.verified = True
        meeting = Meeting(held.by)
        for samples in (self.evidence.told(axes), self.evidence.fed(axes)):
            held.contrary = contradicted(meeting, samples)
            self.spent += sum(sample.case.x.size for sample in samples)
            if held.contrary is not None:
                if state is not self.root or not self.far(state).any():
                    self._learn(axes, held.contrary)
                return False
        held.word, held.worst = meeting.word, int(meeting.worst)
        return held.word is not None

    def _learn(self, axes: tuple[int, ...], contrary: Sample) -> None:
        probed = self._probe(axes)
        if probed.added < MOST_ADDED:
            probed.join(contrary)

    def could_match(self, state: State) -> bool:
        """Quick: where sums are exact nothing may be left, and elsewhere no more than an order of summation moves."""
        exactly = FORMATS[state.spec.accumulate_dtype].precision < 24
        most = 0.0 if exactly else BY_ORDER[FORMATS[state.spec.output_dtype].bits >= 32]
        if any(far.max(initial=0.0) > most for far in state.held.far):
            return False
        far = self.far(state)
        if far.max(initial=0.0) > most:
            return False
        return not squares_the_input(state.spec) or not far[self._names(state) == "exact-sum"].any()

    def _names(self, state: State) -> Array:
        return self._probe(state.spec.axes).names

    # --- the search --------------------------------------------------------------------------------------------------

    def _search(self, root: State, starts: Callable[[], Starts]) -> None:
        """From the nearest places on; stops at the first depth that gives anything, or where none has come nearer."""
        singles = self._children(root, causes_=_COARSE) if self._is_large(root) else []
        if self._accept(singles):
            return
        singles += self._children(root, causes_=_FINE if singles else causes.names())
        if self._accept(singles):
            return
        useful = self._useful(root, singles)
        nearest = self._best(singles, [])
        self.nearly = self.total(root) * NEARLY
        pairs = self._grown(nearest, useful) if self._come_nearer(nearest) else []
        if self.accepted:
            return
        known = starts() if self.evidence.rows_stand_alone else {REFERENCE: self.reference, **starts()}
        plain = self.begun(known)
        carried = [state for change in self._carried(root, [*nearest, *pairs]) for state in self.begun(known, change)]
        if self._accept([*plain, *carried]):
            return
        if not self._come_nearer([*nearest, *pairs, *plain, *carried]):
            return
        begun = [*self._best(carried, [*nearest, root]), *self._best(plain, [*nearest, root])]
        frontier = self._best(plain, [*nearest, root, *begun], self._but_for_eps)[:BUT_FOR_EPS]
        frontier += [*sorted(begun, key=self.total), *self._best(pairs, nearest)]
        for _ in range(2, self.effort.depth + 1):
            frontier = self._best(self._grown(frontier, useful), frontier)
            if self.accepted:
                return

    def _come_nearer(self, states: Iterable[State]) -> bool:
        """Whether any of them has; or rows do not stand alone: other axes bring nothing nearer by themselves."""
        if self.root is None or not self.evidence.rows_stand_alone:
            return self.root is not None
        return min(map(self.total, states), default=0.0) <= NO_NEARER * self.total(self.root)

    def _grown(self, frontier: Sequence[State], useful: set[tuple[str, Any]]) -> list[State]:
        """The states one more change away from each; stops where one of them is the candidate."""
        grown: list[State] = []
        for state in frontier:
            nearly = bool(state.start) or self.total(state) < self.nearly
            children = self._children(state, None if nearly else useful)
            grown += children
            for _ in range(MOST_ALMOST):
                if self._accept(children):
                    return grown
                if (almost := self._almost(children)) is None:
                    break
                children = self._children(almost)  # one more change may be all that is missing
                grown += children
            else:
                if self._accept(children):
                    return grown
        return grown

    def _almost(self, states: Iterable[State]) -> State | None:
        """The nearest state, from another start, that only rows which then joined the probe have contradicted."""
        known = (state for state in states if state.start and state.held.contrary is not None)
        found = [state for state in known if self.total(state) < self.nearly]
        return min(found, key=self.total, default=None)

    def _is_large(self, root: State) -> bool:
        """Whether some row is farther off than a rounding to bfloat16 can move it."""
        words = {word_of(sample.candidate) for sample in self.evidence.guides(root.spec.axes)}
        return bool(self.far(root).max(initial=0.0) > max(FORMATS[word].precision for word in words) - 5)

    def begun(self, starts: Starts, change: Words | None = None) -> list[State]:
        """The states of all starts, with the reference's inputs, and with a change where one is given."""
        kept = {name: self.reference[name] for name in OPERANDS} | dict(change or {})
        default = {name: variable.default for name, variable in variables().items()}
        tried = [(name, {**default, **words, **kept}) for name, words in starts.items()]
        own_eps = {"eps": self.reference["eps"]}  # for a start whose own eps vanishes in these dtypes
        found = (self.state(words, name) or self.state({**words, **own_eps}, name) for name, words in tried)
        return [state for state in found if state is not None]

    def _carried(self, root: State, states: Iterable[State]) -> list[Words]:
        """What a search from other starts begins with as well: a gain or none, as the reference has it; the axes that
        the rows speak for; and what brought the reference nearest, each of other variables."""
        families: dict[frozenset[str], Words] = {}
        for state in sorted(states, key=self._promise):
            if self.total(state) > HELPED * self.total(root) or len(families) == MOST_CARRIED:
                break
            change = changes(state.words, self.reference)
            families.setdefault(frozenset(change), change)
        axes: list[Words] = [] if self.evidence.rows_stand_alone else [{"axes": (-2,)}, {"axes": (-2, -1)}]
        return [{"gain_applied": self.reference["gain_applied"]}, *axes, *families.values()]

    def _children(
        self, state: State, only: "set[tuple[str, Any]] | None" = None, causes_: Sequence[str] | None = None
    ) -> list[State]:
        """The states one proposal away. only: enumerated changes that are worth it; fitted numbers always are."""
        found: dict[int, State] = {}
        for change in self._proposals(state, causes.names() if causes_ is None else causes_):
            if only is not None and not _fitted(change) and not any((n, v) in only for n, v in change.items()):
                continue
            child = self.state({**state.words, **change}, state.start)
            if child is not None and (child.spec != state.spec or GAIN_VALUES in change):
                found.setdefault(id(child.held), child)
        if state is self.root or self.total(state) < self.nearly:
            for child in self._adjusted(state, list(found.values())):
                found.setdefault(id(child.held), child)
        return list(found.values())

    def _adjusted(self, state: State, children: Sequence[State]) -> Iterator[State]:
        """Numbers that were read from the data, moved on while that brings the rows nearer."""
        for name in NUMBERS:
            moved = [each for each in (state, *children) if self._was_read(each, name)]
            best = min(moved, key=self.total, default=None)
            if best is None or (best is not state and self.total(best) >= self.total(state)):
                continue
            for power in ADJUSTING:
                if self.could_match(best) and not best.held.verified:
                    break
                known = list(self._around(best, name, 2.0**-power))
                yield from known
                best = min((best, *known), key=self.total)

    def _was_read(self, state: State, name: str) -> bool:
        value = state.words[name]
        return _is_number(value) and value != self.reference[name]

    def _around(self, state: State, name: str, step: float) -> Iterator[State]:
        """The states with the shortest numbers some steps, relative, to both sides of the one there is."""
        value = float(state.words[name])
        for count in (-3, -2, -1, 1, 2, 3):
            number = simplest_near(value * (1 + count * step), step / 2)
            found = self.state({**state.words, name: number}, state.start)
            if found is not None:
                yield found

    def _proposals(self, state: State, names: Sequence[str]) -> Iterator[Words]:
        samples = self._guides(state)
        self.spent += sum(sample.case.x.size for sample in samples)
        off = self.far(state) > 0
        sees_eps = np.isin(self._names(state), SEES_EPS) | (state.spec.prescale != "none")
        clues = Clues(
            words=state.words,
            spec=state.spec,
            samples=samples,
            emulated=tuple(state.held.by.on(sample) for sample in samples),
            eps_is_off=bool((off & sees_eps).any()),
            rows_stand_alone=self.evidence.rows_stand_alone,
        )
        yield from undone(state.words, self.reference)
        for name in names:
            yield from causes.describe(name).propose(clues)

    def _guides(self, state: State) -> tuple[Sample, ...]:
        """What numbers are read from: what guides the search, and what joined the probe."""
        axes = state.spec.axes
        return (*self.evidence.guides(axes), *self._probe(axes).joined)

    def _useful(self, root: State, singles: Iterable[State]) -> set[tuple[str, Any]]:
        """Single values that bring at least one row nearer, and those that cannot stand alone."""
        helped = set()
        before = self.far(root)
        for state in singles:
            far = self.far(state)
            if len(far) == len(before) and (far < NEARER * before).any():
                helped |= set(changes(state.words, self.reference).items())
        return helped | self.unresolved

    def _best(
        self, states: Iterable[State], before: Sequence[State], key: "Callable[[State], Any] | None" = None
    ) -> list[State]:
        """The nearest states, no two with the same distances, and few that change the same variables."""
        kept: list[State] = []
        families: dict[tuple[str, frozenset[str]], int] = {}
        known = [self.far(other) for other in before]
        for state in sorted(states, key=key or self._promise):
            far = self.far(state)
            family = state.start, frozenset(changes(state.words, self.reference))
            if families.get(family, 0) == ALIKE or any(np.array_equal(far, other) for other in known):
                continue
            families[family] = families.get(family, 0) + 1
            known.append(far)
            kept.append(state)
            if len(kept) == self.effort.kept:
                break
        return kept

    def _but_for_eps(self, state: State) -> float:
        """The distance without the rows that see eps: its number is read from them once the rest is right."""
        counts = ~np.isin(self._names(state), SEES_EPS)
        weights = self._probe(state.spec.axes).weights[counts]
        return float((self.far(state)[counts] * weights).sum()) if len(weights) else self.total(state)

    def _promise(self, state: State) -> tuple[float, int]:
        """What states are sorted by: the distance, a little more for numbers that nobody would write; then changes."""
        changed = changes(state.words, self.reference)
        digits = sum(len(f"{value:.9g}") for value in changed.values() if isinstance(value, float))
        return self.total(state) * (1 + DIGIT * digits), len(changed)

    def _accept(self, states: Iterable[State]) -> bool:
        """Adds to `accepted` those of the states that meet everything; True where there is any by now."""
        waiting = sorted((state for state in states if self.could_match(state)), key=self.total)
        equal = 0
        for _ in range(MOST_MATCHED):
            if not waiting:
                break
            state = waiting.pop(0)
            if self.meets(state):
                self.accepted.append(state)
                equal += self.size
                if equal > MOST_EQUAL:
                    break
                if state.held.word == "bit-equal":  # what is nearly the candidate says less than what is it
                    waiting = [each for each in waiting if not self.far(each).any()]
            else:  # the probe has rows that contradict it, and perhaps others
                waiting = sorted((each for each in waiting if self.could_match(each)), key=self.total)
        return bool(self.accepted)


_FINE = tuple(name for name in causes.names() if name in ROUNDING_ONLY)
_COARSE = tuple(name for name in causes.names() if name not in ROUNDING_ONLY)


def changes(words: Words, reference: Words) -> dict[str, Any]:
    """The words that are not the reference's."""
    return {name: value for name, value in words.items() if name not in reference or value != reference[name]}


def undone(words: Words, reference: Words) -> Iterator[Words]:
    """Each change taken back: a search that began at a preset may have to leave it."""
    return ({name: reference[name]} for name in changes(words, reference) if name in reference)


def _fitted(change: Words) -> bool:
    """Whether a number in it was read from the data, and so depends on the other variables."""
    return any(map(_is_number, change.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)
