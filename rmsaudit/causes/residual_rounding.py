"""x + residual is rounded before it is squared or normalised, or it is not.

Fused kernels keep the sum in float32 for the norm and store a rounded one; unfused code norms the rounded one.
Projects have mended this in both directions.

How it shows: about a quarter of 16-bit outputs differ by one ulp, only where a residual is added.

What to check: which of the two the model was trained or evaluated with.
"""

VARIABLES = ("statistic_source", "numerator_source", "residual_out_dtype", "residual", "residual_dtype")
NEXT_STEP = "Both rules are in use; decide which one the model was evaluated with and declare it on both sides."
