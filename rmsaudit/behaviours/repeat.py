"""repeat: gives the same bits for the same call, whatever was called in between.

Among the rows are zeros and the smallest values; a call with other values stands between two of three equal calls, so
that what an output buffer still holds of it shows.
"""

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.behaviours._asking import Inputs, Observed, answered, apart, broken, case_of, kept, only
from rmsaudit.case import Case
from rmsaudit.loaders import Side

CAUSE = "not-repeatable"
CLAIM = "returns other bits when the same call is made again"
NEXT_STEP = (
    "Look for memory that is read before it is written, and for races; until then no comparison with it means much."
)
ROWS = 16


def look(side: Side, inputs: Inputs) -> Observed:
    """Four calls, three of them equal."""
    case = _case(inputs)
    other = only(case, slice(None, None, -1))
    first = _output(side, case)
    answered(side.observe(other))
    again = [_output(side, case) for _ in range(2)]
    found = [told for output in again if (told := apart(first, output))]
    if found:
        return broken(f"{len(found)} of 2 repeated calls differ from the first: {found[0]}")
    return kept(f"three equal calls with {ROWS} rows, another one between them: the same bits")


def _case(inputs: Inputs) -> Case:
    setup = inputs.setup(ROWS)
    lines = setup.draw("behaviour repeat").bell(setup.lines(), setup.size)
    lines[0] = 0
    if len(lines) > 1:
        lines[1] = np.ldexp(np.sign(lines[1]), setup.format.smallest_exponent)
    return case_of(setup, "repeat", lines)


def _output(side: Side, case: Case) -> Array:
    return answered(side.observe(case)).output
