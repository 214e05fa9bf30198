"""What several files share: declared norms as black boxes, and rows of many kinds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.emulator import emulate_arrays
from rmsaudit.formats import FORMATS
from rmsaudit.inversion import Run
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import resolve


@pytest.fixture(scope="session")
def spec() -> Callable[..., NormSpec]:
    """A spec of width 64 in the dtype that is named, float32 without, and other words."""

    def make(dtype: str = "float32", **words: Any) -> NormSpec:
        return resolve({"width": 64, "input_dtype": dtype, "gain_dtype": dtype, **words})

    return make


@pytest.fixture(scope="session")
def box(spec) -> Callable[..., Run]:
    """A declared norm that can be asked, at any width and eps."""

    def make(dtype: str = "float32", **words: Any) -> Run:
        declared = spec(dtype, **words)

        def run(x: Array, gain: Array, eps: float | None, /) -> Array:
            at = replace(declared, width=x.shape[-1], eps=declared.eps if eps is None else eps)
            return emulate_arrays(at, x, gain, np.zeros_like(gain), np.zeros_like(x))

        return run

    return make


def rows_of_many_kinds(dtype: str, width: int, seed: int) -> Array:
    """64 rows: ordinary ones at 24 scales, constant, spiked, shifted, of mixed scale, whole, zero, tiny, large."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((64, width))
    rows[:24] *= np.exp2(np.linspace(-24, 6, 24))[:, None]
    rows[24:30] = np.exp2(rng.integers(-20, 4, 6))[:, None] * 1.25
    rows[30:36, rng.integers(width)] *= 200
    rows[36:42] += 30
    rows[42:50] *= np.exp2(rng.integers(-12, 6, (8, width)))
    rows[50:56] = rng.integers(-15, 16, (6, width))
    rows[56] = 0
    rows[57:60] *= FORMATS[dtype].smallest_normal * 64
    rows[60:] *= 2.0 ** np.array([8, 9, 10, 11])[:, None]
    return round_to(rows, dtype)


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """Rows of many kinds under gains of both signs, from a seed."""

    def make(dtype: str, width: int, seed: int, *, x: Array | None = None, gain: Array | None = None) -> Case:
        drawn = np.random.default_rng(seed + 1).uniform(0.25, 2.0, width) * np.where(np.arange(width) % 3, 1, -1)
        rows = rows_of_many_kinds(dtype, width, seed) if x is None else x
        gains = round_to(drawn, dtype) if gain is None else gain
        return Case(
            category="many kinds", label="", x=rows, gain=gains, bias=np.zeros_like(gains), residual=np.zeros_like(rows)
        )

    return make
