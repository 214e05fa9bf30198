"""The values of one tensor, once a reader of `documents` has said where its bytes lie, in whichever kind of file."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rmsaudit.arrays import Array, bits_of, dtype_of
from rmsaudit.errors import CouldNotRun
from rmsaudit.formats import FORMATS
from rmsaudit.storage import is_local, read_at

if TYPE_CHECKING:
    from rmsaudit.documents.tensors import TensorPlace


def load(place: "TensorPlace") -> Array:
    """The tensor at `place`, of its shape and of the numpy dtype of its word, in memory of its own.

    Nothing but its bytes is read, of a remote file too. Raises CouldNotRun for a dtype that is
    none of ours, and where the file is gone or has become shorter since it was looked at.
    """
    if place.dtype not in FORMATS:
        says = f"holds {place.name} as {place.dtype}, and values are read of {', '.join(FORMATS)}"
        raise CouldNotRun(f"{place.path}: {says}")
    try:
        patterns = _patterns(place)
    except OSError as error:
        raise CouldNotRun(f"{place.path}: cannot be read any more ({error.strerror or error})") from None
    if patterns.size < prod(place.shape):
        raise CouldNotRun(f"{place.path}: became shorter while it was read; {place.name} is not all there")
    return patterns.astype(bits_of(place.dtype), copy=False).view(dtype_of(place.dtype)).reshape(place.shape)


def _patterns(place: "TensorPlace") -> Array:
    """The bit patterns, as many as there are. Raises OSError."""
    stored = bits_of(place.dtype).newbyteorder("<")
    count = prod(place.shape)
    if is_local(place.path):
        return np.fromfile(place.path, dtype=stored, count=count, offset=place.offset)
    data = read_at(place.path, place.offset, count * stored.itemsize)
    return np.frombuffer(bytearray(data), dtype=stored, count=len(data) // stored.itemsize)
