"""The two sides add an eps of another size.

One number of the configuration was not read, was read under another name, or was fixed in a kernel. At unit scale
1e-6 against 1e-5 moves the output by 5e-6 and hides in every tolerance; where the mean square of a row comes near
to eps it is most of the value. The error is one common factor for each row, sqrt((ms + eps of one) / (ms + eps of
the other)), so the direction of the row, and any cosine, stays what it was.

How it shows: near-eps and tiny differ, ordinary and large agree. The factor of a row grows as its scale falls.
(x/y)² − ms is the same number in every row of the candidate: its eps.

What to check: which key each side read (rms_norm_eps, layer_norm_epsilon, norm_eps, epsilon), and what each does
where the key is missing. Some defaults are the machine epsilon of a dtype: 0.0078125 for bfloat16, 0.00098 for
float16, 1.19e-07 for float32.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("eps", "eps_min")
COARSE = 1 + 2.0**-9  # of an interval that a few values of eps are tried in
USUAL_EPS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3)
NEXT_STEP = "Read in the model's own configuration which eps it was trained with, and where each side takes its own."


def propose(clues: "Clues") -> Iterator[Words]:
    """The eps that the rows agree on at the present placement, machine epsilons, and the usual ones."""
    from rmsaudit.formats import FORMATS

    for fit in clues.eps_fits:
        if fit.placement == clues.spec.eps_placement:
            yield from ({"eps": value} for value in fit.values)
            if fit.number.dtype is not None:
                yield {"eps": fit.number.value, "eps_dtype": fit.number.dtype}
            if fit.number.story is None and (fit.number.digits > 4 or fit.hi > fit.lo * COARSE):
                yield from ({"eps": fit.lo + (fit.hi - fit.lo) * k / 8} for k in range(9))
    for word in ("float32", "bfloat16", "float16"):
        yield {"eps": FORMATS[word].machine_epsilon}
    for value in USUAL_EPS:
        yield {"eps": value}


def claim(before: Words, after: Words) -> str | None:
    """With the name of the number, where it is a machine epsilon."""
    from rmsaudit.formats import FORMATS

    names = [word for word in ("float32", "bfloat16", "float16") if after["eps"] == FORMATS[word].machine_epsilon]
    named = f", the machine epsilon of {names[0]}: as if no eps were given" if names else ""
    return f"The candidate computes with eps = {after['eps']:g}{named}; the reference with {before['eps']:g}."
