"""eps enters at another place: under the root of the mean, of the sum, beside the root, as a floor, or nowhere.

sqrt(ms + eps) and sqrt(ms) + eps share a name and nothing else: with 1e-6 they differ by half at an rms of 1e-3,
and 500 times at 1e-6. A floor, max(rms, eps), leaves rows above it alone and makes rows below it linear. Eps on the
sum of n squares acts as eps/n on the mean. No eps at all is a placement too: rows of zeros become NaN.

How it shows: near-eps, tiny and zero differ, ordinary agrees. No single eps inside the root explains rows of
several scales; the right placement explains all of them with one number. Two widths tell eps on the sum from eps on
the mean.

What to check: the formula in the code, not in its documentation; parentheses; whether a helper (an L2 normalisation
with a clamp) stands in for the norm.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("eps_placement",)
NEXT_STEP = (
    "Compare the line of code that adds eps on each side, and declare the placement that the model was trained with."
)


def propose(clues: "Clues") -> Iterator[Words]:
    """Every other placement, with the eps there is and with the one that the rows agree on there."""
    for placement in clues.other_values("eps_placement"):
        yield {"eps_placement": placement}
    for fit in clues.eps_fits:
        if fit.placement != clues.spec.eps_placement:
            yield from ({"eps_placement": fit.placement, "eps": value} for value in fit.values)
            if fit.number.dtype is not None:
                yield {"eps_placement": fit.placement, "eps": fit.number.value, "eps_dtype": fit.number.dtype}
