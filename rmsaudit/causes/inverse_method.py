"""1/√ is reached in another way: one rounding, two, a division by the root, or a power.

rsqrt rounds once, 1/sqrt twice, x / sqrt leaves the inverse out. In float32 these are one ulp apart.

How it shows: exact-sum differs by one or two float32 ulp; 16-bit outputs nearly never.

What to check: nothing, usually: this is rounding. State the method if bits must agree.
"""

VARIABLES = ("inverse",)
NEXT_STEP = "Only rounding differs; state the method on both sides if bits must agree."
