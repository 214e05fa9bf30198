"""A GGUF file's metadata and where its tensors lie, read by hand: the `gguf` package brings numpy and maps the file.

Layout (ggml, docs/gguf.md): magic, uint32 version, uint64 count of tensors, uint64 count of pairs; then each pair as
key, uint32 type, value; then each tensor as name, uint32 count of axes, uint64 axes (the innermost first), uint32
type, uint64 offset; then, from the next multiple of the alignment on, the data, in which offsets count from 0. A string
is a uint64 length and UTF-8 bytes; an array a uint32 type, a uint64 count and its values.
"""

import os
import struct
from dataclasses import dataclass
from math import inf, prod
from pathlib import Path
from typing import Any, BinaryIO

from rmsaudit.documents.files import opened
from rmsaudit.documents.problems import Refused, quoted
from rmsaudit.documents.tensors import GIT_LFS, TensorPlace
from rmsaudit.formats import canonical
from rmsaudit.storage import size_of

ARCHITECTURE = "general.architecture"
EPS_SUFFIX = ".attention.layer_norm_rms_epsilon"
MOST_KEPT = 1024  # elements of an array; what configures a model has one a layer at most, and a tokenizer 10^5

_ALIGNMENT = "general.alignment"
_DEFAULT_ALIGNMENT = 32
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_LONGEST_STRING = 65535  # bytes; the specification's limit for keys, and enough for the name of an architecture
_MOST_AXES = 4  # GGML_MAX_DIMS
_LEAST_PAIR_BYTES = 8 + 4 + 1
_LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8
_MOST_STRINGS = 2**24  # of one array; a tokenizer has up to 10^6
_CHUNK = 2**20
_UINT32, _FLOAT32, _STRING, _ARRAY, _UINT64, _FLOAT64 = 4, 6, 8, 9, 10, 12
_NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    _UINT32: "I",
    5: "i",
    _FLOAT32: "f",
    7: "?",
    _UINT64: "Q",
    11: "q",
    _FLOAT64: "d",
}
# ggml_type: its name, and how many elements share how many bytes (gguf 0.19, constants.py); one of a later version
# has no name here, and its length is taken to be all that there is up to the next tensor
_TENSOR_TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Gguf:
    """What a file says beside the values of its tensors.

    metadata: its pairs, without arrays of more than MOST_KEPT elements and strings of more than 64 KiB. A float32 comes
    as the float64 that is equal to it; `shortest_decimal` gives the number that was meant. types: GGUF's number for the
    type of each pair's value.
    """

    metadata: dict[str, Any]
    types: dict[str, int]
    tensors: dict[str, TensorPlace]


def read_gguf(path: Path) -> Gguf:
    """Raises Refused for a file that is not as the format says, one cut short in the middle of a tensor included."""
    with opened(path) as file:
        stream = _Stream(file)
        tensor_count, pair_count = _counts(stream)
        metadata, types = _pairs(stream, pair_count)
        tensors = _tensors(stream, path, tensor_count, _alignment(metadata))
    return Gguf(metadata=metadata, types=types, tensors=tensors)


def eps_of_gguf(path: Path) -> tuple[float, str]:
    """eps as a float64, and the key it stands under. Raises Refused.

    The file holds a float32; what comes back is the shortest decimal that rounds to it, as the converter was given it:
    1e-05, not 9.999999747378752e-06. Nothing behind the metadata is looked at.
    """
    with opened(path) as file:
        stream = _Stream(file)
        metadata, types = _pairs(stream, _counts(stream)[1])
    key = f"{metadata.get(ARCHITECTURE, '<architecture>')}{EPS_SUFFIX}"
    if key not in types:
        raise Refused(f"gives no eps; looked for {quoted(key)}; write the number", "no-eps")
    value = metadata.get(key)
    if not isinstance(value, float) or not 0 < value < inf:
        raise Refused(f"gives {quoted(key)} as {quoted(f'{value}')}; eps must be a float above 0", "out-of-range")
    return (shortest_decimal(value) if types[key] == _FLOAT32 else value), key


def shortest_decimal(value: float) -> float:
    """The float64 of the shortest decimal that rounds to this float32 value; nine digits always do."""
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, 9))
    return next((c for c in candidates if _rounded(c) == value), float(f"{value:.9g}"))


def _rounded(value: float) -> float:
    """`value` rounded to float32, ties to even."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return inf


class _Stream:
    """A file from which no more is taken than it has."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = size_of(file)
        self.reading = "metadata"

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise self.cut_short()
        return data

    def skip(self, count: int) -> None:
        if self.file.tell() + count > self.size:
            raise self.cut_short()
        self.file.seek(count, os.SEEK_CUR)

    def cut_short(self) -> Refused:
        return Refused(f"ends in the middle of its {self.reading}; fetch it again", "bad-gguf")

    def count(self, least_bytes: int) -> int:
        """How many of something follow; refused where the file has no room for as many."""
        announced: int = self.number(_UINT64)
        if announced * least_bytes > self.size:
            raise self.cut_short()
        return announced

    def number(self, kind: int) -> Any:
        code = "<" + _NUMBERS[kind]
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def numbers(self, kind: int, count: int) -> list[Any]:
        code = f"<{count}{_NUMBERS[kind]}"
        return list(struct.unpack(code, self.take(struct.calcsize(code))))

    def string(self) -> str:
        """A key, or a tensor's name."""
        length = self.number(_UINT64)
        if length > _LONGEST_STRING:
            raise Refused(f"has a key of {length} bytes; it is damaged", "bad-gguf")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A number, a string or a list; None for one that is too long to matter."""
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array(self.number(_UINT32), self.number(_UINT64))
        raise Refused(f"has a value of type {kind}, which GGUF does not know; it is damaged", "bad-gguf")

    def _text(self) -> str | None:
        length = self.number(_UINT64)
        if length <= _LONGEST_STRING:
            return self.take(length).decode("utf-8", "replace")
        self.skip(length)
        return None

    def _array(self, kind: int, count: int) -> list[Any] | None:
        if kind not in _NUMBERS and kind != _STRING:
            raise Refused(f"has an array of type {kind}, which is not read; it is damaged", "bad-gguf")
        if count <= MOST_KEPT:
            return self.numbers(kind, count) if kind in _NUMBERS else [self._text() for _ in range(count)]
        if kind in _NUMBERS:
            self.skip(count * struct.calcsize("<" + _NUMBERS[kind]))
        else:
            self._skip_strings(count)
        return None

    def _skip_strings(self, count: int) -> None:
        """Walks over them in chunks: a tokenizer has 10^5 of a few bytes each."""
        if 8 * count > self.size:
            raise self.cut_short()
        if count > _MOST_STRINGS:
            raise Refused(f"has an array of {count} strings, more than {_MOST_STRINGS}; it is damaged", "bad-gguf")
        length_at = struct.Struct("<Q").unpack_from
        chunk, at = b"", 0
        for _ in range(count):
            if at + 8 > len(chunk):
                chunk, at = chunk[at:] + self.file.read(_CHUNK), 0
                if len(chunk) < 8:
                    raise self.cut_short()
            at += 8 + length_at(chunk, at)[0]
            if at > len(chunk):
                self.skip(at - len(chunk))
                chunk, at = b"", 0
        self.file.seek(at - len(chunk), os.SEEK_CUR)


def _counts(stream: _Stream) -> tuple[int, int]:
    """How many tensors and how many pairs there are."""
    magic = stream.take(4)
    if magic == GIT_LFS[:4]:
        raise Refused("is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`", "git-lfs")
    if magic != _MAGIC:
        raise Refused("is not GGUF: it does not begin with those letters; name another file", "bad-gguf")
    version = stream.number(_UINT32)
    if version & 0xFFFF == 0:
        says = "is GGUF for big-endian machines; convert it with gguf-py's gguf_convert_endian.py to little-endian"
        raise Refused(says, "bad-gguf")
    if version not in _VERSIONS:
        says = f"is GGUF version {version}; versions 2 and 3, little-endian, are read; convert the model again"
        raise Refused(says, "bad-gguf")
    return stream.count(_LEAST_TENSOR_BYTES), stream.count(_LEAST_PAIR_BYTES)


def _pairs(stream: _Stream, count: int) -> tuple[dict[str, Any], dict[str, int]]:
    """The values by key, and their types; the latter has also the keys of what is too long to be kept."""
    metadata, types = {}, {}
    for _ in range(count):
        key, kind = stream.string(), stream.number(_UINT32)
        if key in types:
            raise Refused(f"gives {quoted(key)} twice; it is damaged", "bad-gguf")
        value = stream.value(kind)
        types[key] = kind
        if value is not None:
            metadata[key] = value
    return metadata, types


def _alignment(metadata: dict[str, Any]) -> int:
    alignment = metadata.get(_ALIGNMENT, _DEFAULT_ALIGNMENT)
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        says = f"gives {_ALIGNMENT} as {quoted(f'{alignment}')}, which is no power of two; it is damaged"
        raise Refused(says, "bad-gguf")
    return alignment


def _tensors(stream: _Stream, path: Path, count: int, alignment: int) -> dict[str, TensorPlace]:
    stream.reading = "list of tensors"
    described: dict[str, _Described] = {}
    for _ in range(count):
        tensor = _Described.read(stream)
        if tensor.name in described:
            raise Refused(f"holds {quoted(tensor.name)} twice; it is damaged", "bad-gguf")
        described[tensor.name] = tensor
    start = stream.file.tell() + -stream.file.tell() % alignment
    found: dict[str, TensorPlace] = {}
    reached = start
    in_order = sorted(described.values(), key=lambda tensor: tensor.offset)
    ends = [start + tensor.offset for tensor in in_order[1:]] + [stream.size]
    for tensor, end in zip(in_order, ends, strict=False):
        place = tensor.place(path, start, end)
        if tensor.offset % alignment or place.offset < reached:
            raise Refused(f"gives {quoted(place.name)} a place inside another tensor; it is damaged", "bad-gguf")
        reached = place.offset + place.length
        if reached > stream.size:
            says = f"ends in the middle of {quoted(place.name)}: that goes to byte {reached} of {stream.size}"
            raise Refused(f"{says}; fetch it again", "bad-gguf")
        found[place.name] = place
    return {name: found[name] for name in described}


@dataclass(frozen=True, kw_only=True)
class _Described:
    """One line of the list of tensors. shape: the outermost axis first, as numpy has it."""

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int

    @staticmethod
    def read(stream: _Stream) -> "_Described":
        name, axes = stream.string(), stream.number(_UINT32)
        if axes > _MOST_AXES:
            raise Refused(
                f"gives {quoted(name)} {axes} axes, and GGUF has up to {_MOST_AXES}; it is damaged", "bad-gguf"
            )
        shape = tuple(reversed(stream.numbers(_UINT64, axes)))
        return _Described(name=name, shape=shape, type=stream.number(_UINT32), offset=stream.number(_UINT64))

    def place(self, path: Path, start: int, end: int) -> TensorPlace:
        """Its place in the file. start: of the data; end: where the next tensor begins."""
        begin = start + self.offset
        name, elements, block_bytes = _TENSOR_TYPES.get(self.type, (f"type {self.type}", 1, 0))
        if self.shape and self.shape[-1] % elements:
            says = f"holds {quoted(self.name)} as {name} with rows of {self.shape[-1]}; it is damaged"
            raise Refused(says, "bad-gguf")
        length = prod(self.shape) // elements * block_bytes if block_bytes else max(end - begin, 0)
        return TensorPlace(
            path=path, name=self.name, dtype=canonical(name) or name, shape=self.shape, offset=begin, length=length
        )
