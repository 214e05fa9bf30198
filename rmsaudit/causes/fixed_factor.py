"""The outputs differ by one constant factor, the same in every row and column.

√n from an L2 normalisation with a scale, a folded constant, a logit scale that belongs elsewhere.

How it shows: candidate / reference is one number everywhere; a cosine is exactly 1 and hides it.

What to check: constants that multiply the result, and factors √n or 1/√n.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("post_scale",)
NEXT_STEP = "Look for a constant that multiplies the result on one side only (√n, 1/√n, a folded scale)."


def propose(clues: "Clues") -> Iterator[Words]:
    """None, √n, and the factor that the rows agree on, on top of the one there is."""
    from rmsaudit.inversion.decimals import simplest

    for word in ("none", "sqrt_width"):
        if word != clues.spec.post_scale:
            yield {"post_scale": word}
    found = clues.common_factor()
    if found is None:
        return
    size = clues.spec.width // clues.spec.groups
    now = {"none": 1.0, "sqrt_width": size**0.5}.get(str(clues.spec.post_scale)) or float(clues.spec.post_scale)
    low, high = found[0] * now, found[1] * now
    number = simplest(low, high)
    if number is not None:
        yield {"post_scale": number.value}
    for power in (size**-0.5, 1.0 / size, float(size)):
        if low <= power <= high:
            yield {"post_scale": power}


def claim(before: Words, after: Words) -> str | None:
    """The factor of each side."""
    candidate, reference = (_factor(words) for words in (after, before))
    return f"The candidate multiplies the normalised row by {candidate}; the reference by {reference}."


def _factor(words: Words) -> str:
    match words["post_scale"]:
        case "none":
            return "nothing more"
        case "sqrt_width":
            return "√width"
    return f"{words['post_scale']:g}"
