"""Each row is divided by its largest magnitude before it is squared, which makes eps relative to the row.

It keeps squares in range. But eps is added after the division, so a row of any scale sees it in the same
proportion.

How it shows: tiny and near-eps differ, as if eps had no effect there; ordinary rows of large spread move a little.

What to check: whether eps is scaled back.
"""

VARIABLES = ("prescale",)
NEXT_STEP = "Check whether the side that divides by the largest magnitude scales its eps accordingly."
