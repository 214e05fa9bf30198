"""The gain, or the gain plus its offset, is rounded to a narrow dtype before it multiplies.

In bfloat16, 1 + 0.00390625 is 1: small gains disappear beside the offset, and gains above 8 lose their last bits.
The error is fixed for each column, so it does not average out over rows or layers.

How it shows: about a quarter of 16-bit outputs differ by one ulp, in the same columns with the same sign in every
row.

What to check: the dtype of the stored gain, of the addition, and whether the gain is cast to the input's dtype
first.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("gain_cast", "gain_offset_dtype", "gain_dtype")
NEXT_STEP = (
    "Name the dtype in which the gain is held and the offset is added, on both sides; projects differ here by design."
)
EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2")


def propose(clues: "Clues") -> Iterator[dict[str, Any]]:
    """Every dtype that is worth trying elsewhere, and for the stored gains those of 8 bits as well."""
    for name in VARIABLES:
        yield from ({name: value} for value in clues.other_values(name))
    yield from ({"gain_cast": word} for word in EIGHT_BITS if word != clues.spec.gain_cast)
