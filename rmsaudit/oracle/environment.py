"""Is this IEEE arithmetic? The proofs of the oracle hold only where it is, so each pass asks before and after.

A library in the same thread can set the processor to flush subnormals to zero (torch.set_flush_denormal(True) does), or
to round in another direction; numpy then obeys without a word.
"""

from collections.abc import Callable

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.double_double import two_product
from rmsaudit.errors import NotIeee

_LANES = 16  # a full vector register of every width in use, so that the vector units are asked as well


def require_ieee(when: str) -> None:
    """Raises NotIeee unless arithmetic in this thread is IEEE 754: to nearest even, with subnormals."""
    broken = [says for says, holds in PROBES.items() if not holds()]
    if broken:
        raise NotIeee(
            f"the oracle needs IEEE 754 arithmetic, and {when} its pass this thread has something else:"
            f" {'; '.join(broken)}. A library changed it (torch.set_flush_denormal(True) does);"
            " run its code in a process of its own"
        )


def _filled(value: float) -> Array:
    return np.full(_LANES, value)


_ONE, _HALF, _HALF_ULP = _filled(1.0), _filled(0.5), _filled(2.0**-53)
_ULP_ABOVE_ONE, _30_BITS = _filled(1.0 + 2.0**-52), _filled(1.0 + 2.0**-30)
_SMALLEST_NORMAL, _SUBNORMAL_IN_32 = _filled(2.0**-1022), _filled(2.0**-149)
_SMALLEST = np.full(_LANES, 1, dtype=np.uint64).view(np.float64)  # by its pattern: a float could be flushed right here
_SMALLEST_32 = np.full(_LANES, 1, dtype=np.uint32).view(np.float32)
_ONE_32 = np.ones(_LANES, dtype=np.float32)


def _keeps_subnormals() -> bool:
    """As results, as operands, and as results of the cast to float32; all seen by their patterns."""
    halved = (_SMALLEST_NORMAL * _HALF).view(np.uint64) == 1 << 51
    kept = (_SMALLEST * _ONE).view(np.uint64) == 1
    narrow = ((_SMALLEST_32 * _ONE_32).view(np.uint32) == 1) & (
        _SUBNORMAL_IN_32.astype(np.float32).view(np.uint32) == 1
    )
    return bool((halved & kept & narrow).all())


def _rounds_to_nearest_even() -> bool:
    """Two ties, one that goes down and one that goes up, each at both signs."""
    down, down_below = _ONE + _HALF_ULP, -_ONE - _HALF_ULP
    up, up_below = _ULP_ABOVE_ONE + _HALF_ULP, -_ULP_ABOVE_ONE - _HALF_ULP
    ties = (down == 1.0) & (down_below == -1.0) & (up == 1.0 + 2.0**-51) & (up_below == -1.0 - 2.0**-51)
    return bool(ties.all())


def _products_leave_their_residual() -> bool:
    """(1 + 2^-30)² = 1 + 2^-29 + 2^-60: what is lost in the product must be found in the residual, and in float64."""
    product = two_product(_30_BITS, _30_BITS)
    return bool(((product.hi == 1.0 + 2.0**-29) & (product.lo == 2.0**-60)).all())


PROBES: dict[str, Callable[[], bool]] = {
    "subnormal numbers are flushed to zero": _keeps_subnormals,
    "results are not rounded to nearest even": _rounds_to_nearest_even,
    "a product's residual is not exact": _products_leave_their_residual,
}
