"""The first instrument: runs a declared RMSNorm, bit for bit up to reduction order."""

from collections.abc import Iterator, Sequence

import numpy as np

from rmsaudit.arrays import Array, dtype_of
from rmsaudit.case import Case
from rmsaudit.semantics import NormSpec, evaluate, factor_of, finish, reduce
from rmsaudit.semantics.arithmetic import Arithmetic

BLOCK_ELEMENTS = 1 << 17  # 512 KiB in float32: few enough to stay in cache, enough that numpy's cost per call is small


def emulate(spec: NormSpec, case: Case) -> Array:
    """The output of `spec` on `case`: [rows, width] in spec.output_dtype. `spec.width` must be `case.width`.

    Overflow, division by zero and invalid operations follow IEEE 754 and raise nothing.
    """
    return emulate_arrays(spec, case.x, case.gain, case.bias, case.residual)


def emulate_each(spec: NormSpec, case: Case, gains: Sequence[Array]) -> Array:
    """The outputs of `spec` on `case` under each of several gains [width]: [gains, rows, width].

    As `emulate` under each of them, bit for bit; what does not depend on the gain is computed once.
    """
    out = np.empty((len(gains), *case.x.shape), dtype=dtype_of(spec.output_dtype))
    if spec.gain_position != "after_normalize":
        for number, gain in enumerate(gains):
            out[number] = emulate(spec, case.with_gain(gain))
        return out
    arithmetic = Arithmetic(spec.subnormals, spec.rounding)
    with np.errstate(all="ignore"):
        for block in _blocks(spec, case.x.shape):
            x = case.x[block]
            reduced = reduce(spec, x, case.residual[block], None, arithmetic)
            for number, gain in enumerate(gains):
                factor = factor_of(spec, gain, len(x), arithmetic)
                out[number, block] = finish(spec, reduced, factor, case.bias, x.shape, arithmetic)
    return out


def emulate_arrays(spec: NormSpec, x: Array, gain: Array, bias: Array, residual: Array) -> Array:
    """As `emulate`, on bare arrays. Rows are worked on in blocks where they do not depend on each other."""
    arithmetic = Arithmetic(spec.subnormals, spec.rounding)
    out = np.empty(x.shape, dtype=dtype_of(spec.output_dtype))
    with np.errstate(all="ignore"):
        for block in _blocks(spec, x.shape):
            out[block] = evaluate(spec, x[block], gain, bias, residual[block], arithmetic)
    return out


def _blocks(spec: NormSpec, shape: tuple[int, ...]) -> Iterator[slice]:
    rows, width = shape
    step = max(1, BLOCK_ELEMENTS // max(width, 1)) if spec.axes == (-1,) else max(rows, 1)
    return (slice(start, start + step) for start in range(0, rows, step))
