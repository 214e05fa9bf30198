"""The gain multiplies the input before the statistic is taken, instead of the normalised row.

Then the statistic is that of x·g, and the output of a row depends on the gain in its scale as well.

How it shows: every category differs as soon as gains are not all alike.

What to check: the order of operations in the code.
"""

VARIABLES = ("gain_position",)
NEXT_STEP = "Compare the order of gain and statistic in the code of both sides."
