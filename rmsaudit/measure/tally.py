"""The general path: any elements of two tensors, of any dtypes, looked at one by one in float64."""

import numpy as np

from rmsaudit.arrays import Array, word_of
from rmsaudit.measure.measurement import Classes
from rmsaudit.measure.prefilter import Prefilter
from rmsaudit.measure.ulp import coarser, ulp_distance

NOWHERE = -1  # the index of an element that has not been seen


class Tally:
    """Counts over the elements of two flat tensors of equal length that were shown so far; named by flat index.

    Every element that differs in value or in the sign of a zero, or is not finite on either side, is to be shown once;
    others may be shown and add nothing.
    """

    def __init__(self, reference: Array, candidate: Array) -> None:
        self.reference, self.candidate = reference, candidate
        self.unit = coarser(word_of(reference), word_of(candidate))
        self.differing = self.signed_zero = self.candidate_larger = 0
        self.reference_classes = self.candidate_classes = Classes()
        self.mismatched, self.mismatched_at = 0, NOWHERE
        self.max_ulp, self.max_ulp_at = 0, NOWHERE
        self.zero_reference, self.zero_error, self.zero_at = 0, 0.0, NOWHERE
        self.prefilter = Prefilter()

    def examine(self, at: Array, reference: Array, candidate: Array) -> None:
        """Takes in elements: flat index (int64, any order), and what both sides have there, in their own dtypes.

        To be used under np.errstate(all="ignore").
        """
        wide_reference, wide_candidate = reference.astype(np.float64), candidate.astype(np.float64)
        finite = np.isfinite(wide_reference) & np.isfinite(wide_candidate)
        if not finite.all():
            self._classify(at[~finite], wide_reference[~finite], wide_candidate[~finite])
        unequal = wide_reference != wide_candidate
        which = finite & unequal
        if not which.all():
            other_sign = np.signbit(wide_reference) != np.signbit(wide_candidate)
            self.signed_zero += int(np.count_nonzero(~unequal & other_sign))
            at, reference, candidate = at[which], reference[which], candidate[which]
            wide_reference, wide_candidate = wide_reference[which], wide_candidate[which]
        if at.size:
            self._count(at, ulp_distance(reference, candidate), wide_reference, wide_candidate)

    def offer_ulp(self, steps: int, at: int) -> None:
        """Remembers the first of the elements that are most steps apart."""
        if steps > self.max_ulp or (steps == self.max_ulp > 0 and at < self.max_ulp_at):
            self.max_ulp, self.max_ulp_at = steps, at

    def offer_errors(self, at: Array, reference: Array, candidate: Array) -> None:
        """Takes finite unequal elements over non-zero references (float64) into the prefilter."""
        self.prefilter.offer(_error(reference, candidate), np.abs(reference), at)

    def _count(self, at: Array, steps: Array, reference: Array, candidate: Array) -> None:
        self.differing += at.size
        self.candidate_larger += int(np.count_nonzero(np.abs(candidate) > np.abs(reference)))
        most = steps.max()
        self.offer_ulp(int(most), int(at[steps == most].min()))
        over_zero = reference == 0
        if over_zero.any():
            self._count_zeros(at[over_zero], np.abs(candidate[over_zero]))
            at, reference, candidate = at[~over_zero], reference[~over_zero], candidate[~over_zero]
        self.offer_errors(at, reference, candidate)

    def _count_zeros(self, at: Array, error: Array) -> None:
        self.zero_reference += at.size
        largest = float(error.max())
        first = int(at[error == largest].min())
        if largest > self.zero_error or (largest == self.zero_error and first < self.zero_at):
            self.zero_error, self.zero_at = largest, first

    def _classify(self, at: Array, reference: Array, candidate: Array) -> None:
        self.reference_classes += _classes(reference)
        self.candidate_classes += _classes(candidate)
        agree = (reference == candidate) | (np.isnan(reference) & np.isnan(candidate))
        mismatched = at[~agree]
        if mismatched.size:
            first = int(mismatched.min())
            self.mismatched_at = first if self.mismatched_at == NOWHERE else min(first, self.mismatched_at)
            self.mismatched += mismatched.size
            self.differing += mismatched.size


def _classes(values: Array) -> Classes:
    return Classes(
        nan=int(np.count_nonzero(np.isnan(values))),
        plus_inf=int(np.count_nonzero(values == np.inf)),
        minus_inf=int(np.count_nonzero(values == -np.inf)),
    )


def _error(reference: Array, candidate: Array) -> Array:
    """d as `Element.abs_error` defines it, over arrays."""
    error: Array = np.minimum(np.abs(candidate - reference), np.finfo(np.float64).max)
    return error
