"""The values of one tensor of a safetensors file, once `documents.tensors` has said where it lies."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rmsaudit.arrays import Array, bits_of, dtype_of
from rmsaudit.errors import CouldNotRun

if TYPE_CHECKING:
    from rmsaudit.documents.tensors import TensorPlace


def load(place: "TensorPlace") -> Array:
    """The tensor at `place`, of its shape and of the numpy dtype of its word. Reads nothing but its bytes.

    Raises CouldNotRun where the file is gone or has become shorter since it was looked at.
    """
    stored = bits_of(place.dtype).newbyteorder("<")
    count = prod(place.shape)
    try:
        patterns = np.fromfile(place.path, dtype=stored, count=count, offset=place.offset)
    except OSError as error:
        raise CouldNotRun(f"{place.path}: cannot be read any more ({error.strerror})") from None
    if patterns.size < count:
        raise CouldNotRun(f"{place.path}: became shorter while it was read; {place.name} is not all there")
    return patterns.astype(bits_of(place.dtype), copy=False).view(dtype_of(place.dtype)).reshape(place.shape)
