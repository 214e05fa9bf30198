"""The operands of some rows, as the later tiers want them: float64, two-dimensional, one group a row."""

from dataclasses import dataclass

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.oracle.formula import Formula
from rmsaudit.semantics.scope import statistic_size


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """x[rows, size]; the others broadcast against it and are None where the formula has no use for them.

    All are float64 and hold what is stored in the operands' own dtypes: the gain is without its offset.
    """

    x: Array
    gain: Array | None
    bias: Array | None
    residual: Array | None

    def entering(self, formula: Formula) -> int:
        """How many leading elements enter the statistic."""
        return statistic_size(self.x.shape[-1], formula)

    def operands_of_row(self, row: int, formula: Formula) -> tuple[Array, Array | None, Array | None]:
        """x, the gain if it is multiplied first, the residual: [size] each."""
        gain = self.gain if formula.gain_first else None
        whole = (self.x, gain, self.residual)
        return tuple(None if a is None else np.broadcast_to(a, self.x.shape)[row] for a in whole)  # type: ignore[return-value]
