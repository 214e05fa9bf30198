"""One side leaves the gain out: it was never loaded, is still all ones, or is not applied.

A renaming rule that misses the norm, a parameter that keeps its initial ones, a fused operator without a gain:
nothing complains, since ones are a legal gain.

How it shows: candidate / reference is 1/gain in each column, the same in every row; with gains of 1 nothing shows.

What to check: that the parameter's values are those of the file after loading.
"""

VARIABLES = ("gain_applied",)
NEXT_STEP = "Print the gain that the candidate holds after loading and compare it with the file."
