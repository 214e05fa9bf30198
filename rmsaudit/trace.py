"""One row, step by step and side by side: what each side has at every intermediate, and where they part.

A side that runs code shows nothing but its output; beside it stand the steps of what it is believed to be.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from rmsaudit.arrays import Array, ordered, word_of
from rmsaudit.case import Case
from rmsaudit.errors import CouldNotRun
from rmsaudit.ladder import unequal
from rmsaudit.loaders import Failed, Side
from rmsaudit.loaders.spec import Declared
from rmsaudit.oracle import oracle
from rmsaudit.oracle.steps import nearest, watch_exactly
from rmsaudit.semantics import NormSpec, evaluate, scope
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.resolve import fitted
from rmsaudit.semantics.steps import STEPS

RETURNED = "returned"
"""The step after the last: what a side that runs code gave back; of a declared side it is the output."""

_EPS_ACTS_AT = {
    "inside_sum": "sum and eps",
    "floor_sum": "sum and eps",
    "inside_sqrt": "mean square and eps",
    "floor_norm": "norm and eps",
    "outside_sqrt": "root and eps",
    "floor_rms": "root and eps",
}


@dataclass(frozen=True, kw_only=True)
class Value:
    """A number as a step has it. dtype: None for an exact value, which is shown as the float64 next to it."""

    value: float
    dtype: str | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One intermediate at the traced column; None where a side does not form it.

    differing: columns of the row in which reference and candidate differ. departs: the first such step.
    """

    name: str
    reference: Value | None
    candidate: Value | None
    oracle: Value | None
    differing: int = 0
    departs: bool = False


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The steps of one element and of the row that it stands in. Rows count within the case `label`."""

    category: str
    label: str
    row: int
    column: int
    width: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which element to trace; whatever is None is chosen: where the outputs are farthest apart."""

    label: str | None = None
    row: int | None = None
    column: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Fed:
    """One case as each side gets it; they may bring their own gains."""

    reference: Case
    candidate: Case


def trace(reference: Side, candidate: Side | None, fed: Iterable[Fed], at: Place) -> Trace:
    """The trace of one element of the cases `fed`; without a candidate, the reference alone.

    Raises CouldNotRun where a side returns nothing, and ValueError for a place that the cases do not have.
    """
    sides = [reference] if candidate is None else [reference, candidate]
    found = max((_Run(sides, one, at) for one in fed if at.label in (None, one.reference.label)), default=None)
    if found is None:
        raise ValueError(f"the category has no case {at.label!r}")
    return found.trace()


class _Run:
    """The outputs of one case, and the element of it that is to be traced. Ordered by how far the outputs part."""

    def __init__(self, sides: list[Side], fed: Fed, at: Place) -> None:
        self.case = fed.reference
        self.parts = list(zip(sides, (fed.reference, fed.candidate), strict=False))
        self.returned = [_returned(side, case) for side, case in self.parts]
        rows, width = self.case.x.shape
        for what, index, count in (("row", at.row, rows), ("column", at.column, width)):
            if index is not None and index >= count:
                raise ValueError(f"there is no {what} {index}: the case has {count}, and they count from 0")
        apart = _apart(self.returned[0], self.returned[-1])
        chosen = apart if at.row is None else apart[at.row : at.row + 1]
        self.farthest = float(chosen.max())
        row, column = np.unravel_index(int(chosen.argmax()), chosen.shape)
        self.row = int(row) if at.row is None else at.row
        self.column = int(column) if at.column is None else at.column

    def __lt__(self, other: "_Run") -> bool:
        return self.farthest < other.farthest

    def trace(self) -> Trace:
        lines = [_steps_of(side, case, self.row) for side, case in self.parts]
        if any(not isinstance(side, Declared) for side, _ in self.parts):
            for line, output in zip(lines, self.returned, strict=True):
                line[RETURNED] = output[self.row]
        exact = self._exact()
        names = _worth_showing([side.spec for side, _ in self.parts], lines)
        steps = [self._step(name, lines, exact) for name in names]
        return Trace(
            category=self.case.category,
            label=self.case.label,
            row=self.row,
            column=self.column,
            width=self.case.width,
            steps=_marked(steps),
        )

    def _step(self, name: str, lines: list[dict[str, Array]], exact: dict[str, Array]) -> Step:
        values = [self._value(line.get(name)) for line in lines]
        differing = 0
        if len(lines) == 2 and name in lines[0] and name in lines[1]:
            differing = int(np.count_nonzero(unequal(lines[0][name], lines[1][name])))
        oracle_value = self._value(exact.get(name))
        if oracle_value is not None and name not in ("output", RETURNED):
            oracle_value = replace(oracle_value, dtype=None)
        return Step(
            name=name,
            reference=values[0],
            candidate=values[1] if len(values) == 2 else None,
            oracle=oracle_value,
            differing=differing,
        )

    def _value(self, line: Array | None) -> Value | None:
        return None if line is None else Value(value=float(line[self.column]), dtype=word_of(line))

    def _exact(self) -> dict[str, Array]:
        """The lines without rounding, in float64; of the output, what the oracle answers in the output dtype."""
        spec = fitted(self.parts[0][0].spec, self.case.width)
        case, row = _only(self.case, spec, self.row)
        seen: dict[str, Array] = {}
        watch_exactly(spec, case, lambda name, value: seen.update({name: _line(name, nearest(value), spec, case, row)}))
        answered = oracle(spec, case, dtype=word_of(self.returned[0])).values[row]
        return {**seen, "output": answered, RETURNED: answered}


def _returned(side: Side, case: Case) -> Array:
    seen = side.observe(case)
    if isinstance(seen, Failed):
        raise CouldNotRun(f"{case.label or case.category}: {seen.says}")
    return seen.output


def _apart(first: Array, second: Array) -> Array:
    """How far two outputs are apart: steps of the dtype where both have the same, else the difference."""
    different = unequal(first, second)
    if first.dtype == second.dtype:
        far = np.abs(ordered(first) - ordered(second)).astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):
            far = np.abs(first.astype(np.float64) - second.astype(np.float64))
    far = np.where(np.isnan(far) | np.isnan(first.astype(np.float64)), np.inf, far)
    found: Array = np.where(different, far, 0.0)
    return found


def _steps_of(side: Side, case: Case, row: int) -> dict[str, Array]:
    """The steps of a side's spec by name, each as one line [width] in the step's own dtype."""
    spec = fitted(side.spec, case.width)
    case, row = _only(case, spec, row)
    seen: dict[str, Array] = {}

    def watch(name: str, value: Array) -> None:
        seen[name] = _line(name, value, spec, case, row)

    with np.errstate(all="ignore"):
        arithmetic = Arithmetic(spec.subnormals, spec.rounding)
        evaluate(spec, case.x, case.gain, case.bias, case.residual, arithmetic, watch)
    return seen


def _only(case: Case, spec: NormSpec, row: int) -> tuple[Case, int]:
    """The case without the rows that have no part in `row`, and where that is then."""
    if spec.axes != (-1,):
        return case, row
    line = slice(row, row + 1)
    return replace(case, x=case.x[line], residual=case.residual[line]), 0


def _line(name: str, value: Array, spec: NormSpec, case: Case, row: int) -> Array:
    """A step as one number a column: a row's own number is repeated, and a square that does not count is 0."""
    shape = scope.unfold(case.x, spec).shape
    if name == "squares" and value.shape[-1] < shape[-1]:
        left_out = np.zeros((*value.shape[:-1], shape[-1] - value.shape[-1]), dtype=value.dtype)
        value = np.concatenate([value, left_out], axis=-1)
    line: Array = scope.fold(np.broadcast_to(value, shape), case.x.shape, spec)[row]
    return line


def _worth_showing(specs: list[NormSpec], lines: list[dict[str, Array]]) -> list[str]:
    """The steps that a side forms, without the places where eps could act and does on no side."""
    acting = {_EPS_ACTS_AT.get(spec.eps_placement) for spec in specs}
    return [
        name
        for name in (*STEPS, RETURNED)
        if any(name in line for line in lines) and (not name.endswith("and eps") or name in acting)
    ]


def _marked(steps: list[Step]) -> tuple[Step, ...]:
    first = next((step.name for step in steps if step.differing), None)
    return tuple(replace(step, departs=step.name == first) for step in steps)
