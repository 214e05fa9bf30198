"""The mean of the row is subtracted first: this is LayerNorm, not RMSNorm.

Names mislead: operators called LayerNormalization compute RMSNorm and the other way round. With inputs of mean 0
the two are close.

How it shows: a constant row gives 0 instead of ±1; adding a constant to a row leaves the output alone; offset
differs most.

What to check: which of the two the model has, and which the operator computes.
"""

from rmsaudit.causes import Words

VARIABLES = ("center",)
NEXT_STEP = "Feed one constant row (an RMSNorm gives ±gain, a LayerNorm 0); take the operator it was trained with."


def claim(before: Words, after: Words) -> str | None:  # noqa: ARG001  a flag says it all
    """Who subtracts."""
    who = ("candidate", "reference") if after["center"] else ("reference", "candidate")
    return f"The {who[0]} subtracts the row mean (LayerNorm); the {who[1]} does not."
