"""Some rows as the later tiers want them: float64 operands, two-dimensional, one group a row."""

from dataclasses import dataclass
from typing import overload

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle.formulas import Formula

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """x[rows, size]; the others broadcast against it and are None where the formula has no use for them.

    All are float64 and hold what is stored in the operands' own dtypes: the gain is without its offset.
    """

    x: Array
    gain: Array | None
    bias: Array | None
    residual: Array | None

    def finite(self, formula: Formula) -> "Rows":
        """The same with 0 for what is not finite (the largest float64 for an infinite x that a clamp will limit)."""
        x = self.x if formula.input_clamp is None else np.clip(self.x, -_LARGEST, _LARGEST)
        return Rows(x=_finite(x), gain=_finite(self.gain), bias=_finite(self.bias), residual=_finite(self.residual))

    def at(self, row: int, columns: slice | Array) -> "Rows":
        """Elements of one row, [1, columns] each."""
        parts = (self.x, self.gain, self.bias, self.residual)
        x, gain, bias, residual = (
            None if part is None else np.broadcast_to(part, self.x.shape)[row, columns][None] for part in parts
        )
        assert x is not None
        return Rows(x=x, gain=gain, bias=bias, residual=residual)


@overload
def _finite(values: None) -> None: ...
@overload
def _finite(values: Array) -> Array: ...
def _finite(values: Array | None) -> Array | None:
    return None if values is None else np.where(np.isfinite(values), values, 0.0)
