"""A black box under one eps and one width, and the answer for what is no RMSNorm."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rmsaudit.arrays import Array, bits, round_to
from rmsaudit.inversion.black_box import CannotAsk, Run
from rmsaudit.inversion.probes import Probes


@dataclass(frozen=True)
class NotThisFamily:
    """The box is no RMSNorm that these instruments can read. says: what was seen, with numbers; nothing beyond it."""

    says: str


@dataclass(frozen=True)
class Box:
    """run: the black box. eps: the one to ask for; None: its own. The dtypes are those that it is fed."""

    run: Run
    width: int
    input_dtype: str
    gain_dtype: str
    eps: float | None = None

    @cached_property
    def probes(self) -> Probes:
        return Probes(self.width, self.input_dtype)

    def ask(self, x: Array, gain: Array | float) -> Array:
        """The output on a copy of x[rows, width]; a number stands for a gain that is the same in every column.

        Raises CannotAsk, also where the output has not the shape of x.
        """
        gains = np.array(np.broadcast_to(np.asarray(gain, dtype=np.float64), (self.width,)))
        y = self.run(x.copy(), round_to(gains, self.gain_dtype), self.eps)
        if y.shape != x.shape:
            raise CannotAsk(f"it answers {list(x.shape)} with {list(y.shape)}")
        return np.ascontiguousarray(y)


def same(one: Array, other: Array) -> bool:
    """Whether two outputs are equal bit for bit, dtypes included."""
    return one.dtype == other.dtype and bool((bits(one) == bits(other)).all())
