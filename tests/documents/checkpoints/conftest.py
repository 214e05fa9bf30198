"""Small checkpoints, written by hand."""

import json
import struct
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.errors import InputProblem

CODES = {"F32": 4, "BF16": 2}


@pytest.fixture
def write_shard(make_files: ModuleType) -> Callable[..., None]:
    """Writes a safetensors file of zeros; `tensors`: shape by name, or dtype and shape."""

    def write(path: Path, tensors: Mapping[str, Any]) -> None:
        header, reached = {}, 0
        for name, described in tensors.items():
            dtype, shape = described if isinstance(described, tuple) else ("F32", described)
            end = reached + CODES[dtype] * prod(shape)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [reached, end]}
            reached = end
        path.write_bytes(make_files.safetensors(header, b""))
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + reached)  # sparse

    return write


@pytest.fixture
def sharded(tmp_path: Path, write_shard: Callable[..., None]) -> Path:
    """A folder of two shards, in the names that transformers gives them."""
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    write_shard(tmp_path / first, {"embed": [8, 4], "layers.0.norm": ("BF16", [4])})
    write_shard(tmp_path / second, {"layers.1.norm": ("BF16", [4]), "norm": [4]})
    placed = {"embed": first, "layers.0.norm": first, "layers.1.norm": second, "norm": second}
    write_json(tmp_path / "model.safetensors.index.json", {"metadata": {"total_size": 160}, "weight_map": placed})
    write_json(tmp_path / "config.json", {"model_type": "llama", "rms_norm_eps": 1e-5})
    return tmp_path


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), "utf-8")


@pytest.fixture
def problems() -> Callable[[Path], list[str]]:
    """What is wrong with a checkpoint, a line each, without the folders of its path."""

    def read(path: Path) -> list[str]:
        with pytest.raises(InputProblem) as caught:
            open_checkpoint(path)
        folder = path if path.is_dir() else path.parent
        lines = [str(problem) for problem in caught.value.problems]
        return [line.replace(f"{folder}/", "").replace(str(folder), "FOLDER") for line in lines]

    return read


@pytest.fixture
def gguf_bytes(make_files: ModuleType) -> Callable[..., bytes]:
    """A GGUF file: `pairs` as make_files.gguf has them; tensors as name, axes (innermost first), type, offset."""

    def build(
        pairs: list[tuple[str, int, bytes]],
        tensors: list[tuple[str, list[int], int, int]],
        data: bytes,
        padded: int = 32,
    ) -> bytes:
        whole = bytearray(make_files.gguf(pairs))
        whole[8:16] = struct.pack("<Q", len(tensors))
        for name, axes, kind, offset in tensors:
            whole += make_files.string(name) + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, offset)
        return bytes(whole) + bytes(-len(whole) % padded) + data

    return build
