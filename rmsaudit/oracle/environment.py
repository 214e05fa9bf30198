"""Is this IEEE arithmetic? The proofs of the oracle hold only where it is, so each pass asks before and after.

A library in the same thread can set the processor to flush subnormals to zero (torch.set_flush_denormal(True) does),
or to round in another direction; numpy then obeys without a word.
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


def _filled(value: float, dtype: type = np.float64) -> Array:
    return np.full(_LANES, value, dtype=dtype)


def _keeps_subnormals() -> bool:
    """Results (2^-1022 / 2) and operands (5e-324 · 1) alike, in both widths."""
    halved = _filled(2.0**-1022) * _filled(0.5)
    kept = _filled(5e-324) * _filled(1.0)
    narrow = _filled(1e-40, np.float32) * _filled(1.0, np.float32)
    cast = _filled(1e-40).astype(np.float32)
    return bool((halved == 2.0**-1023).all() and (kept != 0).all() and (narrow != 0).all() and (cast != 0).all())


def _rounds_to_nearest_even() -> bool:
    """Two ties, one that goes down and one that goes up, each at both signs."""
    half = _filled(2.0**-53)
    one, next_to_one = _filled(1.0), _filled(1.0 + 2.0**-52)
    down = (one + half == one) & (-one - half == -one)
    up = (next_to_one + half == 1.0 + 2.0**-51) & (-next_to_one - half == -1.0 - 2.0**-51)
    return bool((down & up).all())


def _products_leave_their_residual() -> bool:
    """(1 + 2^-30)² = 1 + 2^-29 + 2^-60: what is lost in the product must be found in the residual, and in float64."""
    product = two_product(_filled(1.0 + 2.0**-30), _filled(1.0 + 2.0**-30))
    return bool(((product.hi == 1.0 + 2.0**-29) & (product.lo == 2.0**-60)).all())


PROBES: dict[str, Callable[[], bool]] = {
    "subnormal numbers are flushed to zero": _keeps_subnormals,
    "results are not rounded to nearest even": _rounds_to_nearest_even,
    "a product's residual is not exact": _products_leave_their_residual,
}
