"""One side's output against the oracle: how many elements are not correctly rounded, and how far the farthest is.

Only elements with other bits are looked at, and no frontier is kept: no limit is judged by this.
"""

import numpy as np

from rmsaudit.arrays import Array, bits, word_of
from rmsaudit.measure.element import Element
from rmsaudit.measure.measurement import Distance
from rmsaudit.measure.ulp import ulp_distance

BLOCK = 1 << 15  # elements whose float64 copies stay in the cache
_MOST = np.finfo(np.float64).max


def distance(output: Array, oracle: Array, *, case: str = "", first_row: int = 0) -> Distance:
    """How far one side lies from the oracle: [rows, width] both, of one dtype. Raises ValueError otherwise."""
    if output.dtype != oracle.dtype:
        raise ValueError(
            f"the output is {output.dtype} and the oracle {oracle.dtype}; round the oracle to the output dtype"
        )
    if output.shape != oracle.shape or output.ndim != 2:
        raise ValueError(f"both must have one shape [rows, width], not {output.shape} and {oracle.shape}")
    seen = _Seen(np.ascontiguousarray(oracle).reshape(-1), np.ascontiguousarray(output).reshape(-1))
    with np.errstate(all="ignore"):
        for start in range(0, output.size, BLOCK):
            seen.look_at(slice(start, start + BLOCK))
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

    def __init__(self, oracle: Array, output: Array) -> None:
        self.oracle, self.output = oracle, output
        self.incorrect = self.mismatched = self.max_ulp = self.at = 0
        self.max_abs_error = 0.0

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
        self.max_abs_error = max(self.max_abs_error, float(min(np.abs(found - exact).max(), _MOST)))
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
