"""The ladder: from the reference to the candidate, one variable at a time.

Variables are changed as they were written, so that a variable which merely follows another (accumulate_dtype: compute)
moves with it and is not a rung of its own. The last cumulative rung is the candidate's spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.measure.measurement import Measurement
from rmsaudit.measure.statistics import measure
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, fitted, resolve

GAIN = "gain_values"
"""The rung of two sides that declare different gain tensors: not a variable of the formula, but an operand."""


@dataclass(frozen=True)
class Setting:
    """What a rung runs: a spec, and whose gains."""

    spec: NormSpec
    candidate_gain: bool


@dataclass(frozen=True, kw_only=True)
class RungPlan:
    """The three settings of one differing variable; None where its values cannot hold with the others'."""

    variable: str
    from_: Any
    to: Any
    alone: Setting | None
    cumulative: Setting | None
    reverted: Setting | None
    impossible: str | None


@dataclass(frozen=True, kw_only=True)
class Differing:
    """A variable whose resolved values differ; `follows` names the variable that moved it, if it has no word of its
    own."""

    variable: str
    reference: Any
    candidate: Any
    follows: str | None


def differing(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[Differing, ...]:
    """Every variable with different resolved values, in stage order. Both sides as declared words."""
    specs = resolve(reference), resolve(candidate)
    moved = [name for name in variables() if getattr(specs[0], name) != getattr(specs[1], name)]
    own = {name for name in moved if reference[name] != candidate[name]}
    return tuple(
        Differing(
            variable=name,
            reference=getattr(specs[0], name),
            candidate=getattr(specs[1], name),
            follows=None if name in own else _leaders(name, reference, candidate, own),
        )
        for name in moved
    )


def _leaders(follower: str, reference: Mapping[str, Any], candidate: Mapping[str, Any], own: set[str]) -> str:
    """The variables with a word of their own that move `follower` when changed alone; all of them if none does
    alone."""
    before = getattr(resolve(reference), follower)
    moving = []
    for name in variables():
        if name in own:
            setting, _ = _setting({**reference, name: candidate[name]}, candidate_gain=False)
            if setting is not None and getattr(setting.spec, follower) != before:
                moving.append(name)
    return ", ".join(moving or [name for name in variables() if name in own])


def plan(reference: Mapping[str, Any], candidate: Mapping[str, Any], *, gains_differ: bool) -> tuple[RungPlan, ...]:
    """One rung for each variable that differs by its own word, in stage order; the gains come last."""
    start, goal = _pinned(reference, candidate)
    names = [name for name in variables() if start[name] != goal[name]]
    rungs = []
    climbed = dict(start)
    for name in names:
        climbed[name] = goal[name]
        alone, why = _setting({**start, name: goal[name]}, candidate_gain=False)
        rungs.append(
            RungPlan(
                variable=name,
                from_=getattr(resolve(start), name),
                to=getattr(resolve(goal), name),
                alone=alone,
                cumulative=_setting(climbed, candidate_gain=False)[0],
                reverted=_setting({**goal, name: start[name]}, candidate_gain=gains_differ)[0],
                impossible=why,
            )
        )
    return (*rungs, _gain_rung(start, goal)) if gains_differ else tuple(rungs)


def _gain_rung(start: Mapping[str, Any], goal: Mapping[str, Any]) -> RungPlan:
    first, last = resolve(start), resolve(goal)
    return RungPlan(
        variable=GAIN,
        from_="the reference's gains",
        to="the candidate's gains",
        alone=Setting(first, True),
        cumulative=Setting(last, True),
        reverted=Setting(last, False),
        impossible=None,
    )


def _pinned(reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both sides' words, with a word replaced by its value where the words differ but the values do not."""
    start, goal = dict(reference), dict(candidate)
    specs = resolve(start), resolve(goal)
    for name in variables():
        value = getattr(specs[0], name)
        if start[name] != goal[name] and value == getattr(specs[1], name):
            start[name] = goal[name] = value
    return start, goal


def _setting(declared: Mapping[str, Any], *, candidate_gain: bool) -> tuple[Setting | None, str | None]:
    try:
        return Setting(resolve(declared), candidate_gain), None
    except CannotResolve as problem:
        return None, str(problem)


@dataclass
class Climb:
    """One rung's measurements in one category, gathered case by case."""

    alone: Measurement | None = None
    cumulative: Measurement | None = None
    reverted: Measurement | None = None
    differing: int = 0
    full_ulp: int = 0
    full_mismatched: int = 0
    left: int = 0
    left_ulp: int = 0


@dataclass
class Ladder:
    """Runs every distinct setting once per case and keeps the numbers by rung and category."""

    rungs: tuple[RungPlan, ...]
    climbs: dict[tuple[str, str], Climb] = field(default_factory=dict)

    def climb(self, case: Case, candidate_gain: Array, reference: Array, candidate: Array) -> None:
        """Adds one case. `case` carries the reference's gains; reference, candidate: what both sides returned."""
        runs = _Runs(case, candidate_gain, reference)
        changed = unequal(candidate, reference)
        whole = measure(reference, candidate)
        for rung in self.rungs:
            climb = self.climbs.setdefault((rung.variable, case.category), Climb())
            climb.alone = _merged(climb.alone, runs.measured(rung.alone))
            climb.cumulative = _merged(climb.cumulative, runs.measured(rung.cumulative))
            climb.reverted = _merged(climb.reverted, runs.measured(rung.reverted))
            climb.differing += int(np.count_nonzero(changed))
            climb.full_ulp = max(climb.full_ulp, whole.max_ulp)
            climb.full_mismatched += whole.nonfinite.mismatched
            if rung.alone is not None:
                _note_what_is_left(climb, runs.output(rung.alone), candidate)


class _Runs:
    """Outputs and measurements of the settings of one case, each made once."""

    def __init__(self, case: Case, candidate_gain: Array, reference: Array) -> None:
        self.case, self.candidate_gain, self.reference = case, candidate_gain, reference
        self.outputs: dict[Setting, Array] = {}
        self.measurements: dict[Setting, Measurement] = {}

    def output(self, setting: Setting) -> Array:
        if setting not in self.outputs:
            case = self.case.with_gain(self.candidate_gain) if setting.candidate_gain else self.case
            self.outputs[setting] = emulate(fitted(setting.spec, case.width), case)
        return self.outputs[setting]

    def measured(self, setting: Setting | None) -> Measurement | None:
        if setting is None:
            return None
        if setting not in self.measurements:
            self.measurements[setting] = measure(self.reference, self.output(setting))
        return self.measurements[setting]


def _merged(before: Measurement | None, now: Measurement | None) -> Measurement | None:
    return now if before is None or now is None else before.merge(now)


def _note_what_is_left(climb: Climb, alone: Array, candidate: Array) -> None:
    """How much of the candidate's difference the rung alone does not re-create."""
    remaining = unequal(alone, candidate)
    climb.left += int(np.count_nonzero(remaining))
    if remaining.any():
        climb.left_ulp = max(climb.left_ulp, measure(candidate, alone).max_ulp)


def unequal(first: Array, second: Array) -> Array:
    """Where two outputs are not the same: by bits within one dtype (NaN equals NaN), by value and class across
    dtypes."""
    if first.dtype == second.dtype:
        same = bits(first) == bits(second)
    else:
        first, second = first.astype(np.float64), second.astype(np.float64)
        same = (first == second) & (np.signbit(first) == np.signbit(second))
    different: Array = ~(same | (np.isnan(first) & np.isnan(second)))
    return different
