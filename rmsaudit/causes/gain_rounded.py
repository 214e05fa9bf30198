"""The gain, or the gain plus its offset, is rounded to a narrow dtype before it multiplies.

In bfloat16, 1 + 0.00390625 is 1: small gains disappear beside the offset, and gains above 8 lose their last bits.
The error is fixed for each column, so it does not average out over rows or layers.

How it shows: about a quarter of 16-bit outputs differ by one ulp, in the same columns with the same sign in every
row.

What to check: the dtype of the stored gain, of the addition, and whether the gain is cast to the input's dtype
first.
"""

VARIABLES = ("gain_cast", "gain_offset_dtype", "gain_dtype")
NEXT_STEP = (
    "Name the dtype in which the gain is held and the offset is added, on both sides; projects differ here by design."
)
