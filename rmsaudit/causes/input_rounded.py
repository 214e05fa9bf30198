"""The input is rounded to a narrower dtype than it is stored in, before anything else.

An autocast region, an input tensor of the exported model, a buffer of the kernel.

How it shows: float32 inputs with more bits than the narrow dtype has lose them: relative errors of half an ulp of
it everywhere.

What to check: the dtype of the tensor that reaches the norm.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("input_dtype",)
NEXT_STEP = "Check the dtype of the tensor that reaches the norm on each side."


def propose(clues: "Clues") -> Iterator[Words]:
    """Narrower dtypes only: a wider one changes nothing."""
    from rmsaudit.formats import FORMATS

    held = FORMATS[clues.spec.input_dtype].precision
    for word in clues.other_values("input_dtype"):
        if FORMATS[word].precision < held:
            yield {"input_dtype": word}
