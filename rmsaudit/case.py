"""What both sides are fed: one input made concrete, with the digest of its bytes."""

import hashlib
from dataclasses import dataclass

from rmsaudit.arrays import Array, word_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """One input of a category.

    x, residual: [rows, width]; gain, bias: [width]. All are representable in the dtypes of both sides, so that each side
    gets the same numbers. label: what sets this case apart within its category ("width 33"); may be empty.
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

    def digest(self) -> str:
        """sha256 over dtype, shape and bytes of every operand, little-endian."""
        seen = hashlib.sha256()
        for name in ("x", "gain", "bias", "residual"):
            array = getattr(self, name)
            seen.update(f"{name} {word_of(array)} {list(array.shape)}\n".encode())
            seen.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return seen.hexdigest()
