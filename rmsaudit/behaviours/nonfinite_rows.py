"""nonfinite-rows: keeps a NaN or an infinity within its row; the other rows get the same bits as without it.

What becomes of the row itself is said, and judged by the category `nonfinite` beside the belief.
"""

from math import inf, nan

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.behaviours._asking import (
    Inputs,
    Observed,
    answered,
    broken,
    case_of,
    changed_rows,
    kept,
    not_observable,
)
from rmsaudit.case import Case
from rmsaudit.loaders import Side

CAUSE = "nonfinite-spread"
CLAIM = "lets a value that is not finite reach other rows"
NEXT_STEP = "Look for a sum or a largest value that is taken over more than one row, and for products with 0 as a mask."
ROWS = 16
PLACE = 5  # the row that gets it


def look(side: Side, inputs: Inputs) -> Observed:
    """Three calls: without, with a NaN, with an infinity."""
    if inputs.spec.axes != (-1,):
        return not_observable(f"the statistic is declared over axes {list(inputs.spec.axes)}: rows share it")
    finite = answered(side.observe(_case(inputs, 1.0))).output
    faults, remarks = [], []
    values = {"NaN": nan, "infinity": inf} if inputs.setup(ROWS).format.has_infinity else {"NaN": nan}
    for name, value in values.items():
        output = answered(side.observe(_case(inputs, value))).output
        others = np.flatnonzero(changed_rows(finite, output))
        others = others[others != PLACE]
        if others.size:
            faults.append(
                f"{name} in row {PLACE} changes {others.size} of the {ROWS - 1} others, first row {others[0]}"
            )
        remarks.append(f"{name} makes its own row {_became(output[PLACE])}")
    if faults:
        return broken("; ".join(faults + remarks))
    return kept(f"the other {ROWS - 1} rows keep their bits; {'; '.join(remarks)}")


def _case(inputs: Inputs, value: float) -> Case:
    """Ordinary rows, `value` in the middle of row PLACE; the residual where one is added."""
    setup = inputs.setup(ROWS)
    lines = setup.draw("behaviour nonfinite-rows").bell(setup.lines(), setup.size)
    lines[PLACE, setup.size // 2] = value
    return case_of(setup, "nonfinite-rows", lines)


def _became(row: Array) -> str:
    values = row.astype(np.float64)
    counts = {
        "NaN": int(np.isnan(values).sum()),
        "infinite": int(np.isinf(values).sum()),
        "zero": int((values == 0).sum()),
    }
    counts["finite"] = values.size - sum(counts.values())
    whole = next((word for word, count in counts.items() if count == values.size), None)
    return f"all {whole}" if whole else ", ".join(f"{count} {word}" for word, count in counts.items() if count)
