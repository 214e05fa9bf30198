"""exchange: arrays that cross to other programs and back, as safetensors files.

A safetensors file is a length (8 bytes, little-endian), a JSON header of that length, and the bytes of the tensors. It
is read and written here because the library's numpy side knows bfloat16 and float8 in one direction only, puts metadata
in an order that changes from run to run, and answers a broken file with its parser's words.
"""

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rmsaudit.arrays import Array, bits, bits_of, dtype_of, round_to, word_of
from rmsaudit.case import Case
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed, Observation, Ran
from rmsaudit.semantics import NormSpec

CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_WORDS = {code: word for word, code in CODES.items()}

MOST_HEADER_BYTES = 32 * 2**20  # a checkpoint of 10^5 tensors has about 12 MiB
MOST_DIMENSIONS = 32  # numpy's own limit was this for long
METADATA = "__metadata__"


class UnusableTensors(ValueError):
    """A tensor file that cannot be used. `says` follows the file's name; `kind` is a word for it."""

    def __init__(self, says: str, kind: str = "bad-tensors") -> None:
        self.says = says
        self.kind = kind
        super().__init__(says)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One tensor as the header has it. code: safetensors' dtype word, one that rmsaudit does not read included."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def dtype(self) -> str | None:
        """The dtype word, or None for a dtype that rmsaudit does not read."""
        return _WORDS.get(self.code)

    def __str__(self) -> str:
        return f"{self.dtype or self.code} {list(self.shape)}"


@dataclass(frozen=True)
class TensorFile:
    """A file whose header has been read and found sound; tensors are read one at a time."""

    path: Path
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str]
    body: int

    def read(self, name: str) -> Array:
        """The tensor `name`, in memory of its own. Raises KeyError, and UnusableTensors where the file has changed."""
        entry = self.entries[name]
        if entry.dtype is None:
            raise UnusableTensors(f"tensor {name!r} has dtype {entry.code}, which is none of {', '.join(FORMATS)}")
        patterns = np.empty(prod(entry.shape), bits_of(entry.dtype).newbyteorder("<"))
        with _open(self.path) as file:
            file.seek(self.body + entry.begin)
            if file.readinto(patterns.view(np.uint8).data) != patterns.nbytes:
                raise UnusableTensors(f"is cut short inside tensor {name!r}", "truncated")
        native = patterns.astype(bits_of(entry.dtype), copy=False)
        return native.view(dtype_of(entry.dtype)).reshape(entry.shape)


# --- reading ---------------------------------------------------------------------------------------------------------


def open_tensors(path: Path) -> TensorFile:
    """The header of a safetensors file, checked whole before any tensor is read. Raises UnusableTensors."""
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        raw = _header_bytes(file, size)
    body = 8 + len(raw)
    header = _header(raw)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise UnusableTensors(f"has a {METADATA} that is not text to text")
    entries = {name: _entry(name, value) for name, value in header.items()}
    _check_places(entries, size - body)
    return TensorFile(path, entries, metadata, body)


def _open(path: Path) -> BufferedReader:
    """An ordinary file, open for reading. A pipe or device is refused without waiting for it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise UnusableTensors("does not exist", "no-such-file") from None
        reason = error.strerror if isinstance(error, OSError) else "no system has such a path"
        raise UnusableTensors(f"cannot be read ({reason})", "unreadable") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnusableTensors("is not an ordinary file", "unreadable")
    return os.fdopen(descriptor, "rb")


def read_whole(path: Path, most: int) -> bytes:
    """All bytes of a small file. Raises UnusableTensors."""
    with _open(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise UnusableTensors(f"is larger than {most // 2**20} MiB", "too-large")
    return data


def _header_bytes(file: BufferedReader, size: int) -> bytes:
    if size < 8:
        raise UnusableTensors(f"has {size} bytes, and a safetensors file begins with 8 that give a length", "truncated")
    length = int.from_bytes(file.read(8), "little")
    if length > MOST_HEADER_BYTES:
        limit = MOST_HEADER_BYTES // 2**20
        raise UnusableTensors(f"claims a header of {length} bytes, more than {limit} MiB; it is not safetensors")
    raw = file.read(length)
    if len(raw) < length:
        raise UnusableTensors(f"claims a header of {length} bytes and ends after {len(raw)} of them", "truncated")
    return raw


def _header(raw: bytes) -> dict[str, Any]:
    header = parse_json(raw)
    if not isinstance(header, dict):
        raise UnusableTensors("has a header that is not a JSON object")
    return header


def parse_json(raw: bytes) -> Any:
    """JSON without repeated keys. Raises UnusableTensors, whatever the bytes are."""
    try:
        return json.loads(raw, object_pairs_hook=_without_repeats)
    except UnusableTensors:
        raise
    except (ValueError, RecursionError):
        raise UnusableTensors("is not JSON where it should be; it is of another kind, or damaged") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UnusableTensors(f"has {key!r} twice")
        found[key] = value
    return found


def _entry(name: str, value: Any) -> Entry:
    match value:
        case {"dtype": str(code), "shape": list(shape), "data_offsets": [begin, end], **rest} if not rest:
            pass
        case _:
            raise UnusableTensors(f"describes tensor {name!r} otherwise than by dtype, shape and data_offsets")
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)) or len(shape) > MOST_DIMENSIONS:
        raise UnusableTensors(f"has no usable shape or offsets for tensor {name!r}")
    entry = Entry(code=code, shape=tuple(shape), begin=begin, end=end)
    if entry.dtype is not None:
        needed = prod(shape) * FORMATS[entry.dtype].bits // 8
        if end - begin != needed:
            raise UnusableTensors(f"gives {end - begin} bytes to tensor {name!r}, and {entry} needs {needed}")
    return entry


def _check_places(entries: Mapping[str, Entry], size: int) -> None:
    """The tensors follow one another without gap or overlap, and end where the file ends."""
    reached = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != reached or entry.end < reached:
            raise UnusableTensors(f"has a gap or an overlap before tensor {name!r}")
        reached = entry.end
    if reached > size:
        raise UnusableTensors(f"is cut short: {size} of {reached} bytes of tensors are there", "truncated")
    if reached < size:
        raise UnusableTensors(f"holds {size - reached} bytes after its last tensor")


# --- writing ---------------------------------------------------------------------------------------------------------


def write_tensors(path: Path, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes `tensors` and `metadata` to a new file beside `path` and renames it. Equal contents give equal bytes.

    Wide dtypes come first, so that every tensor lies on a multiple of its item size. Raises OSError; `path` is then as
    it was.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header = _written_header([(name, tensors[name]) for name in names], metadata)
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(len(header).to_bytes(8, "little") + header)
            for name in names:
                patterns = bits(np.ascontiguousarray(tensors[name]))
                stream.write(patterns.astype(patterns.dtype.newbyteorder("<"), copy=False).tobytes())
        Path(beside).chmod(_new_file_mode())
        Path(beside).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise


def _written_header(tensors: list[tuple[str, Array]], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name, array in tensors:
        header[name] = {
            "dtype": CODES[word_of(array)],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    return text + b" " * (-len(text) % 8)


def _new_file_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


# --- what a side is fed, and what it gives back ----------------------------------------------------------------------


def fed(case: Case, spec: NormSpec) -> Case:
    """The case with every operand in the dtype that `spec` takes. Raises UnusableTensors where one would change.

    A battery holds its values in the coarser dtype of the two sides; a program of one side takes them in its own.
    """
    return replace(
        case,
        x=_exactly("x", case.x, spec.input_dtype),
        gain=_exactly("gain", case.gain, spec.gain_dtype),
        bias=_exactly("bias", case.bias, spec.gain_dtype),
        residual=_exactly("residual", case.residual, spec.residual_dtype),
    )


def _exactly(name: str, values: Array, word: str) -> Array:
    converted = exactly(values, word)
    if converted is None:
        raise UnusableTensors(f"{name} is given in {word_of(values)}, and not all of its values exist in {word}")
    return converted


def exactly(values: Array, word: str) -> Array | None:
    """`values` in dtype `word`, or None where that would change one of them. NaN stays NaN, whatever its bits."""
    if word_of(values) == word:
        return values
    with np.errstate(all="ignore"):
        converted = round_to(values, word)
        same = np.array_equal(converted.astype(np.float64), values.astype(np.float64), equal_nan=True)
    return converted if same else None


def operands(case: Case, spec: NormSpec) -> dict[str, Array]:
    """The operands that `spec` reads, by name."""
    named = {"x": case.x}
    if spec.gain_applied:
        named["gain"] = case.gain
    if spec.residual == "add":
        named["residual"] = case.residual
    if spec.bias:
        named["bias"] = case.bias
    return named


def observed(file: TensorFile, name: str, case: Case) -> Observation:
    """The tensor `name` as a side's output on `case`, or why it cannot be compared."""
    entry = file.entries[name]
    if entry.dtype is None:
        return Failed(f"{name!r} has dtype {entry.code}; what is compared is one of {', '.join(FORMATS)}")
    if entry.shape != case.x.shape:
        return Failed(f"{name!r} has shape {list(entry.shape)}; the input has {list(case.x.shape)}")
    try:
        return Ran(file.read(name))
    except UnusableTensors as problem:
        return Failed(f"{file.path.name} {problem.says}")


def listed(names: Iterable[str], most: int = 5) -> str:
    """Foreign names in a sentence: the first few, and how many more there are."""
    all_names = list(names)
    shown = ", ".join(repr(name if len(name) <= 60 else f"{name[:59]}…") for name in all_names[:most])
    return shown if len(all_names) <= most else f"{shown} and {len(all_names) - most} more"
