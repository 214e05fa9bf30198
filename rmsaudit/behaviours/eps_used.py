"""eps-used: moves its output with eps as its `norm:` says, from 1e-3 down to 1e-12.

Rows lie at the mean squares where each of these eps acts as strongly as the row, and at a sixteenth of that. What is
compared is by which factor a row moves from one eps to the next, so that a gain or a cast that is off does not matter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import frexp, nan

import numpy as np

from rmsaudit.arrays import Array, bits
from rmsaudit.battery import Setup, cases
from rmsaudit.behaviours._asking import Inputs, Observed, answered, broken, kept, not_observable
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Side
from rmsaudit.loaders.command import CommandSide
from rmsaudit.loaders.python import PythonSide
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import knee
from rmsaudit.semantics.scope import group_size, statistic_size

CAUSE = "eps-ignored"
CLAIM = "does not use eps as its `norm:` says"
NEXT_STEP = (
    "Follow eps from the call to the root: a constant, a lower bound, a dtype in which it is 0, or another placement."
)
SWEEP = (1e-3, 1e-6, 1e-8, 1e-12)
ROWS = 8
MEAN_SQUARE = 7 / 3  # of `Draw.binade`
LEAST_MOVE = 0.1  # log2 of a factor, 7 %: a few ulp of bfloat16


def look(side: Side, inputs: Inputs) -> Observed:
    """One call for each eps of SWEEP."""
    if not isinstance(side, PythonSide | CommandSide):
        return not_observable("its eps stands in the graph and cannot be varied from outside")
    if isinstance(side, PythonSide) and not side.takes_eps:
        return not_observable(f"{side.notes.called} is not given eps")
    fed = list(_cases(inputs.setup(ROWS)))
    asked = _Swept.of([[_output(side, case, eps) for case in fed] for eps in SWEEP])
    believed = _believed(side.spec, fed)
    none = _believed(replace(side.spec, eps_placement="none"), fed)
    return _judged(asked, believed, none, _tolerance(side.spec))


def _output(side: PythonSide | CommandSide, case: Case, eps: float) -> Array:
    if isinstance(side, PythonSide):
        return answered(side.call(case, eps=eps)).output
    return answered(side.call(case, eps=eps)).output


@dataclass(frozen=True, eq=False)
class _Swept:
    """Outputs under each eps of SWEEP. same: for each step to the next eps, whether all bits stayed.

    moves: float64[steps, rows], log2 of the median factor by which a row grew; NaN where nothing can be divided.
    """

    outputs: tuple[Array, ...]

    @classmethod
    def of(cls, outputs: Sequence[Sequence[Array]]) -> "_Swept":
        return cls(tuple(np.concatenate(parts) for parts in outputs))

    @property
    def same(self) -> list[bool]:
        return [np.array_equal(bits(one), bits(other)) for one, other in pairwise(self.outputs)]

    @property
    def moves(self) -> Array:
        return np.array([_moved(one, other) for one, other in pairwise(self.outputs)])


def _moved(one: Array, other: Array) -> list[float]:
    before, after = (np.abs(output.astype(np.float64)) for output in (one, other))
    usable = np.isfinite(before) & np.isfinite(after) & (before > 0) & (after > 0)
    factors = np.log2(after, where=usable, out=np.zeros_like(after))
    factors -= np.log2(before, where=usable, out=np.zeros_like(before))
    return [float(np.median(row[use])) if use.any() else nan for row, use in zip(factors, usable, strict=True)]


def _judged(asked: _Swept, believed: _Swept, none: _Swept, tolerance: float) -> Observed:
    acts = [bool(np.nanmax(np.abs(row), initial=0) > 2 * tolerance) for row in believed.moves]
    silent = [index for index, same in enumerate(asked.same) if same and acts[index]]
    if silent and len(silent) == sum(acts):
        return broken(f"eps has no effect: the same bits under {_listed(SWEEP)}; {_believed_move(believed, silent)}")
    if silent:
        return broken(
            f"eps below {SWEEP[silent[0]]:g} has no effect ({_where_to(asked, none, tolerance)});"
            f" {_believed_move(believed, silent)}"
        )
    off = np.abs(asked.moves - believed.moves)
    if np.nanmax(off, initial=0) > tolerance:
        return broken(_wrongly_moved(asked, believed, np.unravel_index(np.nanargmax(off), off.shape)))
    if not any(acts):
        return kept(f"no effect under {_listed(SWEEP)}, as believed")
    steps = [step for step, act in zip(_steps(), acts, strict=True) if act]
    return kept(f"moves as believed ({_listed_steps(steps)}), by a factor of up to {_largest(asked.moves):.3g}")


def _where_to(asked: _Swept, none: _Swept, tolerance: float) -> str:
    """What became of an eps without effect: rows as without any, or not."""
    (as_without,) = np.array([_moved(asked.outputs[-1], none.outputs[-1])])
    return "it becomes 0" if np.nanmax(np.abs(as_without), initial=0) <= tolerance else "it is clamped"


def _believed_move(believed: _Swept, steps: list[int]) -> str:
    step = max(steps, key=lambda index: float(np.nanmax(np.abs(believed.moves[index]))))
    before, after = list(_steps())[step]
    factor = _largest(believed.moves[step])
    return f"as believed, a row would move by up to a factor {factor:.3g} from {before:g} to {after:g}"


def _wrongly_moved(asked: _Swept, believed: _Swept, place: tuple[np.intp, ...]) -> str:
    before, after = list(_steps())[place[0]]
    seen, expected = (float(2 ** swept.moves[place]) for swept in (asked, believed))
    return f"from eps {before:g} to {after:g} a row grows by a factor {seen:.3g}; as believed, by {expected:.3g}"


def _largest(moves: Array) -> float:
    return float(2 ** np.nanmax(np.abs(moves)))


def _steps() -> Iterator[tuple[float, float]]:
    return pairwise(SWEEP)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _listed_steps(steps: list[tuple[float, float]]) -> str:
    return ", ".join(f"{before:g} to {after:g}" for before, after in steps)


def _believed(spec: NormSpec, fed: list[Case]) -> _Swept:
    return _Swept.of([[emulate(replace(spec, eps=eps), case) for case in fed] for eps in SWEEP])


def _tolerance(spec: NormSpec) -> float:
    """log2; four ulp of the output where that is more than LEAST_MOVE, as in float8."""
    return max(LEAST_MOVE, 2.0 ** (3 - FORMATS[spec.output_dtype].precision))


def _cases(setup: Setup) -> Iterator[Case]:
    """Rows ±[1, 2] · 2^e, e at the knee of each eps and two below, within what the input holds."""
    exponents = [exponent - below for exponent in _centres(setup) for below in (2, 0)]
    count = setup.lines(at_least=len(exponents))
    lines = setup.draw("behaviour eps-used").binade(count, setup.size)
    held = np.clip(exponents, setup.format.smallest_exponent, setup.format.max_exponent - 1)
    lines *= np.ldexp(np.ones(count, lines.dtype), np.resize(held, count).astype(np.int32))[:, None]
    yield from cases(setup, "behaviour eps-used", lines)


def _centres(setup: Setup) -> list[int]:
    """For each eps the exponent of x at which it acts as strongly as the row; that of √eps where it never does."""
    spec = setup.reference
    size = statistic_size(group_size(setup.rows, spec), spec)
    knees = [knee(replace(spec, eps=eps), size, spec.statistic == "sum_square") or eps for eps in SWEEP]
    return [frexp(at / MEAN_SQUARE)[1] // 2 for at in knees]
