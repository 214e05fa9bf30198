"""How far apart two outputs are, in few numbers, where no limit is judged by them: no frontier is kept, no place named.

distance   one side against the oracle, counted along the ordered values alone
apart      a candidate against a reference, errors included
"""

from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, round_to, word_of
from rmsaudit.formats import FORMATS
from rmsaudit.measure.measurement import Distance

BLOCK = 1 << 15  # elements whose copies stay in the cache
_MOST = np.finfo(np.float64).max


@dataclass(frozen=True, kw_only=True)
class Apart:
    """differing: elements with another value; −0 and +0 are one, NaN and NaN as well. mismatched: those of them where
    one is not finite, and the other is finite or of another kind. The rest is over the finite ones.

    max_rel_error: the largest d / |reference| over references that are not 0.
    """

    differing: int
    mismatched: int
    max_ulp: int
    max_abs_error: float
    max_rel_error: float


def distance(output: Array, oracle: Array) -> Distance:
    """How far one side lies from the oracle: [rows, width] both, of one dtype. Raises ValueError otherwise."""
    if output.dtype != oracle.dtype:
        raise ValueError(
            f"the output is {output.dtype} and the oracle {oracle.dtype}; round the oracle to the output dtype"
        )
    steps = _Steps(word_of(oracle))
    for one, other in _blocks(oracle, output):
        steps.add(bits(one), bits(other))
    return Distance(
        unit=word_of(output),
        elements=output.size,
        incorrect=steps.differing,
        mismatched=steps.mismatched,
        max_ulp=steps.largest,
    )


def apart(reference: Array, candidate: Array) -> Apart:
    """The candidate against the reference, which is the denominator: [rows, width] both, of one dtype."""
    steps = _Steps(word_of(reference))
    largest = steepest = 0.0
    with np.errstate(all="ignore"):
        for one, other in _blocks(reference, candidate):
            if steps.add(bits(one), bits(other)):
                error, quotient = _errors(one, other)
                largest, steepest = max(largest, error), max(steepest, quotient)
    return Apart(
        differing=steps.differing,
        mismatched=steps.mismatched,
        max_ulp=steps.largest,
        max_abs_error=largest,
        max_rel_error=steepest,
    )


def _blocks(one: Array, other: Array) -> "zip[tuple[Array, Array]]":
    """Flat parts of both, in step. Raises ValueError for two shapes."""
    if one.shape != other.shape:
        raise ValueError(f"both must have one shape [rows, width], not {one.shape} and {other.shape}")
    flat = (np.ascontiguousarray(side).reshape(-1) for side in (one, other))
    return zip(*([side[at : at + BLOCK] for at in range(0, side.size, BLOCK)] for side in flat), strict=True)


class _Steps:
    """Counts steps along the ordered values of one format, from bit patterns."""

    def __init__(self, word: str) -> None:
        unsigned = bits_of(word).type
        self.sign = unsigned(1 << (FORMATS[word].bits - 1))
        self.magnitude = unsigned(~self.sign)
        self.greatest = unsigned(bits(round_to(np.array([FORMATS[word].max]), word))[0])
        self.nan_above = unsigned(self.greatest + FORMATS[word].has_infinity)
        self.differing = self.mismatched = self.largest = 0

    def add(self, one: Array, other: Array) -> bool:
        """Takes in a block; whether any of its bits differ."""
        crossing = one ^ other
        if not crossing.any():
            return False
        first, second = one & self.magnitude, other & self.magnitude
        larger = np.maximum(first, second)
        top = larger.max()
        steps = np.subtract(larger, np.minimum(first, second), out=larger)
        if crossing.max() >= self.sign:
            steps = np.where(crossing >= self.sign, first + second, steps)
        if top > self.greatest:
            finite = (first <= self.greatest) & (second <= self.greatest)
            both_nan = (first > self.nan_above) & (second > self.nan_above)
            strange = int(np.count_nonzero(~finite & ~both_nan & (crossing != 0)))
            self.mismatched += strange
            self.differing += strange
            steps = steps[finite]
        self.differing += int(np.count_nonzero(steps))
        self.largest = max(self.largest, int(steps.max(initial=0)))
        return True


def _errors(reference: Array, candidate: Array) -> tuple[float, float]:
    """The largest d and the largest d / |reference| of a block, over what is finite on both sides."""
    exact, found = reference.astype(np.float64), candidate.astype(np.float64)
    error = np.abs(found - exact)
    if not np.isfinite(error).all():
        finite = np.isfinite(exact) & np.isfinite(found)
        error, exact = np.minimum(error[finite], _MOST), exact[finite]
    quotient = error / np.abs(exact)
    steepest = quotient.max(initial=0.0)
    if not np.isfinite(steepest):  # over a reference of 0, or beyond the range of float64
        steepest = quotient[exact != 0].max(initial=0.0)
    return float(error.max(initial=0.0)), float(min(steepest, _MOST))
