"""The results are returned in another dtype.

A float32 gain lifts a 16-bit product to float32; autocast and library releases change what comes out.

How it shows: the dtypes differ; after rounding to the narrower one the values are the same.

What to check: the dtype of the gain, and what the caller needs.
"""

VARIABLES = ("output_dtype",)
NEXT_STEP = "Decide which dtype the next layer is to be given, and state it on both sides."
