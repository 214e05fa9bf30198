"""Values are narrowed by cutting off their last bits instead of rounding to nearest.

Taking the upper 16 bits of a float32 as bfloat16 is quick and always moves toward zero, by up to one ulp.

How it shows: half of the 16-bit outputs are one ulp smaller in magnitude, never larger.

What to check: how the cast to the narrow dtype is written.
"""

VARIABLES = ("rounding",)
NEXT_STEP = "Check how values are narrowed on each side: round to nearest, or cut off."
