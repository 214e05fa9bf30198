"""views: gives the same values for an input that is transposed, strided or broadcast in memory, up to the sum's order.

Frameworks sum along another axis of the memory then, and so in another order: what no more than that explains is kept.
A layout that is refused is no fault, and said; one that the process does not survive is.
"""

from dataclasses import replace

from rmsaudit.arrays import Array, word_of
from rmsaudit.behaviours._asking import Inputs, Observed, Verdict, answered, apart, broken, kept, not_observable, only
from rmsaudit.case import Case
from rmsaudit.formats import coarser, opmath
from rmsaudit.loaders import Failed, Side
from rmsaudit.loaders.python import Layout, PythonSide, Returned
from rmsaudit.measure.orders import order_spread
from rmsaudit.measure.statistics import measure
from rmsaudit.semantics import NormSpec

CAUSE = "layout-dependence"
CLAIM = "gives another answer for the same values in another memory layout"
NEXT_STEP = "Read the strides, or refuse an input that is not contiguous."
ROWS = 17


def look(side: Side, inputs: Inputs) -> Observed:
    """One call for each layout, and one or two in C order to compare with."""
    if not isinstance(side, PythonSide):
        return not_observable("only kind python is handed memory, which can be laid out in several ways")
    case = inputs.ordinary("views", ROWS)
    plain = answered(side.call(case)).output
    layouts = [layout for layout in side.layouts if layout != "contiguous"]
    if not layouts:
        return not_observable("arrays of its framework are always contiguous")
    granted = _granted_ulp(side.spec, case, word_of(plain))
    seen: dict[Layout, Observed] = {}
    for layout in layouts:
        fed = only(case, [0] * ROWS) if layout == "broadcast" else case
        base = answered(side.call(fed)).output if layout == "broadcast" else plain
        seen[layout] = _compared(base, side.call(fed, layout=layout), granted)
    verdicts = {one.verdict for one in seen.values()}
    verdict: Verdict = next(word for word in ("broken", "kept", "not_observable") if word in verdicts)
    return Observed(verdict, "; ".join(f"{', '.join(names)}: {says}" for says, names in _by_sentence(seen).items()))


def _compared(base: Array, seen: Returned | Failed, granted: int) -> Observed:
    if isinstance(seen, Failed):
        return broken(f"fatal ({seen.says})") if seen.died else not_observable(f"refused ({seen.says})")
    told = apart(base, seen.output)
    if told is None:
        return kept("the same bits")
    if base.dtype == seen.output.dtype and _within(granted, base, seen.output):
        return kept(f"{told}, no more than another order of the sum gives")
    return broken(told)


def _within(granted: int, one: Array, other: Array) -> bool:
    found = measure(one, other)
    return not found.nonfinite.mismatched and found.max_ulp <= granted


def _granted_ulp(spec: NormSpec, case: Case, returned: str) -> int:
    """How far two orders of the sum may be apart, in ulp of the dtype that is really returned; at least one.

    Either may be as far from the declared order as orders are apart. A side that sums more coarsely than declared does
    not depend on the layout for that: a sum in float32 is granted to every output but float64.
    """
    coarse = coarser(spec.accumulate_dtype, opmath(returned))
    return max(1, 2 * order_spread(replace(spec, accumulate_dtype=coarse, output_dtype=returned), case).ulp)


def _by_sentence(seen: dict[Layout, Observed]) -> dict[str, list[Layout]]:
    """The layouts of which the same is to be said; broken ones first."""
    said: dict[str, list[Layout]] = {}
    for layout, one in sorted(seen.items(), key=lambda item: item[1].verdict != "broken"):
        said.setdefault(one.says, []).append(layout)
    return said
