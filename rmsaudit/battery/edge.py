"""edge: the last values whose square, or sum of squares, is finite, and the first whose is not, for each dtype in use.

255 and 256 where a bfloat16 input is squared in float16; ±1.8e19 where anything is squared in float32.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import frexp, ldexp, sqrt
from typing import NamedTuple

import numpy as np

from rmsaudit.battery._common import CommonFormat
from rmsaudit.battery._draw import powers_of_two
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS, Format
from rmsaudit.semantics.arithmetic import Arithmetic
from rmsaudit.semantics.scope import group_size, statistic_size

VERSION = 1
REVEALS = (
    "input_clamp",
    "prescale",
    "statistic_algorithm",
    "compute_dtype",
    "square_dtype",
    "accumulate_dtype",
    "mean_scaling",
)
MOST = 16  # rows; where there are more kinds, the last ones are left out
ALWAYS = ("float16", "float32", "bfloat16")  # beside the square and accumulate dtypes of both sides


class _Row(NamedTuple):
    """One element of magnitude `value` among values of exponent `quiet`, or `value` everywhere where that is None."""

    value: float
    quiet: int | None


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows of one magnitude and both signs, and rows in which one element towers over quiet ones."""
    rows = _rows(setup)
    if not rows:
        yield Skipped("edge", f"no square of a {setup.format.held} value overflows")
        return
    count = setup.lines(at_least=min(len(rows), MOST))
    draw = setup.draw("edge")
    positions = draw.below(setup.size, count)
    lines = np.copysign(setup.format.draft.type(1), draw.binade(count, setup.size))
    for index, line in enumerate(lines):
        value, quiet = rows[index % len(rows)]
        if quiet is None:
            line *= value
        else:
            loud = line[positions[index]] * value
            line *= powers_of_two(quiet, setup.format)
            line[positions[index]] = loud
    yield from cases(setup, "edge", lines, added=np.zeros_like(lines))


def _rows(setup: Setup) -> list[_Row]:
    """The rows, most telling ones first: each kind for every dtype before the next kind."""
    used = [dtype for _, spec in setup.sides for dtype in (spec.square_dtype, spec.accumulate_dtype)]
    reference = setup.reference
    size = statistic_size(group_size(setup.rows, reference), reference)
    edges = [_edges(setup.format, word, size) for word in dict.fromkeys((*used, *ALWAYS))]
    by_kind = zip(*(edge for edge in edges if edge), strict=True)
    return list(dict.fromkeys(row for kind in by_kind for row in kind if row.value))


@cache
def _edges(fmt: CommonFormat, word: str, size: int) -> tuple[_Row, ...]:
    """Rows at the edge of dtype `word`; empty where the values of `fmt` do not reach it."""
    held = FORMATS[word]
    if _square_is_finite(fmt.max, word):
        return ()
    both = replace(fmt, precision=min(fmt.precision, held.precision))  # values that reach the square unrounded
    last = _last_finite(both, word)
    first = both.above(last)
    # size · (2 · 2^quiet)² < last² · 2^-(p + 1), half an ulp of the sum: however it is added up, last² stays what it is
    quiet = frexp(last)[1] - (held.precision + 7 + size.bit_length()) // 2
    full = _first_full_sum(held, size)
    full = full if full <= last else 0.0
    return (
        _Row(first, quiet),
        _Row(last, quiet),
        _Row(full, None),
        _Row(full / 2, None),
        _Row(first, None),
        _Row(last, None),
    )


def _last_finite(fmt: CommonFormat, word: str) -> float:
    """The largest value of `fmt` whose square is finite in dtype `word`."""
    last = fmt.floor(sqrt(FORMATS[word].max))
    while _square_is_finite(following := fmt.above(last), word):
        last = following
    return last


def _square_is_finite(value: float, word: str) -> bool:
    ar = Arithmetic()
    with np.errstate(over="ignore"):
        held = ar.cast(np.asarray(value), word)
        return bool(np.isfinite(ar.mul(held, held, word)))


def _first_full_sum(held: Format, size: int) -> float:
    """The smallest power of two of which `size` squares sum to what rounds beyond the largest value."""
    top = held.max_exponent + 1
    beyond = ldexp(held.max, -top) + ldexp(1.0, -held.precision - 1)  # half an ulp above the largest value, over 2^top
    exponent = (top - size.bit_length()) // 2
    while ldexp(size, 2 * exponent - top) < beyond:
        exponent += 1
    return ldexp(1.0, exponent)
