"""The root or its inverse is held in a narrow dtype.

One rounding to bfloat16 moves a whole row by up to 0.4 percent, always in one direction for that row, so it adds up
along depth instead of averaging out.

How it shows: one common factor a row, within half an ulp of the narrow dtype of 1, independent of scale.

What to check: the dtype of the tensor that holds 1/rms between two kernels.
"""

VARIABLES = ("inverse_dtype",)
NEXT_STEP = "Check the dtype in which 1/rms is held on each side."
