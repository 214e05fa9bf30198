"""Where a tensor lies in a safetensors file, without numpy and without reading its values.

The header is read by hand: the safetensors package names no offset in its errors, opens only through a framework, and
cannot say which names would have been there. Its format (huggingface/safetensors, README "Format"): a little-endian
uint64, the length of the header; the header, a JSON object of name to dtype, shape and data_offsets; the data, which
the tensors fill without gap or overlap.
"""

import hashlib
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from rmsaudit.documents import strict_json
from rmsaudit.documents.files import opened
from rmsaudit.documents.problems import Refused, nearest, quoted
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.formats import FORMATS, canonical
from rmsaudit.storage import size_of

MOST_HEADER_BYTES = 100_000_000  # the format's own limit
GIT_LFS = b"version https://git-lfs"  # how a file begins that stands for another one, which was not fetched
MOST_AXES = 64  # numpy's limit
MOST_NAMES_COMPARED = 5000
_METADATA = "__metadata__"
_CHUNK = 2**20


@dataclass(frozen=True, kw_only=True)
class TensorPlace:
    """One tensor's bytes: `length` of them, from `offset` on, counted from the beginning of the file.

    dtype: a word of `formats.FORMATS`, or the file's own word for what is no such format.
    """

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


def tensors_in(path: Path) -> dict[str, TensorPlace]:
    """Every tensor of a file by name. Raises Refused for a file that is not as the format says."""
    with opened(path) as file:
        size = size_of(file)
        header = _header(file, size)
    start = 8 + len(header)
    try:
        described = strict_json.loads(header)
    except Refused as refused:
        raise Refused(f"has a header that {refused.says}", refused.kind) from None
    places = [_place(path, name, entry, start) for name, entry in described.items() if name != _METADATA]
    _refuse_gaps(places, start, size)
    return {place.name: place for place in places}


def read_tensors(path: Path, told: str | None = None) -> dict[str, TensorPlace]:
    """As `tensors_in`, for a file that a flag names. Raises InputProblem; told: the path as the message has it."""
    try:
        return tensors_in(path)
    except Refused as refused:
        raise InputProblem([Problem(path=told or str(path), says=refused.says, kind=refused.kind)]) from None


def find_tensor(path: Path, name: str) -> TensorPlace:
    """One tensor of a file, which holds floats. Raises Refused; a name that is not there gets its nearest ones."""
    places = tensors_in(path)
    if name not in places:
        near = nearest(name, islice(places, MOST_NAMES_COMPARED), count=3)
        advice = (
            f"nearest: {', '.join(map(quoted, near))}"
            if near
            else f"it holds {len(places)} others, none of a similar name"
        )
        raise Refused(f"holds no tensor {quoted(name)}; {advice}", "no-such-tensor")
    place = places[name]
    if place.dtype not in FORMATS:
        says = f"holds {quoted(name)} as {quoted(place.dtype)}; a gain has one of {', '.join(FORMATS)}"
        raise Refused(says, "unknown-dtype")
    return place


def digest_of(place: TensorPlace) -> str:
    """sha256 of a tensor's bytes, in hex. Raises Refused where the file has changed under us."""
    seen = hashlib.sha256()
    left = place.length
    with opened(place.path) as file:
        file.seek(place.offset)
        while left and (chunk := file.read(min(left, _CHUNK))):
            seen.update(chunk)
            left -= len(chunk)
    if left:
        raise Refused("became shorter while it was read; try again", "bad-safetensors")
    return seen.hexdigest()


# bits of every dtype word that safetensors 0.8 knows; a word of a later version only goes unchecked
_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip


def _header(file: BinaryIO, size: int) -> bytes:
    first = file.read(8)
    if first == GIT_LFS[:8]:
        raise Refused("is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`", "git-lfs")
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > size - 8:
        says = f"is no safetensors file, or cut short: it has {size} bytes, and its first 8 announce {length} of header"
        raise Refused(f"{says}; fetch it again", "bad-safetensors")
    if length > MOST_HEADER_BYTES:
        says = f"has a header of {length} bytes, and the format allows {MOST_HEADER_BYTES}; it is damaged"
        raise Refused(says, "bad-safetensors")
    return file.read(length)


def _place(path: Path, name: str, entry: Any, start: int) -> TensorPlace:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]} if _are_counts(
            *shape, begin, end
        ):
            pass
        case _:
            says = f"describes {quoted(name)} without a dtype, shape and data_offsets that make sense; it is damaged"
            raise Refused(says, "bad-safetensors")
    bits = _BITS.get(dtype, 0) * prod(shape)
    if begin > end or (bits and bits != 8 * (end - begin)):
        says = f"gives {quoted(name)} the offsets {begin} to {end}, and {dtype} {shape} has {bits // 8} bytes"
        raise Refused(f"{says}; it is damaged", "bad-safetensors")
    word = canonical(dtype) if dtype in _BITS else None
    return TensorPlace(
        path=path, name=name, dtype=word or dtype, shape=tuple(shape), offset=start + begin, length=end - begin
    )


def _are_counts(*values: Any) -> bool:
    """Few enough, and small enough, that their product costs nothing."""
    small = all(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 for value in values)
    return small and len(values) <= MOST_AXES + 2


def _refuse_gaps(places: list[TensorPlace], start: int, size: int) -> None:
    """The tensors must fill the data, one behind the other: what overlaps, lies outside or is left over is refused."""
    in_order = sorted(places, key=lambda place: (place.offset, place.length))
    reached = start
    for place in in_order:
        if place.offset != reached:
            fault = "overlaps the tensor before it" if place.offset < reached else "leaves a gap before it"
            raise Refused(f"is damaged: {quoted(place.name)} {fault}", "bad-safetensors")
        reached += place.length
    if reached != size:
        raise Refused(
            f"is damaged or cut short: it has {size} bytes, and its tensors end at {reached}", "bad-safetensors"
        )
