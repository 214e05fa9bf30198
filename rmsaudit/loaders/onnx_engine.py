"""onnx_engine: runs the model that `onnx_child` prepared, in a worker (see worker.py) that stays.

Both onnx and onnxruntime are imported by name, late, and only here and in `onnx_child`.
"""

import ctypes
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, word_of
from rmsaudit.loaders.exchange import open_tensors
from rmsaudit.loaders.onnx_child import ELEMENT_TYPES, WORDS, find_tensor

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
Engine = Callable[[Mapping[str, Array]], Array]


def call(
    folder: str, x: Array, gain: Array | None = None, residual: Array | None = None, bias: Array | None = None
) -> Array:
    """The output for x[rows, width], in its shape, of the model that `onnx_child` left in `folder`."""
    given = {"x": x, "gain": gain, "residual": residual, "bias": bias}
    return _prepared(folder).run({name: array for name, array in given.items() if array is not None})


@cache
def _prepared(folder: str) -> "Prepared":
    return Prepared(Path(folder))


class Prepared:
    """A prepared model with its sessions: one with the operands of its own, and one with the last others."""

    def __init__(self, folder: Path) -> None:
        self.request = json.loads((folder / "request.json").read_text("utf-8"))
        self.facts = json.loads((folder / "facts.json").read_text("utf-8"))
        self.data = (folder / "prepared.onnx").read_bytes()
        own = open_tensors(folder / "own.safetensors")
        self.own = {name: own.read(name) for name in own.entries}
        self.engines: dict[bytes, Engine] = {}

    def run(self, operands: Mapping[str, Array]) -> Array:
        """The output in the shape of x. Raises the worker's Unusable for everything that goes wrong in the engine."""
        x = operands["x"]
        fed = {
            feed["tensor"]: laid_out(operands[name], feed["shape"], name) for name, feed in self.facts["feeds"].items()
        }
        with telling(f"is not accepted by {self.name} with x in {word_of(x)}"):
            engine = self._engine({name: operands[name] for name in self.own})
        with telling(f"fails in {self.name}"):
            output = engine(fed)
        if output.size != x.size:
            raise told(f"returned shape {list(output.shape)} for {list(x.shape)}")
        return output.reshape(x.shape)

    @property
    def name(self) -> str:
        return "ONNX Runtime" if self.request["engine"] == "onnxruntime" else "ONNX's reference evaluator"

    def _engine(self, own: Mapping[str, Array]) -> Engine:
        """The engine whose model has these operands for its own."""
        same = all(np.array_equal(bits(own[name]), bits(values)) for name, values in self.own.items())
        key = b"" if same else b"".join(bits(values).tobytes() for values in own.values())
        if key not in self.engines:
            self.engines = {kept: engine for kept, engine in self.engines.items() if not kept}
            make = onnxruntime_engine if self.request["engine"] == "onnxruntime" else reference_engine
            self.engines[key] = make(self.data if same else self._with(own), self.facts["output"], self.request)
        return self.engines[key]

    def _with(self, own: Mapping[str, Array]) -> bytes:
        """The model with other numbers in place of its own: constants still, so that every optimisation applies."""
        onnx = importlib.import_module("onnx")
        model = onnx.ModelProto.FromString(self.data)
        for name, values in own.items():
            tensor = find_tensor(model, self.facts["own"][name]["tensor"])
            little_endian = bits(values).astype(bits_of(word_of(values)).newbyteorder("<"), copy=False)
            tensor.CopyFrom(
                onnx.TensorProto(
                    name=tensor.name,
                    data_type=tensor.data_type,
                    dims=tensor.dims if prod(tensor.dims) == values.size else [*tensor.dims[:-1], values.size],
                    raw_data=little_endian.tobytes(),
                )
            )
        return bytes(model.SerializeToString())


def laid_out(array: Array, shape: Sequence[int | None] | None, name: str) -> Array:
    """x[rows, width] or gain[width] in the shape that a graph asks for; None in it is a size that is free.

    A width may be that of several axes together, as where a norm is taken over all of them. All rows go to the last
    free axis before it. Raises the worker's Unusable where they do not fit.
    """
    if shape is None:
        return array
    leading, row = _row_axes(shape or [None], array.shape[-1])
    rows = array.size // array.shape[-1]
    if not row:
        raise told(f"takes {name} of width {shape[-1]}; the case has width {array.shape[-1]}")
    fixed = prod(size for size in leading if size is not None)
    free = [axis for axis, size in enumerate(leading) if size is None]
    if (not free and fixed != rows) or (free and rows % max(fixed, 1)):
        asked = list(shape)
        raise told(f"takes {name} in shape {asked}, into which {rows} rows do not fit; use --rows {max(fixed, 1)}")
    sizes = [1 if size is None else size for size in leading]
    if free:
        sizes[free[-1]] = rows // fixed
    return array.reshape(*sizes, *row)


def _row_axes(shape: Sequence[int | None], width: int) -> tuple[list[int | None], list[int]]:
    """The axes before a row of `width` elements, and those that it takes up: the last, or as many as hold it."""
    if shape[-1] is None:
        return [*shape[:-1]], [width]
    for first in reversed(range(len(shape))):
        row = [size for size in shape[first:] if size is not None]
        if len(row) == len(shape) - first and prod(row) == width:
            return [*shape[:first]], row
    return [*shape], []


def onnxruntime_engine(data: bytes, output: str, request: Mapping[str, Any]) -> Engine:
    """Runs a model by ONNX Runtime on the CPU; bfloat16 and float8 cross as their bits."""
    ort = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, LEVELS[request["optimization"]])
    options.intra_op_num_threads = request["threads"]
    options.log_severity_level = 3  # errors; they come as exceptions as well
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def value(array: Array) -> Any:
        word = word_of(array)
        array = np.ascontiguousarray(array)
        if word in ("float64", "float32", "float16"):
            return ort.OrtValue.ortvalue_from_numpy(array)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits(array), ELEMENT_TYPES[word])

    def run(feeds: Mapping[str, Array]) -> Array:
        (made,) = session.run_with_ort_values([output], {name: value(array) for name, array in feeds.items()})
        word = WORDS.get(made.element_type())
        if word is None:
            raise told(f"returned {made.data_type()}")
        size = prod(made.shape()) * bits_of(word).itemsize
        copied = np.frombuffer(bytearray(ctypes.string_at(made.data_ptr(), size)), bits_of(word))
        return copied.view(dtype_of(word)).reshape(made.shape())

    return run


def reference_engine(data: bytes, output: str, request: Mapping[str, Any]) -> Engine:  # noqa: ARG001  an Engine's maker
    """Runs a model by ONNX's own evaluator."""
    evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(data)

    def run(feeds: Mapping[str, Array]) -> Array:
        with np.errstate(all="ignore"):
            made = np.asarray(evaluator.run([output], dict(feeds))[0])
        if made.dtype not in map(dtype_of, ELEMENT_TYPES):
            raise told(f"returned {made.dtype}")
        return made

    return run


class ToldError(Exception):
    """A fault in our own words, where no worker is about that has a type for it."""


def told(says: str) -> Exception:
    """An exception that the worker hands on as it stands, without its type and place."""
    kind = getattr(sys.modules["__main__"], "Unusable", ToldError)
    return kind(says)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Puts `what` before whatever goes wrong; both packages raise many types, from Exception down."""
    try:
        yield
    except type(told("")):
        raise
    except Exception as error:
        says = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", str(error)).strip() or type(error).__name__
        raise told(f"{what}: {says}") from error
