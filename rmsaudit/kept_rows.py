"""A few rows of every case, with what both sides returned for them: enough to ask questions of afterwards."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.evidence import steps
from rmsaudit.ladder import unequal

ROWS = 4
"""Rows of a case that differ and are asked about, at most: the one farthest apart, and some of every size."""


class Kept(NamedTuple):
    """Rows of a case with what both sides returned for them. numbers: of the rows within their case."""

    case: Case
    reference: Array
    candidate: Array
    numbers: tuple[int, ...]


def kept(case: Case, reference: Array, candidate: Array) -> Kept:
    """Some rows of a case that both sides were fed alike, the gains included."""
    rows = _choose(case, reference, candidate)
    few = replace(case, x=case.x[rows], residual=case.residual[rows])
    return Kept(few, reference[rows], candidate[rows], tuple(map(int, rows)))


def _choose(case: Case, reference: Array, candidate: Array) -> Array:
    """Rows that differ: the one farthest apart, the smallest, the largest, and one between."""
    differing = np.flatnonzero(unequal(reference, candidate).any(axis=-1))
    if len(differing) <= ROWS:
        return differing
    largest = np.abs(case.x[differing].astype(np.float64)).max(axis=-1, initial=0.0)
    by_size = differing[np.argsort(largest, kind="stable")]
    spread = by_size[np.linspace(0, len(by_size) - 1, ROWS - 1).round().astype(int)]
    farthest = np.abs(steps(reference[differing], candidate[differing])).max(axis=-1, initial=0.0).argmax()
    return np.unique([differing[farthest], *spread])
