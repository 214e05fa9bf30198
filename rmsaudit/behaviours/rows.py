"""rows: gives a row the same bits alone and among 255, 256 or 257 rows.

Kernels choose their blocks by the number of rows, and so the order of a row's sum. Every second row has one element
that is 16 times as large, which makes a sum's order more visible. In an output of 16 bits it is seldom visible at all.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.behaviours._asking import Inputs, Observed, answered, apart, broken, case_of, kept, not_observable, only
from rmsaudit.case import Case
from rmsaudit.loaders import Failed, Side, only_rows

CAUSE = "row-dependence"
CLAIM = "gives a row other bits, or none, when other rows stand beside it"
NEXT_STEP = "Fix the block size and the order of the sum, or the same token gets another answer under another load."
COUNTS = (255, 256, 257)
SPIKE = 16  # at most 64 then, whose square float16 still holds


def look(side: Side, inputs: Inputs) -> Observed:
    """Five calls: three numbers of rows, and two rows alone."""
    if inputs.spec.axes != (-1,):
        return not_observable(f"the statistic is declared over axes {list(inputs.spec.axes)}: rows share it")
    case = _case(inputs)
    if fixed := only_rows(side):
        return not_observable(fixed)
    calls = {f"{count} rows": side.observe(only(case, slice(count))) for count in COUNTS}
    calls |= {f"row {row} alone": side.observe(only(case, slice(row, row + 1))) for row in (0, COUNTS[-1] - 1)}
    failed = {what: seen for what, seen in calls.items() if isinstance(seen, Failed)}
    if 0 < len(failed) < len(calls):
        given = ", ".join(what for what in calls if what not in failed)
        return broken(f"fails for {', '.join(failed)} ({next(iter(failed.values())).says}) and answers for {given}")
    outputs = [answered(seen).output for seen in calls.values()]
    among = dict(zip(COUNTS, outputs, strict=False))
    alone = dict(zip((0, COUNTS[-1] - 1), outputs[len(COUNTS) :], strict=True))
    found = [f"{what}: {told}" for what, one, other in _pairs(among, alone) if (told := apart(one, other))]
    if found:
        more = f" ({len(found) - 1} more comparisons differ)" if len(found) > 1 else ""
        return broken(found[0] + more)
    return kept(f"rows 0 and {COUNTS[-1] - 1} alone, and all rows among {_counts()}: the same bits")


def _pairs(among: dict[int, Array], alone: dict[int, Array]) -> Iterator[tuple[str, Array, Array]]:
    """What is compared: words, and two outputs of the same rows."""
    for row, output in alone.items():
        for count, outputs in among.items():
            if row < count:
                yield f"row {row} alone and among {count} rows", output, outputs[row : row + 1]
    for fewer, more in pairwise(COUNTS):
        yield f"the same {fewer} rows among {fewer} and {more}", among[fewer], among[more][:fewer]


def _case(inputs: Inputs) -> Case:
    setup = inputs.setup(COUNTS[-1])
    draw = setup.draw("behaviour rows")
    lines = draw.bell(setup.lines(), setup.size)
    places = draw.below(setup.size, len(lines))
    spiked = np.arange(0, len(lines), 2)
    lines[spiked, places[spiked]] *= SPIKE
    return case_of(setup, "rows", lines)


def _counts() -> str:
    return f"{', '.join(map(str, COUNTS[:-1]))} and {COUNTS[-1]} rows"
