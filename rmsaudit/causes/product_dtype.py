"""The product with the gain is formed in another dtype.

A float32 gain may lift the product to float32, or be brought down to 16 bits first; then the output is rounded once
more.

How it shows: up to one ulp of the 16-bit output, in every category, where input and gain have different dtypes.

What to check: the dtypes of the two factors, and what the framework promotes them to.
"""

VARIABLES = ("gain_product_dtype",)
NEXT_STEP = "State the dtype of the product with the gain on both sides."
