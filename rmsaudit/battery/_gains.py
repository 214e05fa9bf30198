"""The battery's own gains."""

import numpy as np

from rmsaudit.arrays import Array, dtype_of
from rmsaudit.battery._common import CommonFormat
from rmsaudit.battery._draw import Draw

_LOWEST, _BINADES = -2, 3  # [1/4, 2)


def distinct_gains(width: int, fmt: CommonFormat, draw: Draw) -> Array:
    """gain[width] of both signs, 1/4 <= |gain| < 2, in fmt.held; no two alike where the format has that many values.

    All values are numbered (sign, binade, mantissa: lowest digit first) and cut into `width` equal strata; one is taken
    from each, and the columns are shuffled. Where there are fewer values than columns, they are used equally often.
    """
    mantissas = 1 << (fmt.precision - 1)
    count = 2 * _BINADES * mantissas
    columns = np.arange(width)
    step, rest = divmod(count, width)
    number = columns * step + columns * rest // width  # ⌊column · count / width⌋, which would not fit int64
    number += (draw.raw(width) % np.uint64(max(step, 1))).astype(np.int64)
    number = number[np.argsort(draw.raw(width), kind="stable")]
    negative, binade, mantissa = number % 2, number // 2 % _BINADES, number // (2 * _BINADES)
    magnitude = np.ldexp(
        (mantissas + mantissa).astype(fmt.draft), (binade + _LOWEST - fmt.precision + 1).astype(np.int32)
    )
    signed: Array = np.where(negative, -magnitude, magnitude).astype(dtype_of(fmt.held))
    return signed
