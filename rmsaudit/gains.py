"""Gain tensors: what one tensor is of another, before anything is run."""

from collections.abc import Callable

import numpy as np

from rmsaudit.arrays import Array, round_to, word_of
from rmsaudit.formats import FORMATS

ALREADY_SHIFTED = 0.5
"""A mean of stored gains beyond this under an offset of 1 looks as if the 1 had been added before: published original
gains average about 0.2, converted ones about 1.2."""

FORMS: dict[str, Callable[[Array], Array]] = {
    "applied twice": lambda gain: gain * gain,
    "absolute values": np.abs,
    "in reverse order": lambda gain: gain[::-1],
    "moved on by one": lambda gain: np.roll(gain, 1),
    "moved back by one": lambda gain: np.roll(gain, -1),
}
"""What a side may multiply by in place of its gain g: words to a function of g in float64."""


def transformed(gain: Array, form: str) -> Array:
    """`gain` in one of FORMS, rounded once to its own dtype."""
    with np.errstate(over="ignore"):
        return round_to(FORMS[form](gain.astype(np.float64)), word_of(gain))


def compare(reference: Array, candidate: Array) -> str | None:
    """What the candidate's gains are of the reference's, in words; None where nothing simple holds.

    Both [width], of any dtype. Equal values come as "equal".
    """
    one, other = reference.astype(np.float64), candidate.astype(np.float64)
    if one.shape != other.shape:
        return f"of another width: {other.size} for {one.size}"
    if np.array_equal(one, other, equal_nan=True):
        return "equal"
    for says, form in _simple(one, other):
        if np.array_equal(form, other):
            return says
    return _shifted(one, other) or _rounded(reference, candidate)


def _simple(one: Array, other: Array) -> list[tuple[str, Array]]:
    return [
        ("all ones", np.ones_like(other)),
        ("all zeros", np.zeros_like(other)),
        ("equal but for the sign: every sign is reversed", -one),
        ("the same without their signs", np.abs(one)),
        ("the same in reverse order", one[::-1]),
        ("the same, moved on by one column", np.roll(one, 1)),
        ("the same, moved back by one column", np.roll(one, -1)),
        ("the same values in another order", other if np.array_equal(np.sort(one), np.sort(other)) else one),
    ]


def _shifted(one: Array, other: Array) -> str | None:
    """A common offset of ±1, up to the rounding of the sum to 16 bits."""
    for offset, says in ((1.0, "larger by 1 in every column"), (-1.0, "smaller by 1 in every column")):
        for word in ("float64", "float32", "float16", "bfloat16"):
            if np.array_equal(round_to(one + offset, word).astype(np.float64), other):
                return says if word in ("float64", "float32") else f"{says}, rounded to {word}"
    return None


def _rounded(reference: Array, candidate: Array) -> str | None:
    """Whether one is the other, rounded to fewer bits."""
    one, other = reference.astype(np.float64), candidate.astype(np.float64)
    for word in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        if np.array_equal(round_to(one, word).astype(np.float64), other):
            return f"the reference's, rounded to {word}"
        if np.array_equal(round_to(other, word).astype(np.float64), one):
            return f"more exact: the reference's are these, rounded to {word}"
    return None


def looks_shifted(gain: Array, offset: float) -> str | None:
    """A warning where stored gains under an offset of 1 have a mean near 1 themselves; None where they have not."""
    mean = float(np.mean(gain.astype(np.float64)))
    if offset != 1 or not ALREADY_SHIFTED < mean < 2 - ALREADY_SHIFTED:
        return None
    digits = FORMATS[word_of(gain)].name
    return f"stored gains ({digits}) average {mean:+.3g} under gain_offset 1: they look as if 1 had been added before"
