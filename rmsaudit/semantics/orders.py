"""The orders in which a row can be added up, each written out so that no library release can move it.

pairwise     the first half plus the second half, again and again; an odd last element is carried along
sequential   left to right, one running sum
lanes:K      K running sums, element j into sum j mod K, then those K pairwise (SIMD lanes, warps, thread blocks)
blocks:B     each run of B elements pairwise (the last one filled up with zeros), then the totals left to right
torch_cpu    the cascade of torch's CPU sum over a contiguous row
exact        the exact sum, rounded once
"""

from math import ceil, log2

import numpy as np

from rmsaudit.arrays import Array, word_of
from rmsaudit.double_double import exact_sum


def sum_last_axis(terms: Array, order: str) -> Array:
    """Σ terms over the last axis, kept with length 1, in the dtype of `terms`; each addition rounds once to it.

    Raises ValueError for an order that is not one of the six.
    """
    if terms.shape[-1] == 0:
        return np.zeros((*terms.shape[:-1], 1), dtype=terms.dtype)
    match order.partition(":"):
        case ("pairwise", "", ""):
            return _pairwise(terms)
        case ("sequential", "", ""):
            return _sequential(terms)
        case ("torch_cpu", "", ""):
            return _torch_cpu(terms)
        case ("exact", "", ""):
            return exact_sum(terms, word_of(terms))
        case ("lanes", ":", number) if _counts(number):
            return _pairwise(_lanes(terms, int(number)))
        case ("blocks", ":", number) if _counts(number):
            return _sequential(_blocks(terms, int(number)))
    raise ValueError(f"no accumulate_order {order!r}")


def _counts(number: str) -> bool:
    return number.isdecimal() and int(number) > 0


def _pairwise(terms: Array) -> Array:
    while (size := terms.shape[-1]) > 1:
        half = size // 2
        added = terms[..., :half] + terms[..., half : 2 * half]
        terms = added if size == 2 * half else np.concatenate([added, terms[..., -1:]], axis=-1)
    return terms


def _sequential(terms: Array) -> Array:
    """`accumulate` is left to right by definition (numpy's float16 `sum` is neither sequential nor float16)."""
    return np.add.accumulate(terms, axis=-1)[..., -1:]


def _padded(terms: Array, multiple: int) -> Array:
    """Zeros appended up to a multiple; x + 0 is exact, so they change nothing."""
    missing = -terms.shape[-1] % multiple
    if not missing:
        return terms
    return np.concatenate([terms, np.zeros((*terms.shape[:-1], missing), dtype=terms.dtype)], axis=-1)


def _lanes(terms: Array, lanes: int) -> Array:
    padded = _padded(terms, lanes)
    steps = padded.reshape(*padded.shape[:-1], -1, lanes)
    return _running_total(steps)


def _running_total(steps: Array) -> Array:
    """Σ over axis −2, step by step, vectorised over the rest."""
    total = steps[..., 0, :]
    for step in range(1, steps.shape[-2]):
        total = total + steps[..., step, :]
    return total


def _blocks(terms: Array, size: int) -> Array:
    padded = _padded(terms, size)
    return _pairwise(padded.reshape(*padded.shape[:-1], -1, size))[..., 0]


# --- torch_cpu -------------------------------------------------------------------------------------------------------
# torch 2.13, aten/src/ATen/native/cpu/SumKernel.cpp: vectors of 8 floats (also where AVX-512 is reported), four
# interleaved accumulators, each of them a four-level cascade of chunks.

_VECTOR, _INTERLEAVED, _LEVELS = 8, 4, 4


def _torch_cpu(terms: Array) -> Array:
    size = terms.shape[-1]
    lanes = _VECTOR if size >= _VECTOR else 1
    vectors = size // lanes
    body = terms[..., : vectors * lanes].reshape(*terms.shape[:-1], vectors, lanes)
    per_lane = _interleaved(body)
    total = np.zeros(terms.shape[:-1], dtype=terms.dtype)
    for column in range(vectors * lanes, size):
        total = total + terms[..., column]
    for lane in range(lanes):
        total = total + per_lane[..., lane]
    return total[..., None]


def _interleaved(vectors: Array) -> Array:
    """Vectors [..., count, lanes] added into four cascades, vector j into cascade j mod 4; the leftovers into the
    first."""
    count = vectors.shape[-2]
    steps = count // _INTERLEAVED
    grouped = vectors[..., : steps * _INTERLEAVED, :]
    grouped = grouped.reshape(*vectors.shape[:-2], steps, _INTERLEAVED, vectors.shape[-1])
    cascades = _cascade(grouped)
    first = cascades[..., 0, :]
    for leftover in range(steps * _INTERLEAVED, count):
        first = first + vectors[..., leftover, :]
    for other in range(1, _INTERLEAVED):
        first = first + cascades[..., other, :]
    return first


def _cascade(steps: Array) -> Array:
    """Σ over axis −3: chunks of 2^p steps from zero, whose totals go up four levels; then the levels, lowest first."""
    count = steps.shape[-3]
    power = max(4, ceil(log2(count)) // _LEVELS) if count > 1 else 4
    chunk = 1 << power
    whole = count // chunk
    zero = np.zeros((*steps.shape[:-3], *steps.shape[-2:]), dtype=steps.dtype)
    levels = [zero] * _LEVELS
    chunks = steps[..., : whole * chunk, :, :].reshape(*steps.shape[:-3], whole, chunk, *steps.shape[-2:])
    totals = np.zeros((*steps.shape[:-3], whole, *steps.shape[-2:]), dtype=steps.dtype)
    for step in range(chunk if whole else 0):
        totals = totals + chunks[..., step, :, :]
    for index in range(whole):
        levels[1] = levels[1] + totals[..., index, :, :]
        done = (index + 1) * chunk
        for level in range(2, _LEVELS):
            if done % (1 << (power * level)):
                break
            levels[level] = levels[level] + levels[level - 1]
            levels[level - 1] = zero
    for step in range(whole * chunk, count):
        levels[0] = levels[0] + steps[..., step, :, :]
    total = levels[0]
    for level in range(1, _LEVELS):
        total = total + levels[level]
    return total
