"""onnx_model: every norm of an ONNX file and where every initialiser lies, read in a process of its own.

Of a large model, only the graph is read. Its values are left out before the onnx package sees it: each initialiser is
turned into an external one, whose file is the model itself. What is then looked up (an eps, an axis) is read from
there. Protobuf's encoding and ONNX's field numbers (onnx.proto) change for no one, so that following them by hand is
safe; every other field is passed on as it is.
"""

import importlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from rmsaudit.arrays import Array
from rmsaudit.formats import FORMATS
from rmsaudit.loaders.exchange import write_tensors
from rmsaudit.loaders.onnx_child import (
    LFS,
    SMALL,
    BadModel,
    drawn,
    external_files,
    find_tensor,
    load_external,
    parsed,
    tensor_values,
)
from rmsaudit.loaders.onnx_graph import OPERATORS, Constant, Graph, Node, Norm, constant, find_norms, vector_root
from rmsaudit.storage import open_binary, path_of, size_of

LOOSE = "loose.safetensors"  # beside the answer: gains from int32_data and Constant nodes

_TO_INITIALIZERS = (7, 5)  # ModelProto.graph, GraphProto.initializer
_VALUES = {4, 9, 10}  # TensorProto.float_data, .raw_data, .double_data: what lies there as it lies in memory
_MOST_VARINT_BYTES = 10
_OTHERWISE_LAST = -1  # the axis of an operator without that attribute


# --- the graph without its values ------------------------------------------------------------------------------------


def without_values(file: BinaryIO, name: str) -> bytes:
    """The model in `file`, in which each initialiser says where in the file called `name` its bytes are.

    Raises BadModel for a file that is cut short or no ONNX model.
    """
    size = size_of(file)
    if file.read(len(LFS)) == LFS:
        raise BadModel("is a Git LFS pointer, not the model itself; fetch it with `git lfs pull`")
    file.seek(0)
    return _message(file, size, name, _TO_INITIALIZERS)


def _message(file: BinaryIO, end: int, name: str, way: tuple[int, ...]) -> bytes:
    """A message that ends at byte `end`. way: the fields that lead from it to the initialisers; () in one of them."""
    kept, place = bytearray(), None
    while (begin := file.tell()) < end:
        number, wire, start, stop = _field(file, end)
        if wire == 2 and number in way[:1]:
            inner = _message(file, stop, name, way[1:])
            kept += _varint(number << 3 | 2) + _varint(len(inner)) + inner
        elif wire == 2 and not way and number in _VALUES and stop > start:
            if place is not None:
                raise BadModel("keeps an initialiser in several pieces; save it again with the onnx package")
            place = start, stop - start
        else:
            file.seek(begin)
            kept += file.read(stop - begin)
        file.seek(stop)
    return bytes(kept) + (_external(name, *place) if place else b"")


def _field(file: BinaryIO, end: int) -> tuple[int, int, int, int]:
    """Number and wire type of the field that begins here, and where its content starts and stops."""
    key = _read_varint(file, end)
    number, wire = key >> 3, key & 7
    if wire == 0:
        start = file.tell()
        _read_varint(file, end)
        return number, wire, start, file.tell()
    if wire not in (1, 2, 5):
        raise BadModel("is not an ONNX model: its bytes do not follow the format")
    length = _read_varint(file, end) if wire == 2 else {1: 8, 5: 4}[wire]
    start = file.tell()
    if start + length > end:
        raise BadModel("ends in the middle of its graph, or is not an ONNX model; fetch it again")
    return number, wire, start, start + length


def _read_varint(file: BinaryIO, end: int) -> int:
    value = 0
    for index in range(_MOST_VARINT_BYTES):
        byte = file.read(1) if file.tell() < end else b""
        if not byte:
            raise BadModel("ends in the middle of its graph, or is not an ONNX model; fetch it again")
        value |= (byte[0] & 0x7F) << 7 * index
        if byte[0] < 0x80:
            return value
    raise BadModel("is not an ONNX model: its bytes do not follow the format")


def _varint(value: int) -> bytes:
    coded = bytearray()
    while value >= 0x80:
        coded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*coded, value])


def _external(name: str, offset: int, length: int) -> bytes:
    """The fields of a TensorProto whose bytes lie elsewhere: data_location 1, and three external_data."""
    coded = bytearray(_varint(14 << 3) + b"\1")
    for key, value in (("location", name), ("offset", str(offset)), ("length", str(length))):
        texts = [text.encode() for text in (key, value)]
        entry = b"".join(_varint(number << 3 | 2) + _varint(len(text)) + text for number, text in enumerate(texts, 1))
        coded += _varint(13 << 3 | 2) + _varint(len(entry)) + entry
    return bytes(coded)


# --- what is told ----------------------------------------------------------------------------------------------------


def describe(text: str, folder: Path) -> dict[str, Any]:
    """The norms and initialisers of the model at `text`, a path or URL, as JSON takes them.

    tensors: by name, the file beside the model, dtype, shape, offset and length. norms: as
    documents.checkpoints.onnx.OnnxNorm has them. Gains that do not lie in a file as they lie in memory are written to
    LOOSE in `folder`. Raises BadModel and OSError.
    """
    if importlib.util.find_spec("onnx") is None:
        raise BadModel("needs onnx, which this Python does not have: pip install 'rmsaudit[onnx]'")
    path = path_of(text)
    with open_binary(path) as file:
        model = parsed(without_values(file, path.name))
    external = external_files(model, path.parent)
    if model.functions:
        model = importlib.import_module("onnx.inliner").inline_local_functions(model)
    places = {tensor.name: place for tensor in model.graph.initializer if (place := _place(tensor))}
    load_external(model, path.parent, lambda tensor: prod(tensor.dims) <= SMALL)
    graph = drawn(model.graph)
    sizes = {location: beside.stat().st_size for location, beside in external.items()}
    protos = {output: node for node in model.graph.node for output in node.output}
    norms = [_norm(graph, norm, protos[norm.nodes[0].outputs[0]]) for norm in find_norms(graph)]
    names = {norm[operand] for norm in norms for operand in ("gain", "bias")} - {None, *places}
    write_tensors(folder / LOOSE, {name: values for name in names if (values := _values(model, name)) is not None}, {})
    return {
        "tensors": {name: _tensor(name, graph.constants[name], place, sizes) for name, place in places.items()},
        "norms": norms,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "opsets": {opset.domain: opset.version for opset in model.opset_import},
    }


def _place(tensor: Any) -> tuple[str, int, int] | None:
    """Location, offset and length of an initialiser; length 0 where it is not given.

    None for one whose values do not lie in a file as they lie in memory (int32_data, string_data).
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if "location" not in entries:
        return None
    return entries["location"], int(entries.get("offset") or 0), int(entries.get("length") or 0)


def _values(model: Any, name: str) -> Array | None:
    """The values of an initialiser or Constant node; None where their dtype is none of ours."""
    tensor = find_tensor(model, name)
    return None if tensor is None else tensor_values(tensor)


def _tensor(name: str, held: Constant, place: tuple[str, int, int], sizes: Mapping[str, int]) -> dict[str, Any]:
    location, offset, length = place
    shape = [size or 0 for size in held.shape or ()]
    if held.dtype in FORMATS:
        needed = prod(shape) * FORMATS[held.dtype].bits // 8
        if length not in (0, needed):
            says = f"gives initialiser {name!r} {length} bytes, and {held.dtype} {shape} has {needed}"
            raise BadModel(f"{says}; it is damaged")
        length = needed
    length = length or sizes[location] - offset
    if offset + length > sizes[location]:
        raise BadModel(f"keeps tensor {name!r} beyond the end of {location!r}; that file is cut short")
    return {"file": location, "dtype": held.dtype, "shape": shape, "offset": offset, "length": length}


def _norm(graph: Graph, norm: Norm, proto: Any) -> dict[str, Any]:
    gain, offset = _stored(graph, norm.gain)
    return {
        "node": next((node.name for node in norm.nodes if node.name), ""),
        "operator": norm.kind,
        "output": norm.output,
        "axis": _axis(graph, norm.nodes[0], proto),
        "eps": None if norm.eps is None else asdict(norm.eps),
        "gain": gain,
        "gain_offset": offset,
        "bias": _stored(graph, norm.bias)[0],
        "has_gain": norm.gain is not None,
        "has_residual": norm.residual is not None,
        "center": norm.center,
    }


def _stored(graph: Graph, tensor: str | None) -> tuple[str | None, float]:
    """The initialiser that a gain or bias is made of, and the constant that the graph adds to it.

    No initialiser where it is fed, or computed otherwise than by casts, reshapes and that addition.
    """
    if tensor is None or vector_root(graph, tensor) is None:
        return None, 0.0
    added = 0.0
    while node := graph.producers.get(tensor):
        if node.op == "Add":
            added += sum(found[0] for other in node.inputs if (found := constant(graph, other)))
        tensor = next(other for other in node.inputs if vector_root(graph, other))
    return (tensor if tensor in graph.constants else None), added


def _axis(graph: Graph, node: Node, proto: Any) -> int | None:
    """The one axis of an operator or of the statistic of a chain; None where there are several, or all."""
    if node.op in OPERATORS:
        return int(node.attributes.get("axis", _OTHERWISE_LAST))
    axes = next((list(each.ints) for each in proto.attribute if each.name == "axes"), [])
    if len(node.inputs) > 1 and (found := constant(graph, node.inputs[1])):
        axes = [int(found[0])] if graph.value(node.inputs[1]).size == 1 else []
    return axes[0] if len(axes) == 1 else None


def main(folder: str) -> None:
    """Answers the request in `folder`/request.json with `folder`/answer.json, or with {"fault": a sentence} there."""
    request = json.loads((Path(folder) / "request.json").read_text("utf-8"))
    try:
        answer = describe(request["model"], Path(folder))
    except BadModel as fault:
        answer = {"fault": str(fault)}
    except OSError as error:
        answer = {"fault": f"cannot be read: {error.strerror or error}"}
    (Path(folder) / "answer.json").write_text(json.dumps(answer), "utf-8")
