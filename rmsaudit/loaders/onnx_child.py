"""onnx_child: reads a model, in a process of its own: its norm, its eps, and what has to be fed.

Beside its answer it leaves a model that holds this norm and nothing else, for `onnx_engine` to run. The onnx package is
imported by name, late: who does not have it can still use the rest of rmsaudit.
"""

import hashlib
import importlib
import importlib.util
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, dtype_of, word_of
from rmsaudit.loaders.exchange import write_tensors
from rmsaudit.loaders.onnx_graph import Constant, Graph, Node, Norm, UnclearModel, Value
from rmsaudit.loaders.onnx_plan import Plan, Wish, plan

ELEMENT_TYPES = {"float32": 1, "float16": 10, "float64": 11, "bfloat16": 16, "float8_e4m3fn": 17, "float8_e5m2": 19}
WORDS = {number: word for word, number in ELEMENT_TYPES.items()}
MOST_MODEL_BYTES = 2**31 - 1  # of one protobuf message
SMALL = 1 << 14  # elements; constants up to this size are looked into
LFS = b"version https://git-lfs"


class BadModel(ValueError):
    """A file that is not a usable model; the text follows its name."""


# --- reading ---------------------------------------------------------------------------------------------------------


def inspect(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The facts about a model, as JSON takes them. Writes prepared.onnx and own.safetensors as well.

    Raises BadModel and UnclearModel.
    """
    for package in ("onnx", *(["onnxruntime"] if request["engine"] == "onnxruntime" else [])):
        if importlib.util.find_spec(package) is None:
            raise BadModel(f"needs {package}, which this Python does not have: pip install 'rmsaudit[onnx]'")
    path = Path(request["model"])
    data = read_file(path)
    model = parsed(data)
    external = external_files(model, path.parent)
    if model.functions:
        model = importlib.import_module("onnx.inliner").inline_local_functions(model)
    load_external(model, path.parent, lambda tensor: prod(tensor.dims) <= SMALL)
    graph = drawn(model.graph)
    found = plan(graph, Wish(**request["wish"]))
    feeds = _feeds(model, graph, found)
    prepared = data if found.whole and not external else _sliced(model, found, feeds, path.parent)
    (folder / "prepared.onnx").write_bytes(prepared)
    return {
        "feeds": feeds,
        "output": found.output,
        "own": _own(model, found, path.parent, folder),
        "norm": _about(found.norm),
        "whole": found.whole,
        "versions": _versions(request["engine"]),
        "digests": _digests(path, data, external),
    }


def read_file(path: Path) -> bytes:
    """The bytes of a model file. Raises BadModel."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BadModel(f"cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadModel("is not an ordinary file")
        if status.st_size > MOST_MODEL_BYTES:
            raise BadModel("is larger than 2 GiB, which no ONNX file can be; large tensors lie in files beside it")
        return file.read()


def parsed(data: bytes) -> Any:
    """The ModelProto. Raises BadModel for what is none; protobuf alone takes many a file for an empty model."""
    onnx = importlib.import_module("onnx")
    if data.startswith(LFS):
        raise BadModel("is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`")
    try:
        model = onnx.ModelProto.FromString(data)
    except importlib.import_module("google.protobuf.message").DecodeError:
        raise BadModel("is not an ONNX model: its bytes do not follow the format") from None
    if not model.graph.node or not model.opset_import or not model.ir_version:
        raise BadModel("is not an ONNX model: no operators, operator set or version are found in it")
    return model


def every_tensor(message: Any) -> Iterator[Any]:
    """Every TensorProto anywhere in a message: initialisers, attributes, subgraphs, functions, training."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in value if hasattr(value, "__len__") else (value,):
            if field.message_type.full_name == "onnx.TensorProto":
                yield part
            elif hasattr(part, "ListFields"):
                yield from every_tensor(part)


def external_files(model: Any, folder: Path) -> dict[str, Path]:
    """The files beside the model that hold tensors, by the name the model has for them.

    Every one of them is looked at before any is read: a location that is absolute, climbs, or ends outside the model's
    folder by a link, and a part that its file does not have, raise BadModel.
    """
    onnx = importlib.import_module("onnx")
    root = folder.resolve()
    found: dict[str, Path] = {}
    sizes: dict[str, int] = {}
    for tensor in every_tensor(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location, offset, length = _place(tensor)
        if location not in found:
            found[location] = _beside(tensor.name, location, folder, root)
            sizes[location] = found[location].stat().st_size
        if offset + length > sizes[location]:
            raise BadModel(f"keeps tensor {tensor.name!r} beyond the end of {location!r}; that file is cut short")
    return found


def _beside(tensor: str, location: str, folder: Path, root: Path) -> Path:
    """The file at a location, which must lie in the model's folder."""
    pure = PurePosixPath(location.replace("\\", "/"))
    path = folder / location
    if not location or pure.is_absolute() or ":" in location or ".." in pure.parts or not _is_inside(path, root):
        raise BadModel(f"keeps tensor {tensor!r} in {location!r}, outside its own folder; that is not read")
    if not path.is_file():
        raise BadModel(f"keeps tensor {tensor!r} in {location!r}, which is no file beside it")
    return path


def _is_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, ValueError, RuntimeError):  # a NUL, or links in a circle
        return False


def _place(tensor: Any) -> tuple[str, int, int]:
    """Location, offset and length of an external tensor; length 0 where it is not given."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
    except ValueError:
        offset = length = -1
    if offset < 0 or length < 0:
        raise BadModel(f"gives tensor {tensor.name!r} a place that is no pair of counts")
    return entries.get("location", ""), offset, length


def load_external(model: Any, folder: Path, wanted: Any) -> None:
    """Puts the bytes of the external tensors that are `wanted` into the model; places must have been checked."""
    onnx = importlib.import_module("onnx")
    for tensor in every_tensor(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL or not wanted(tensor):
            continue
        location, offset, length = _place(tensor)
        with (folder / location).open("rb") as file:
            file.seek(offset)
            most = 16 * prod(tensor.dims)  # no element is larger; more than that is not read, whatever the model says
            tensor.raw_data = file.read(min(length, most) if length else most)
        del tensor.external_data[:]
        tensor.data_location = onnx.TensorProto.DEFAULT


# --- drawing ---------------------------------------------------------------------------------------------------------


def drawn(proto: Any) -> Graph:
    """The picture of a GraphProto that `onnx_graph` works on."""
    constants = {tensor.name: _constant(tensor) for tensor in proto.initializer}
    values = {info.name: _value(info) for info in (*proto.value_info, *proto.output, *proto.input)}
    nodes = []
    for node in proto.node:
        if node.op_type == "Constant" and (held := _constant_of(node)):
            constants[node.output[0]] = held
        else:
            nodes.append(_node(node))
            if node.op_type == "Cast":
                values[node.output[0]] = Value(dtype=_word(int(_numbers(node).get("to", 0))))
    return Graph(
        nodes=tuple(nodes),
        inputs=tuple(info.name for info in proto.input if info.name not in constants),
        outputs=tuple(info.name for info in proto.output),
        constants=constants,
        values=values,
    )


def _node(node: Any) -> Node:
    inner = [name for attribute in node.attribute for graph in _subgraphs(attribute) for name in _captured(graph)]
    return Node(
        op=node.op_type,
        inputs=(*node.input, *inner),
        outputs=tuple(node.output),
        name=node.name,
        attributes=_numbers(node),
    )


def _subgraphs(attribute: Any) -> list[Any]:
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _captured(graph: Any) -> list[str]:
    """What a subgraph reads from the graph around it."""
    own = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [info.name for info in graph.output] + [name for node in graph.node for name in _node(node).inputs]
    return [name for name in dict.fromkeys(read) if name and name not in own]


def _numbers(node: Any) -> dict[str, float]:
    """The attributes of a node that are one number. FLOAT is 1 and INT is 2 in AttributeProto."""
    return {each.name: {1: each.f, 2: each.i}[each.type] for each in node.attribute if each.type in (1, 2)}


def _word(element_type: int) -> str | None:
    if not element_type:
        return None
    names = importlib.import_module("onnx").TensorProto.DataType
    known = element_type in names.values()
    return WORDS.get(element_type) or (names.Name(element_type).lower() if known else f"type {element_type}")


def _value(info: Any) -> Value:
    tensor = info.type.tensor_type
    if not info.type.HasField("tensor_type"):
        return Value()
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(size.dim_value if size.HasField("dim_value") else None for size in tensor.shape.dim)
    return Value(dtype=_word(tensor.elem_type), shape=shape)


def _constant(tensor: Any) -> Constant:
    return Constant(dtype=_word(tensor.data_type), shape=tuple(tensor.dims), element=_element(tensor))


def _element(tensor: Any) -> float | None:
    """The one value that all elements have; None where they differ, or are many, or are no numbers."""
    if not 0 < prod(tensor.dims) <= SMALL or tensor.data_type == 8 or tensor.external_data:  # 8: strings
        return None
    try:
        values = importlib.import_module("onnx.numpy_helper").to_array(tensor).astype(np.float64).ravel()
    except (TypeError, ValueError):
        return None
    return float(values[0]) if (values == values[0]).all() else None


def _constant_of(node: Any) -> Constant | None:
    """What a Constant node holds, if it is a tensor or a number."""
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                return _constant(attribute.t)
            case "value_float":
                return Constant(dtype="float32", shape=(), element=attribute.f)
            case "value_int":
                return Constant(dtype="int64", shape=(), element=float(attribute.i))
            case "value_floats":
                values = set(attribute.floats)
                return Constant(
                    dtype="float32", shape=(len(attribute.floats),), element=values.pop() if len(values) == 1 else None
                )
            case "value_ints":
                return Constant(dtype="int64", shape=(len(attribute.ints),))
    return None


# --- preparing -------------------------------------------------------------------------------------------------------


def _feeds(model: Any, graph: Graph, found: Plan) -> dict[str, dict[str, Any]]:
    """For each operand that is fed: its tensor, dtype, and shape with None for sizes that are free."""
    values = {tensor: graph.value(tensor) for tensor in found.feeds.values()}
    if any(value.dtype is None for value in values.values()):
        values |= _inferred(model, values)
    feeds = {}
    for name, tensor in found.feeds.items():
        value = values[tensor]
        dtype = value.dtype or next((graph.constants[held].dtype for held in found.own.values()), None)
        if dtype is None:
            raise UnclearModel(f"does not tell the dtype of {tensor!r}, which would be fed as {name}")
        shape = value.shape
        if shape is not None and not found.whole and name in ("x", "residual"):
            shape = (*(None for _ in shape[:-1]), *shape[-1:])
        feeds[name] = {"tensor": tensor, "dtype": dtype, "shape": None if shape is None else list(shape)}
    return feeds


def _inferred(model: Any, wanted: Mapping[str, Value]) -> dict[str, Value]:
    """What ONNX's own inference says of tensors inside the graph; nothing where it cannot say."""
    try:
        inferred = importlib.import_module("onnx.shape_inference").infer_shapes(model)
    except Exception:  # it raises various types, for models that run all the same
        return {}
    return {info.name: _value(info) for info in inferred.graph.value_info if info.name in wanted}


def _sliced(model: Any, found: Plan, feeds: Mapping[str, Mapping[str, Any]], folder: Path) -> bytes:
    """A model of the needed nodes alone, whose inputs are what is fed, with all its tensors in it."""
    onnx = importlib.import_module("onnx")
    makers = {name for node in found.nodes for name in node.outputs}
    reads = {name for node in found.nodes for name in node.inputs} | {found.output}
    sliced = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    sliced.graph.name = model.graph.name or "norm"
    for node in model.graph.node:
        if makers.intersection(node.output) or (node.op_type == "Constant" and reads.intersection(node.output)):
            sliced.graph.node.append(node)
    fed = {feed["tensor"] for feed in feeds.values()}
    for kept, all_of_them in (
        (sliced.graph.initializer, model.graph.initializer),
        (sliced.graph.sparse_initializer, model.graph.sparse_initializer),
    ):
        kept.extend(each for each in all_of_them if getattr(each, "values", each).name in reads - fed)
    for feed in feeds.values():
        element_type = next(number for number in onnx.TensorProto.DataType.values() if _word(number) == feed["dtype"])
        shape = feed["shape"]
        sliced.graph.input.append(onnx.helper.make_tensor_value_info(feed["tensor"], element_type, shape))
    known = [info for info in (*model.graph.output, *model.graph.value_info) if info.name == found.output]
    sliced.graph.output.append(onnx.ValueInfoProto(name=found.output) if not found.whole or not known else known[0])
    load_external(sliced, folder, lambda _: True)
    try:
        return bytes(sliced.SerializeToString())
    except ValueError:
        raise BadModel(
            "needs more than 2 GiB of tensors for this norm; name a smaller part with `x:` and `output:`"
        ) from None


def _own(model: Any, found: Plan, folder: Path, answer: Path) -> dict[str, dict[str, Any]]:
    """The operands that the model brings: written to own.safetensors, each with one axis, and described."""
    described, values = {}, {}
    for operand, name in found.own.items():
        load_external(model, folder, lambda tensor, name=name: tensor.name == name)
        tensor = find_tensor(model, name)
        array = None if tensor is None else tensor_values(tensor)
        if array is None:
            raise UnclearModel(f"keeps its {operand} in {name!r}, which is no tensor of {', '.join(ELEMENT_TYPES)}")
        values[operand] = array.reshape(-1)
        described[operand] = {"tensor": name, "dtype": word_of(array), "shape": list(array.shape)}
    write_tensors(answer / "own.safetensors", values, {})
    return described


def find_tensor(model: Any, name: str) -> Any:
    """The TensorProto of an initialiser, or of a Constant node's value; None where it is neither."""
    for tensor in model.graph.initializer:
        if tensor.name == name:
            return tensor
    for node in model.graph.node:
        if node.op_type == "Constant" and name in node.output:
            return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    return None


def tensor_values(tensor: Any) -> Array | None:
    """A tensor's values, or None where their dtype is none of ours or their bytes do not fit."""
    word = WORDS.get(tensor.data_type)
    try:
        values = importlib.import_module("onnx.numpy_helper").to_array(tensor)
    except (TypeError, ValueError):
        return None
    return None if word is None else np.ascontiguousarray(values).view(dtype_of(word)).reshape(values.shape)


def _about(norm: Norm | None) -> dict[str, Any] | None:
    if norm is None:
        return None
    eps = norm.eps
    return {
        "kind": norm.kind,
        "told": str(norm),
        "center": norm.center,
        "eps": eps and {"value": eps.value, "dtype": eps.dtype, "placement": eps.placement, "trail": eps.trail},
    }


def _versions(engine: str) -> dict[str, str]:
    """Of what can change numbers. The evaluator computes by numpy."""
    names = ("onnx", "onnxruntime") if engine == "onnxruntime" else ("onnx", "numpy")
    return {"python": sys.version.split()[0], **{name: _version(name) for name in names}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # installed under another name, such as onnxruntime-gpu
        return str(importlib.import_module(package).__version__)


def _digests(path: Path, data: bytes, external: Mapping[str, Path]) -> dict[str, str]:
    """sha256 of the model file and of each file that it keeps tensors in."""
    found = {path.name: hashlib.sha256(data).hexdigest()}
    for location, beside in sorted(external.items()):
        with beside.open("rb") as file:
            found[location] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def main(folder: str) -> None:
    """Answers the request in `folder`/request.json with `folder`/facts.json: the facts, or {"fault": a sentence}."""
    request = json.loads((Path(folder) / "request.json").read_text("utf-8"))
    try:
        facts = inspect(request, Path(folder))
    except (BadModel, UnclearModel) as fault:
        facts = {"fault": str(fault)}
    (Path(folder) / "facts.json").write_text(json.dumps(facts), "utf-8")
