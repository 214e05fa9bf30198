"""The measures by hand: element after element in Python numbers and fractions, sharing no code with the package."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, inf, isfinite, isnan
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from rmsaudit.arrays import Array, dtype_of, round_to
from rmsaudit.formats import FORMATS
from rmsaudit.measure import dense, prefilter, statistics

LARGEST = 1.7976931348623157e308


@dataclass
class ByHand:
    """What `measure` should find; places are flat indices."""

    differing: int
    signed_zero: int
    zero_reference: int
    candidate_larger: int
    mismatched: int
    classes: tuple[tuple[int, int, int], tuple[int, int, int]]
    frontier: list[tuple[float, float]]  # |reference|, d
    largest_abs: int | None
    largest_rel: int | None
    points: list[tuple[float, float]]  # of every finite differing element


@pytest.fixture
def by_hand() -> Callable[[Array, Array], ByHand]:
    return _by_hand


def _by_hand(reference: Array, candidate: Array) -> ByHand:
    with np.errstate(invalid="ignore"):  # NaN in casts
        sides = [side.astype(np.float64).ravel().tolist() for side in (reference, candidate)]
    pairs = list(enumerate(zip(*sides, strict=True)))
    finite = [(at, x, y) for at, (x, y) in pairs if isfinite(x) and isfinite(y)]
    kinds = [(_kind(x), _kind(y)) for _, (x, y) in pairs if not (isfinite(x) and isfinite(y))]
    mismatched = sum(one != other for one, other in kinds)
    unequal = [(at, x, y) for at, x, y in finite if x != y]
    first: dict[tuple[float, float], int] = {}
    for at, x, y in unequal:
        first.setdefault((abs(x), min(abs(y - x), LARGEST)), at)
    frontier = _frontier(list(first))
    over_nonzero = _frontier([point for point in first if point[0]])
    return ByHand(
        differing=len(unequal) + mismatched,
        signed_zero=sum(x == y == 0 and copysign(1, x) != copysign(1, y) for _, x, y in finite),
        zero_reference=sum(x == 0 for _, x, _ in unequal),
        candidate_larger=sum(abs(y) > abs(x) for _, x, y in unequal),
        mismatched=mismatched,
        classes=(_classes(sides[0]), _classes(sides[1])),
        frontier=frontier,
        largest_abs=first[frontier[0]] if frontier else None,
        largest_rel=first[over_nonzero[-1]] if over_nonzero else None,
        points=[(abs(x), min(abs(y - x), LARGEST)) for _, x, y in unequal],
    )


def _kind(value: float) -> str:
    return "nan" if isnan(value) else str(value) if value in (inf, -inf) else "finite"


def _classes(values: list[float]) -> tuple[int, int, int]:
    return sum(map(isnan, values)), values.count(inf), values.count(-inf)


def _frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other equals or exceeds in both d and d/|reference|, by falling d."""
    kept: list[tuple[float, float]] = []
    highest, lowest = Fraction(-1), 0.0
    for magnitude, d in sorted(points, key=lambda point: (-point[1], point[0])):
        if magnitude == 0:  # an infinite quotient: nothing after it exceeds that
            return [*kept, (magnitude, d)]
        if d < magnitude * lowest:  # certainly below, and cheaper to see than by fractions
            continue
        quotient = Fraction(d) / Fraction(magnitude)
        if quotient > highest:
            kept.append((magnitude, d))
            highest, lowest = quotient, float(quotient) * (1 - 1e-12) if quotient < 1e300 else 0.0
    return kept


@pytest.fixture(params=["usual blocks", "small blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks put the seams between blocks, and the quick path, into tensors of a few hundred elements."""
    if request.param == "usual blocks":
        return
    small: dict[Any, dict[str, int]] = {
        statistics: {"BLOCK": 128, "_SCREENED": 256, "_PIECE": 50},
        dense: {"BLOCK": 128, "_FEW": 64, "_FOLDS": 4, "_ENOUGH": 20},
        prefilter: {"_FEW": 16},
    }
    for module, sizes in small.items():
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)


@pytest.fixture
def pair() -> Callable[[str, str, int], tuple[Array, Array]]:
    return _pair


def _pair(kind: str, word: str, seed: int) -> tuple[Array, Array]:
    """Reference and candidate [rows, width] of a kind, in format `word`."""
    rng = np.random.default_rng([seed, crc32(kind.encode())])
    shape = int(rng.integers(1, 24)), int(rng.choice([1, 3, 16, 33, 60]))
    base = rng.standard_normal(shape)
    if kind == "wide noise":
        base *= np.exp2(rng.integers(-12, 12, shape))
    if kind == "constant":
        base = np.full(shape, rng.choice([1.0, 1.5, 0.3]))
    with np.errstate(all="ignore"):
        if kind == "bit patterns":
            sides = [rng.integers(0, 256, (*shape, dtype_of(word).itemsize), dtype=np.uint8) for _ in range(2)]
            return sides[0].view(dtype_of(word))[..., 0], sides[1].view(dtype_of(word))[..., 0]
        reference = round_to(base, word)
        if kind == "neighbours":
            unsigned = reference.view(f"u{reference.itemsize}")
            return reference, (unsigned ^ rng.integers(0, 4, shape).astype(unsigned.dtype)).view(reference.dtype)
        exact = reference.astype(np.float64)
        step = 2.0 ** -FORMATS[word].precision
        noisy = exact * (1 + 8 * step * rng.standard_normal(shape))
        candidate: Any = {
            "few differ": lambda: np.where(rng.random(shape) < 0.02, noisy, exact),
            "scaled rows": lambda: exact * (1 + 4 * step * rng.random((shape[0], 1))),
            "twice": lambda: 2 * exact,
            "negated": lambda: -exact,
            "zeros": lambda: 0 * exact,
            "five quarters": lambda: 1.25 * exact,
        }.get(kind, lambda: noisy)()
        candidate = round_to(candidate, word)
        if kind == "special values":
            for side in (reference, candidate):
                at = tuple(rng.integers(0, length, 12) for length in shape)
                side[at] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], 12).astype(side.dtype)
            candidate.reshape(-1)[::7] = reference.reshape(-1)[::7]  # some of them on both sides
        return reference, candidate
