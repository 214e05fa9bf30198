"""What a model's files hold, without reading its weights: its tensors by name, its configuration, its own metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rmsaudit.documents.tensors import TensorPlace

Format = Literal["huggingface", "safetensors", "gguf", "onnx"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """One model on disk, looked at and not loaded.

    path: as it was given: a folder or a file. tensors: every tensor by the file's own name for it. config: the
    config.json as parsed, {} where there is none. metadata: a GGUF file's pairs; an ONNX file's "norms", a tuple of
    checkpoints.onnx.OnnxNorm, its "producer" and "opsets"; {} elsewhere.
    files: sha256 of each file that says something beside tensors (config.json, the index of shards), by name.
    notes: what was decided in reading it that the reader of a record should know, each a sentence.
    """

    path: Path
    format: Format
    tensors: Mapping[str, TensorPlace]
    config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
