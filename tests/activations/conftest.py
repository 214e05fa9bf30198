"""Specs of one width with a chosen eps; and files of activations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.arrays import Array
from rmsaudit.documents.tensors import TensorPlace, tensors_in
from rmsaudit.loaders.exchange import write_tensors
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import resolve


@pytest.fixture
def norm() -> Callable[..., NormSpec]:
    """A spec of width 64 and eps 1e-5, with changes."""

    def build(**words: Any) -> NormSpec:
        return resolve({"width": 64, "eps": 1e-5, **words})

    return build


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[dict[str, Array]], dict[str, TensorPlace]]:
    """Tensors in a safetensors file, and where they lie in it."""

    def write(tensors: dict[str, Array]) -> dict[str, TensorPlace]:
        write_tensors(tmp_path / "acts.safetensors", tensors, {})
        return tensors_in(tmp_path / "acts.safetensors")

    return write
