"""What both sides are fed: one input made concrete, with the digest of its bytes."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from rmsaudit.arrays import Array, bits, word_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One input of a category.

    x, residual: [rows, width]; gain, bias: [width]. All are representable in the dtypes of both sides, so that each
    side gets the same numbers. label: what sets this case apart within its category ("width 33"); may be empty.
    """

    category: str
    label: str
    x: Array
    gain: Array
    bias: Array
    residual: Array

    @property
    def width(self) -> int:
        return int(self.x.shape[-1])

    def with_gain(self, gain: Array) -> "Case":
        """The same input under other gains."""
        return replace(self, gain=gain)

    def digest(self) -> str:
        """sha256 over dtype, shape and bytes of every operand, little-endian.

        An operand of nothing but +0 is hashed as the word zeros: that of a bias or residual which no side reads.
        """
        seen = hashlib.sha256()
        for name in ("x", "gain", "bias", "residual"):
            array = getattr(self, name)
            patterns = bits(array)
            zeros = not patterns.any()
            seen.update(f"{name} {word_of(array)} {list(array.shape)}{' zeros' if zeros else ''}\n".encode())
            if not zeros:
                little_endian = patterns.dtype.newbyteorder("<")
                seen.update(np.ascontiguousarray(patterns, dtype=little_endian).data)
        return seen.hexdigest()
