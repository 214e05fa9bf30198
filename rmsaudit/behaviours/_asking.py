"""What every behaviour needs: inputs for one side alone, answers or the reason why there are none, and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.battery import Setup, cases
from rmsaudit.case import Case
from rmsaudit.loaders import Failed
from rmsaudit.measure.statistics import measure
from rmsaudit.semantics import NormSpec

Verdict = Literal["kept", "broken", "not_observable"]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Observed:
    """What was seen of one behaviour. says: one sentence with the numbers, or why nothing could be seen."""

    verdict: Verdict
    says: str


def kept(says: str) -> Observed:
    return Observed("kept", says)


def broken(says: str) -> Observed:
    return Observed("broken", says)


def not_observable(says: str) -> Observed:
    return Observed("not_observable", says)


class Unanswered(Exception):
    """A call that the behaviour cannot do without has failed; the text is the side's own reason."""


def answered(seen: Answer | Failed) -> Answer:
    """What a call returned. Raises Unanswered where it failed."""
    if isinstance(seen, Failed):
        raise Unanswered(seen.says)
    return seen


@dataclass(frozen=True, eq=False, kw_only=True)
class Inputs:
    """What one side is asked with: drawn as the battery's are, and representable in this side's dtypes.

    gain: the declared gains [width]; None: they are drawn.
    """

    spec: NormSpec
    gain: Array | None
    seed: int = 0

    def setup(self, rows: int) -> Setup:
        return Setup(reference=self.spec, candidate=self.spec, rows=rows, seed=self.seed, gain=self.gain)

    def ordinary(self, behaviour: str, rows: int) -> Case:
        """Bell-shaped rows of rms 1.15, as those of the category `ordinary`."""
        setup = self.setup(rows)
        return case_of(setup, behaviour, setup.draw(f"behaviour {behaviour}").bell(setup.lines(), setup.size))


def case_of(setup: Setup, behaviour: str, lines: Array) -> Case:
    """The one case that these lines [setup.lines(), setup.size] make."""
    return next(cases(setup, f"behaviour {behaviour}", lines))


def only(case: Case, rows: slice | Sequence[int]) -> Case:
    """The same input with these rows alone."""
    return replace(case, x=case.x[rows], residual=case.residual[rows])


def changed_rows(one: Array, other: Array) -> Array:
    """bool[rows]: where the bits are not the same. A NaN is as good as another."""
    if one.dtype != other.dtype:
        return np.ones(len(one), dtype=bool)
    same = (bits(one) == bits(other)) | (np.isnan(one) & np.isnan(other))
    changed: Array = ~same.all(axis=-1)
    return changed


def apart(one: Array, other: Array) -> str | None:
    """How two outputs of one shape differ, in words that follow a colon; None where they have the same bits."""
    if one.dtype != other.dtype:
        return f"one comes out as {word_of(one)}, the other as {word_of(other)}"
    changed = changed_rows(one, other)
    if not changed.any():
        return None
    found = measure(one, other)
    rows = f"{int(changed.sum())} of {len(one)} rows differ" if len(one) > 1 else "it differs"
    if found.nonfinite.mismatched:
        return f"{rows}, and {found.nonfinite.mismatched} values are NaN or infinite in one only"
    return f"{rows} by up to {found.max_ulp} ulp of {word_of(one)}" if found.max_ulp else f"{rows} in the sign of zeros"
