"""One side's output against the oracle: how many elements are not correctly rounded, and how far the farthest is.

Only elements with other bits are looked at, and no frontier is kept: no limit is judged by this.
"""

from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.measure.element import Element
from rmsaudit.measure.measurement import Distance
from rmsaudit.measure.ulp import ulp_distance

BLOCK = 1 << 15  # elements whose float64 copies stay in the cache
_MOST = np.finfo(np.float64).max


@dataclass(frozen=True, kw_only=True)
class Apart:
    """How far two outputs are apart, in few numbers: `differing` elements, `mismatched` ones of those in class.

    max_rel_error: the largest |d| / |reference| over references that are not 0.
    """

    differing: int
    mismatched: int
    max_ulp: int
    max_abs_error: float
    max_rel_error: float


def apart(reference: Array, candidate: Array) -> Apart:
    """The reference is the denominator. [rows, width] both, of one dtype."""
    seen = _Seen(
        np.ascontiguousarray(reference).reshape(-1), np.ascontiguousarray(candidate).reshape(-1), relative=True
    )
    seen.look_at_all()
    return Apart(
        differing=seen.incorrect,
        mismatched=seen.mismatched,
        max_ulp=seen.max_ulp,
        max_abs_error=seen.max_abs_error,
        max_rel_error=seen.max_rel_error,
    )


def distance(output: Array, oracle: Array, *, case: str = "", first_row: int = 0) -> Distance:
    """How far one side lies from the oracle: [rows, width] both, of one dtype. Raises ValueError otherwise."""
    if output.dtype != oracle.dtype:
        raise ValueError(
            f"the output is {output.dtype} and the oracle {oracle.dtype}; round the oracle to the output dtype"
        )
    if output.shape != oracle.shape or output.ndim != 2:
        raise ValueError(f"both must have one shape [rows, width], not {output.shape} and {oracle.shape}")
    seen = _Seen(np.ascontiguousarray(oracle).reshape(-1), np.ascontiguousarray(output).reshape(-1))
    seen.look_at_all()
    return Distance(
        unit=word_of(output),
        elements=output.size,
        incorrect=seen.incorrect,
        mismatched=seen.mismatched,
        max_ulp=seen.max_ulp,
        max_abs_error=seen.max_abs_error,
        worst=seen.worst(output.shape[1], case, first_row),
    )


class _Seen:
    """Counts over what was looked at so far, both flat."""

    def __init__(self, oracle: Array, output: Array, *, relative: bool = False) -> None:
        self.oracle, self.output, self.relative = oracle, output, relative
        self.incorrect = self.mismatched = self.max_ulp = self.at = 0
        self.max_abs_error = self.max_rel_error = 0.0

    def look_at_all(self) -> None:
        """Takes in every element."""
        with np.errstate(all="ignore"):
            for start in range(0, self.output.size, BLOCK):
                self.look_at(slice(start, start + BLOCK))

    def look_at(self, block: slice) -> None:
        """Takes in the elements of a block; blocks come in order, so that the first of the farthest is kept."""
        oracle, output = self.oracle[block], self.output[block]
        at = np.flatnonzero(bits(oracle) != bits(output))
        if not at.size:
            return
        oracle, output = oracle[at], output[at]
        exact, found = oracle.astype(np.float64), output.astype(np.float64)
        finite = np.isfinite(exact) & np.isfinite(found)
        steps = ulp_distance(oracle, output)
        if not finite.all():
            strange = np.count_nonzero(~finite & ~(np.isnan(exact) & np.isnan(found)))
            self.mismatched += int(strange)
            self.incorrect += int(strange)
            at, steps, exact, found = at[finite], steps[finite], exact[finite], found[finite]
        if not at.size:
            return
        self.incorrect += int(np.count_nonzero(steps))  # -0 for +0 is no step
        error = np.minimum(np.abs(found - exact), _MOST)
        self.max_abs_error = max(self.max_abs_error, float(error.max()))
        if self.relative:
            quotients = error / np.abs(exact)
            largest = quotients[exact != 0].max(initial=0.0)
            self.max_rel_error = max(self.max_rel_error, float(min(largest, _MOST)))
        farthest = int(steps.argmax())
        if steps[farthest] > self.max_ulp:
            self.max_ulp, self.at = int(steps[farthest]), block.start + int(at[farthest])

    def worst(self, width: int, case: str, first_row: int) -> Element | None:
        """The first element that is max_ulp away; None where all are right."""
        if not self.max_ulp:
            return None
        row, column = divmod(self.at, width)
        return Element(
            case=case,
            row=first_row + row,
            column=column,
            reference=float(self.oracle[self.at]),
            candidate=float(self.output[self.at]),
        )
