"""The first instrument: runs a declared RMSNorm, bit for bit up to reduction order."""

import numpy as np

from rmsaudit.arrays import Array, dtype_of
from rmsaudit.case import Case
from rmsaudit.semantics import NormSpec, evaluate
from rmsaudit.semantics.arithmetic import Arithmetic

BLOCK_ELEMENTS = 1 << 17  # 512 KiB in float32: few enough to stay in cache, enough that numpy's cost per call is small


def emulate(spec: NormSpec, case: Case) -> Array:
    """The output of `spec` on `case`: [rows, width] in spec.output_dtype. `spec.width` must be `case.width`.

    Overflow, division by zero and invalid operations follow IEEE 754 and raise nothing.
    """
    return emulate_arrays(spec, case.x, case.gain, case.bias, case.residual)


def emulate_arrays(spec: NormSpec, x: Array, gain: Array, bias: Array, residual: Array) -> Array:
    """As `emulate`, on bare arrays. Rows are worked on in blocks where they do not depend on each other."""
    arithmetic = Arithmetic(spec.subnormals, spec.rounding)
    rows, width = x.shape
    step = max(1, BLOCK_ELEMENTS // max(width, 1)) if spec.axes == (-1,) else max(rows, 1)
    out = np.empty(x.shape, dtype=dtype_of(spec.output_dtype))
    with np.errstate(all="ignore"):
        for start in range(0, rows, step):
            block = slice(start, start + step)
            out[block] = evaluate(spec, x[block], gain, bias, residual[block], arithmetic)
    return out
