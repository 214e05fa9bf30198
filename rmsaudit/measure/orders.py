"""How far apart orders of summation are: the part of a difference that nobody is to blame for."""

from dataclasses import replace
from typing import NamedTuple

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.measure.statistics import measure
from rmsaudit.semantics import NormSpec

OTHER_ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:8", "lanes:128", "exact")


class Spread(NamedTuple):
    """The largest distance, in ulp of the output dtype, and the most differing elements, between two orders."""

    ulp: int
    differing: int


def order_spread(spec: NormSpec, case: Case, believed: Array | None = None) -> Spread:
    """How far the declared order and any of OTHER_ORDERS are apart on `case`.

    believed: what the declared order gives, where that is known. `spec.width` must be `case.width`.
    """
    if believed is None:
        believed = emulate(spec, case)
    others = [measure(believed, emulate(replace(spec, accumulate_order=order), case)) for order in OTHER_ORDERS]
    return Spread(max(other.max_ulp for other in others), max(other.differing for other in others))
