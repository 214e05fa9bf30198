"""The general path: any elements of two tensors, of any dtypes, looked at one by one in float64."""

import numpy as np

from rmsaudit.arrays import Array, word_of
from rmsaudit.measure.measurement import Classes
from rmsaudit.measure.prefilter import Prefilter
from rmsaudit.measure.ulp import coarser, ulp_distance

NOWHERE = -1  # the index of an element that has not been seen


class Tally:
    """Counts over the elements seen so far of two flat tensors of equal length; elements are named by flat index.

    The caller shows every element that differs in value, in the sign of a zero, or is not finite, once; others may be shown
    too and add nothing.
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
        """Takes in the elements at flat index `at` (int64, any order), which both sides have as given, in their own dtypes.

        To be used under np.errstate(all="ignore").
        """
        wide_reference, wide_candidate = reference.astype(np.float64), candidate.astype(np.float64)
        finite = np.isfinite(wide_reference) & np.isfinite(wide_candidate)
        if not finite.all():
            self._classify(at[~finite], wide_reference[~finite], wide_candidate[~finite])
        unequal = wide_reference != wide_candidate
        self.signed_zero += int(np.count_nonzero(~unequal & (np.signbit(wide_reference) != np.signbit(wide_candidate))))
        which = finite & unequal
        if which.any():
            steps = ulp_distance(reference[which], candidate[which])
            self._count(at[which], steps, wide_reference[which], wide_candidate[which])

    def offer_ulp(self, steps: int, index: int) -> None:
        """Remembers the first of the elements that are most steps apart."""
        if steps > self.max_ulp or (steps == self.max_ulp > 0 and index < self.max_ulp_at):
            self.max_ulp, self.max_ulp_at = steps, index

    def offer_errors(self, index: Array, reference: Array, candidate: Array) -> None:
        """Takes finite unequal elements over non-zero references (float64) into the prefilter."""
        self.prefilter.offer(_error(reference, candidate), np.abs(reference), index)

    def _count(self, index: Array, steps: Array, reference: Array, candidate: Array) -> None:
        self.differing += index.size
        self.candidate_larger += int(np.count_nonzero(np.abs(candidate) > np.abs(reference)))
        largest = steps.max()
        self.offer_ulp(int(largest), int(index[steps == largest].min()))
        over_zero = reference == 0
        if over_zero.any():
            self._count_zeros(index[over_zero], np.abs(candidate[over_zero]))
            index, reference, candidate = index[~over_zero], reference[~over_zero], candidate[~over_zero]
        self.offer_errors(index, reference, candidate)

    def _count_zeros(self, index: Array, error: Array) -> None:
        self.zero_reference += index.size
        largest = float(error.max())
        at = int(index[error == largest].min())
        if largest > self.zero_error or (largest == self.zero_error and at < self.zero_at):
            self.zero_error, self.zero_at = largest, at

    def _classify(self, index: Array, reference: Array, candidate: Array) -> None:
        self.reference_classes += _classes(reference)
        self.candidate_classes += _classes(candidate)
        agree = (reference == candidate) | (np.isnan(reference) & np.isnan(candidate))
        mismatched = index[~agree]
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
    return np.minimum(np.abs(candidate - reference), np.finfo(np.float64).max)
