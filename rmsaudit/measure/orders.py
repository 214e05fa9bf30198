"""How far apart orders of summation are: the part of a difference that nobody is to blame for."""

from dataclasses import replace

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.measure.statistics import measure
from rmsaudit.semantics import NormSpec

OTHER_ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:8", "lanes:128", "exact")


def order_ulp(spec: NormSpec, case: Case, believed: Array | None = None) -> int:
    """The largest distance, in ulp of the output dtype, between the declared order and any of OTHER_ORDERS.

    believed: what the declared order gives on `case`, where that is known. `spec.width` must be `case.width`.
    """
    if believed is None:
        believed = emulate(spec, case)
    others = (emulate(replace(spec, accumulate_order=order), case) for order in OTHER_ORDERS)
    return max(measure(believed, other).max_ulp for other in others)
