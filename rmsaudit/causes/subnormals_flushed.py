"""Subnormal inputs and results become zero on one side.

Processors and compilers have a flush-to-zero mode; GPU code is often built with it. bfloat16 and float32 lose what
is below 1.2e-38, float16 below 6.1e-5, which is a usual value.

How it shows: only tiny (and zero gains) differ: zeros where the other side has small numbers.

What to check: compiler flags, and the mode of the thread that runs the norm.
"""

VARIABLES = ("subnormals",)
NEXT_STEP = "Check the flush-to-zero mode on both sides; it matters where values of this size are used."
