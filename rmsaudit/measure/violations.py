"""How many elements a limit refuses, counted element by element."""

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.measure.limits import Limit, Point
from rmsaudit.measure.ulp import ulp_distance

_BLOCK = 1 << 16  # elements at a time
_DOUBT = 2.0**-50  # relative; three float64 roundings are at most 3 · 2^-53
_DOUBT_AT_ZERO = 2.0**-1073  # absolute; a product that underflows is off by at most 2^-1075


def count_violations(reference: Array, candidate: Array, limit: Limit) -> int:
    """How many elements violate `limit`; a non-finite value beside another always does.

    reference, candidate: of one shape, each in its own dtype. Raises ValueError for two shapes.
    """
    if reference.shape != candidate.shape:
        raise ValueError(f"the sides must have one shape, not {reference.shape} and {candidate.shape}")
    flat = reference.reshape(-1), candidate.reshape(-1)
    blocks = (slice(start, start + _BLOCK) for start in range(0, reference.size, _BLOCK))
    with np.errstate(over="ignore", invalid="ignore"):
        return sum(_count(flat[0][block], flat[1][block], limit) for block in blocks)


def _count(reference: Array, candidate: Array, limit: Limit) -> int:
    wide_reference, wide_candidate = reference.astype(np.float64), candidate.astype(np.float64)
    agree = (wide_reference == wide_candidate) | (np.isnan(wide_reference) & np.isnan(wide_candidate))
    finite = np.isfinite(wide_reference) & np.isfinite(wide_candidate)
    mismatched = int(np.count_nonzero(~finite & ~agree))
    which = finite & ~agree
    match limit.rule:
        case "exact":
            other_sign = np.signbit(wide_reference) != np.signbit(wide_candidate)
            return mismatched + int(np.count_nonzero(which | (other_sign & (wide_reference == wide_candidate))))
        case "ulp":
            steps = ulp_distance(reference[which], candidate[which])
            return mismatched + int(np.count_nonzero(steps > limit.max_ulp))
    magnitude = np.abs(wide_reference[which])
    error = np.minimum(np.abs(wide_candidate[which] - wide_reference[which]), np.finfo(np.float64).max)
    return mismatched + _beyond_bound(error, magnitude, limit)


def _beyond_bound(error: Array, magnitude: Array, limit: Limit) -> int:
    """float64 decides, except within a few roundings of the bound, where rational numbers do."""
    relative = limit.rtol * magnitude
    bound = limit.atol + relative if limit.rule == "sum" else np.maximum(limit.atol, relative)
    slack = bound * _DOUBT + _DOUBT_AT_ZERO
    certain = error > bound + slack
    near = ~certain & (error > bound - slack)
    pairs, counts = np.unique(np.stack([magnitude[near], error[near]]), axis=1, return_counts=True)
    refused = [not limit.allows(Point(*pair)) for pair in pairs.T.tolist()]
    return int(np.count_nonzero(certain)) + int(counts[refused].sum())
