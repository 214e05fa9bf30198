"""Checkpoints that exist in memory only: a configuration, and names of tensors with their shapes."""

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pytest

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.sites import Sites
from rmsaudit.documents.sites.find import find_sites
from rmsaudit.documents.tensors import TensorPlace

Shapes = Mapping[str, int | tuple[int, ...]]


def place(file: str, name: str, shape: int | tuple[int, ...]) -> TensorPlace:
    axes = shape if isinstance(shape, tuple) else (shape,)
    return TensorPlace(path=Path(file), name=name, dtype="float32", shape=axes, offset=0, length=4 * prod(axes))


@pytest.fixture
def of_config() -> Callable[..., Sites]:
    """The sites of a folder with this config.json and these tensors."""

    def find(config: Mapping[str, Any], shapes: Shapes) -> Sites:
        tensors = {name: place("m/model.safetensors", name, shape) for name, shape in shapes.items()}
        return find_sites(Checkpoint(path=Path("m"), format="huggingface", tensors=tensors, config=config))

    return find


@pytest.fixture
def of_gguf() -> Callable[..., Sites]:
    """The sites of a GGUF file with these pairs and tensors."""

    def find(metadata: Mapping[str, Any], shapes: Shapes) -> Sites:
        tensors = {name: place("m.gguf", name, shape) for name, shape in shapes.items()}
        return find_sites(Checkpoint(path=Path("m.gguf"), format="gguf", tensors=tensors, metadata=metadata))

    return find
