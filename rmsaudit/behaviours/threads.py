"""threads: gives the same bits with one thread and with all.

The input has 2^18 elements or more, so that a framework has a reason to share the work out.
"""

from rmsaudit.behaviours._asking import Inputs, Observed, answered, apart, broken, kept, not_observable
from rmsaudit.loaders import Side
from rmsaudit.loaders.python import PythonSide

CAUSE = "thread-dependence"
CLAIM = "returns other bits when it has another number of threads"
NEXT_STEP = "Fix the number of threads where results are compared, and state it beside them."
ELEMENTS = 1 << 18
ROWS = 64


def look(side: Side, inputs: Inputs) -> Observed:
    """Two calls, where the number of threads can be set."""
    if not isinstance(side, PythonSide):
        return not_observable("the number of threads can be set for kind python only")
    if side.threads is None:
        return not_observable("its framework does not tell how many threads it uses")
    if side.threads == 1:
        return not_observable("it has one thread on this machine")
    case = inputs.ordinary("threads", max(ROWS, ELEMENTS // inputs.spec.width))
    one = answered(side.call(case, threads=1))
    every = answered(side.call(case, threads=side.threads))
    told = apart(one.output, every.output)
    if told:
        return broken(f"1 thread and {side.threads}: {told}")
    return kept(f"1 thread and {side.threads}, {len(case.x)} rows: the same bits")
