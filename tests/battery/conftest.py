"""Setups by a few words."""

from collections.abc import Callable
from typing import Any

import pytest

from rmsaudit.battery import Setup
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import resolve


def spec_of(dtype: str = "float32", width: int = 64, **declared: Any) -> NormSpec:
    """A norm of `dtype`; computed in float64 where that is the input, in float32 elsewhere, unless declared."""
    compute = "float64" if dtype == "float64" else "float32"
    return resolve({"width": width, "input_dtype": dtype, "compute_dtype": compute, **declared})


def setup_of(
    dtype: str = "float32",
    width: int = 64,
    *,
    reference: dict[str, Any] | None = None,
    candidate: dict[str, Any] | None = None,
    **setup: Any,
) -> Setup:
    """Both sides of `dtype`, the candidate with eps 1e-5 unless `candidate` is given."""
    return Setup(
        reference=spec_of(dtype, width, **(reference or {})),
        candidate=spec_of(dtype, width, **({"eps": 1e-5} if candidate is None else candidate)),
        **setup,
    )


@pytest.fixture
def make_setup() -> Callable[..., Setup]:
    return setup_of


@pytest.fixture
def make_spec() -> Callable[..., NormSpec]:
    return spec_of
