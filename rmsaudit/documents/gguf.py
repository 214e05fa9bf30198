"""eps from the metadata of a GGUF file, read by hand: the `gguf` package brings numpy and maps the whole file.

Layout (ggml, docs/gguf.md): magic, uint32 version, uint64 count of tensors, uint64 count of pairs; then each pair as
key, uint32 type, value. A string is a uint64 length and UTF-8 bytes; an array a uint32 type, a uint64 count and its
values. Nothing behind the two pairs in question is looked at, and arrays of numbers are jumped over.
"""

import os
import struct
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

from rmsaudit.documents.files import opened
from rmsaudit.documents.problems import Refused, quoted

ARCHITECTURE = "general.architecture"
EPS_SUFFIX = ".attention.layer_norm_rms_epsilon"

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_LONGEST_STRING = 65535  # bytes; the specification's limit for keys, and enough for the name of an architecture
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


def eps_of_gguf(path: Path) -> tuple[float, str]:
    """eps as a float64, and the key it stands under. Raises Refused.

    The file holds a float32; what comes back is the shortest decimal that rounds to it, as the converter was given it:
    1e-05, not 9.999999747378752e-06.
    """
    with opened(path) as file:
        key, kind, value = _find_eps(_Stream(file))
    if kind not in (_FLOAT32, _FLOAT64) or not 0 < value < inf:
        raise Refused(f"gives {quoted(key)} as {quoted(f'{value}')}; eps must be a float above 0", "out-of-range")
    return (shortest_decimal(value) if kind == _FLOAT32 else value), key


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
        self.size = os.fstat(file.fileno()).st_size

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise Refused("ends in the middle of its metadata; fetch it again", "bad-gguf")
        return data

    def skip(self, count: int) -> None:
        if self.file.tell() + count > self.size:
            raise Refused("ends in the middle of its metadata; fetch it again", "bad-gguf")
        self.file.seek(count, os.SEEK_CUR)

    def number(self, kind: int) -> Any:
        code = "<" + _NUMBERS[kind]
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def string(self) -> str:
        length = self.number(_UINT64)
        if length > _LONGEST_STRING:
            raise Refused(f"has a key of {length} bytes; it is damaged", "bad-gguf")
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A number; a string; None for an array, or for a string that is too long to matter."""
        if kind in _NUMBERS:
            return self.number(kind)
        if kind == _STRING:
            length = self.number(_UINT64)
            if length <= _LONGEST_STRING:
                return self.take(length).decode("utf-8", "replace")
            self.skip(length)
        elif kind == _ARRAY:
            self._skip_array(self.number(_UINT32), self.number(_UINT64))
        else:
            raise Refused(f"has a value of type {kind}, which GGUF does not know; it is damaged", "bad-gguf")
        return None

    def _skip_array(self, kind: int, count: int) -> None:
        if kind in _NUMBERS:
            self.skip(count * struct.calcsize("<" + _NUMBERS[kind]))
        elif kind == _STRING:
            for _ in range(count):
                self.skip(self.number(_UINT64))
        else:
            raise Refused(f"has an array of type {kind}, which is not read; it is damaged", "bad-gguf")


def _find_eps(stream: _Stream) -> tuple[str, int, Any]:
    """The key of eps, the type of its value, and the value."""
    if stream.take(4) != _MAGIC:
        raise Refused("is not GGUF: it does not begin with those letters; name another file", "bad-gguf")
    version = stream.number(_UINT32)
    if version not in _VERSIONS:
        raise Refused(f"is GGUF version {version}; versions 2 and 3, little-endian, are read", "bad-gguf")
    stream.number(_UINT64)  # the count of tensors
    architecture, found = None, {}
    for _ in range(stream.number(_UINT64)):
        key, kind = stream.string(), stream.number(_UINT32)
        value = stream.value(kind)
        if key == ARCHITECTURE:
            architecture = value
        elif key.endswith(EPS_SUFFIX):
            found[key] = key, kind, value
        if (wanted := f"{architecture}{EPS_SUFFIX}") in found:
            return found[wanted]
    key = f"{architecture or '<architecture>'}{EPS_SUFFIX}"
    raise Refused(f"gives no eps; looked for {quoted(key)}; write the number", "no-eps")
