"""eps read from outputs that are there already, where everything else about the side is as it declares.

No question is asked: the rows are those of any cases, the battery's for one. Since their sums of squares are not exact,
each row's factor is widened by what the declared statistic can be off, which is little where the order is declared.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.inversion.bounds import Bound, bound
from rmsaudit.inversion.eps_reading import EpsReading, Rows, Rung, read_eps, together
from rmsaudit.inversion.interval import widen
from rmsaudit.inversion.roundoff import operation
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import at_width

DECLARED = Rung(0.0, 0.0, "as declared", reach="float64")


def read_declared(spec: NormSpec, observed: Iterable[tuple[Case, Array]]) -> EpsReading | None:
    """The placements and eps that explain the outputs of a side that is `spec` in everything but these.

    observed: cases of any width, with the side's output on each. None where no bound can be derived, or no row is
    within the range of the declared dtypes. No placement standing means that something else differs from `spec` too.
    """
    parts = []
    for case, output in observed:
        without_eps = at_width(replace(spec, eps_placement="none"), case.width)
        limits = "no such width" if without_eps is None else bound(without_eps, case)
        if isinstance(limits, Bound):
            parts.append(_rows(spec, limits, output))
    rows = together(parts) if parts else None
    return None if rows is None or not len(rows.count) else read_eps(rows, [DECLARED])


def _rows(spec: NormSpec, limits: Bound, output: Array) -> Rows:
    """The parts of which something is said, their factors widened by their own slack and the steps that eps adds."""
    given = limits.operands
    eps_steps = 4 * max(operation(dtype) for dtype in (spec.accumulate_dtype, spec.statistic_dtype, spec.inverse_dtype))
    finite = np.isfinite(output.astype(np.float64)).reshape(given.x.shape).all(axis=-1)
    said = np.array([not reason for reason in limits.void]) & (given.squares.lo > 0) & finite
    magnitudes = np.abs(given.x)
    rows = Rows(
        scale=widen(limits.factors(output), -np.expm1(-(limits.slack + eps_steps))),
        squares=given.squares,
        count=np.full(len(said), 1.0 if spec.statistic == "sum_square" else float(given.entering)),
        smallest=np.where(magnitudes == 0, np.inf, magnitudes).min(axis=-1),
    )
    return rows.at(np.flatnonzero(said))
