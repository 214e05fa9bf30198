"""The last two products are formed in another order: (x·i)·g, (x·g)·i or x·(i·g).

Each order rounds at other places. Fused kernels like to multiply inverse and gain first.

How it shows: float32 outputs differ by one or two ulp where the gain is not a power of two; 16-bit outputs nearly
never.

What to check: nothing, usually: this is rounding. State the order if bits must agree.
"""

VARIABLES = ("association",)
NEXT_STEP = "Only rounding differs; state the order of the products on both sides if bits must agree."
