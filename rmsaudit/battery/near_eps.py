"""near-eps: rows whose mean square is 2^-12 to 2^12 times the one at which eps acts, for the eps of each side.

A tenfold eps is 5e-6 relative at unit scale and more than half of the value here. Where the eps of the two sides act at
different scales, each has half of the rows.
"""

from collections.abc import Iterator
from math import frexp

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.battery._draw import powers_of_two, spread
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import knee
from rmsaudit.semantics.scope import group_size, statistic_size

VERSION = 1
REVEALS = ("eps", "eps_placement", "eps_dtype", "eps_min", "statistic", "statistic_dtype", "prescale")
REACH = 6  # exponents of x to each side of the knee: 12 of its mean square
MEAN_SQUARE = 7 / 3  # of `Draw.binade`


def build(setup: Setup) -> Iterator[Case | Skipped]:
    """Rows ±[1, 2] · 2^e, e within REACH of the exponent at the knee of each side."""
    windows: list[tuple[int, int]] = []
    unreachable = []
    for side, spec in setup.sides:
        centre = _centre(spec, setup.rows)
        if centre is None:
            continue
        low = max(centre - REACH, setup.format.smallest_exponent)
        high = min(centre + REACH, setup.format.max_exponent - 1)
        if low > high:
            unreachable.append(_says(side, spec, centre, setup))
        elif (low, high) not in windows:
            windows.append((low, high))
    for reason in unreachable:
        yield Skipped("near-eps", reason)
    if windows:
        yield from cases(setup, "near-eps", _lines(setup, windows))
    elif not unreachable:
        yield Skipped("near-eps", "neither side has an eps that the scale of a row can come near to")


def _centre(spec: NormSpec, rows: int) -> int | None:
    """The exponent of x for which a row lies at the knee, within a factor 2 of its mean square; None without a knee."""
    size = statistic_size(group_size(rows, spec), spec)
    at = knee(spec, size, spec.statistic == "sum_square")
    if at == 0 or spec.prescale != "none":  # a prescaled row has the same scale whatever x is
        return None
    return frexp(at / MEAN_SQUARE)[1] // 2


def _lines(setup: Setup, windows: list[tuple[int, int]]) -> Array:
    count = setup.lines(at_least=8)
    shares = [count // len(windows)] * len(windows)
    shares[0] += count - sum(shares)
    exponents = np.concatenate([spread(*window, share) for window, share in zip(windows, shares, strict=True)])
    lines = setup.draw("near-eps").binade(count, setup.size)
    lines *= powers_of_two(exponents, setup.format)[:, None]
    return lines


def _says(side: str, spec: NormSpec, centre: int, setup: Setup) -> str:
    fmt = setup.format
    return (
        f"the {side}'s eps {spec.eps:g} ({spec.eps_placement}) acts on values around 2^{centre}; the input"
        f" has 2^{fmt.smallest_exponent} to 2^{fmt.max_exponent}"
    )
