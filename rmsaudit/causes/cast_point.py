"""The normalised row is rounded to a narrow dtype before it is multiplied by the gain, or only afterwards.

Both are in wide use: transformers' Llama rounds x/rms first and multiplies two 16-bit numbers; torch's rms_norm,
Gemma and Transformer Engine multiply in float32 and round once. Projects have moved in both directions; neither is
a fault by itself, but a model was trained with one of them.

How it shows: about a quarter of the 16-bit outputs differ by one ulp, in every category, independently of scale.
With gains of 1 the two are identical.

What to check: which rule the training code follows, and which the two sides declare.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rmsaudit.causes import Words

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

VARIABLES = ("cast_point", "normalized_dtype")
NEXT_STEP = "Both rules are in use; decide which one the model was trained with and declare it on both sides."


def propose(clues: "Clues") -> Iterator[Words]:
    """Every other point and dtype; before_gain also with the order of products that it needs."""
    for point in clues.other_values("cast_point"):
        yield {"cast_point": point}
        if clues.spec.association != "(x*i)*g":
            yield {"cast_point": point, "association": "(x*i)*g"}
    for word in clues.other_values("normalized_dtype"):
        yield {"cast_point": "before_gain", "normalized_dtype": word}


def claim(before: Words, after: Words) -> str | None:
    """What is rounded when, on each side."""
    return f"The candidate {_rule(after)}; the reference {_rule(before)}."


def _rule(words: Words) -> str:
    match words["cast_point"]:
        case "before_gain":
            return f"rounds the normalised row to {words['normalized_dtype']} and then multiplies by the gain"
        case "weight_if_half":
            return (
                "rounds the normalised row to the gain's dtype where that has 16 bits, and then multiplies by the gain"
            )
    return "multiplies by the gain first and rounds the product"
