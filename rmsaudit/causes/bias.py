"""A bias is added after the gain, on one side.

RMSNorm has none by default; partial RMSNorm and some exports have one.

How it shows: rows of zeros give the bias instead of zeros; the difference is one number a column, whatever the
scale of the row.

What to check: whether the checkpoint has a bias for this norm.
"""

VARIABLES = ("bias",)
NEXT_STEP = "Check whether the checkpoint holds a bias for this norm, and whether both sides load it."
