"""1/n enters in another way: a division by n, a product with a rounded 1/n, into each square, or after the root.

Where n is a power of two all but the last are the same. Otherwise the rounded 1/n is a common factor of up to one
ulp.

How it shows: exact-sum differs by an ulp at widths that are no power of two.

What to check: nothing, usually: this is rounding. State it if bits must agree.
"""

VARIABLES = ("mean_scaling",)
NEXT_STEP = "Only rounding differs; state the scaling on both sides if bits must agree."
