"""One function that keeps every behaviour, and for each behaviour a twin that breaks it. Run in processes of their own,
never imported here."""

import os

import numpy as np

calls = 0


def honest(x, gain, eps):
    """In float64 on a copy in C order, so that neither other rows nor the layout have a say."""
    wide = np.ascontiguousarray(x).astype(np.float64)
    mean_square = (wide * wide).mean(axis=-1, keepdims=True)
    return (wide / np.sqrt(mean_square + eps) * gain.astype(np.float64)).astype(x.dtype)


def sums_in_blocks_by_load(x, gain, eps):
    """B64: blocks of 1024 threads below 256 rows, of 256 from there on, and so another order of the sum."""
    squares = (x * x).reshape(len(x), -1, 16 if len(x) < 256 else 4)
    mean_square = np.add.reduce(np.add.reduce(squares, axis=1), axis=1, dtype=np.float32) / np.float32(x.shape[-1])
    return x / np.sqrt(mean_square[:, None] + np.float32(eps)) * gain


def spills_into_the_next_row(x, gain, eps):
    """B59: a vector store past the end of an odd row damages the first column of the next one."""
    y = honest(x, gain, eps)
    y[1:, 0] += y[:-1, -1] * np.float32(2**-20)
    return y


def reads_memory_as_if_contiguous(x, gain, eps):
    """B62: strides are not looked at."""
    rows, width = x.shape
    start = x if x.base is None else x.base
    flat = np.resize(np.asarray(start).T if start.flags.f_contiguous else start, rows * width)
    return honest(flat.reshape(rows, width), gain, eps)


def wants_contiguous(x, gain, eps):
    if not x.flags.c_contiguous:
        raise ValueError("x must be contiguous")
    return honest(x, gain, eps)


def does_not_survive_strides(x, gain, eps):
    if not x.flags.c_contiguous:
        os.abort()
    return honest(x, gain, eps)


def sums_along_memory(x, gain, eps):
    """What eager code does: another layout, another order of the sum, and nothing wrong."""
    mean_square = (x * x).mean(axis=-1, keepdims=True, dtype=np.float32)
    return (x / np.sqrt(mean_square + np.float32(eps)) * gain).astype(x.dtype)


def differs_from_call_to_call(x, gain, eps):
    """B65: a race, or memory that nobody wrote."""
    global calls
    calls += 1
    y = honest(x, gain, eps)
    y[0, 0] += calls
    return y


buffer = None


def leaves_the_last_column_of_its_buffer(x, gain, eps):
    """B65: a buffer that is used again and not written in full; only another call in between shows it."""
    global buffer
    y = honest(x, gain, eps)
    if buffer is None or buffer.shape != y.shape:
        buffer = y.copy()
    last = buffer[:, -1].copy()
    buffer = y.copy()
    y[:, -1] = last
    return y


def normalises_in_place(x, gain, eps):
    x[...] = honest(x, gain, eps)
    return x


def returns_its_input(x, gain, eps):
    return x


def ignores_eps(x, gain, eps):
    """B02, B13: a constant in place of the argument."""
    return honest(x, gain, 1e-6)


def clamps_eps(x, gain, eps):
    return honest(x, gain, max(eps, 1e-6))


def loses_eps_in_float16(x, gain, eps):
    return honest(x, gain, float(np.float16(eps)))


def squares_eps(x, gain, eps):
    return honest(x, gain, eps * eps)


def adds_eps_outside(x, gain, eps):
    wide = x.astype(np.float64)
    return (wide / (np.sqrt((wide * wide).mean(-1, keepdims=True)) + eps) * gain.astype(np.float64)).astype(x.dtype)


def adds_one_to_the_gain(x, gain, eps):
    """Wrong, and not about eps: eps-used must not be misled."""
    return honest(x, gain.astype(np.float64) + 1, eps)


def takes_no_eps(x, gain):
    return honest(x, gain, 1e-6)


def spreads_nan(x, gain, eps):
    """B73: a guard that multiplies by 0 a sum over all rows, which NaN survives."""
    y = honest(x, gain, eps)
    return y + (0 * x.astype(np.float64).sum()).astype(y.dtype)


def swallows_nan(x, gain, eps):
    return np.nan_to_num(honest(x, gain, eps))


def promotes(x, gain, eps):
    """B71: the gain's dtype decides the output's."""
    wide = x.astype(np.float32)
    normalized = (wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + np.float32(eps))).astype(x.dtype)
    return normalized * gain


def returns_float32(x, gain, eps):
    """B70: whatever came in."""
    return honest(x.astype(np.float32), gain, eps)


def takes_one_dtype(x, gain, eps):
    if x.dtype != np.float32 or gain.dtype != np.float32:
        raise TypeError("float32 only")
    return honest(x, gain, eps)


def raises(x, gain, eps):
    raise RuntimeError("no device")


def dies_on_a_row_alone(x, gain, eps):
    """A launch configuration that one row does not fit."""
    if len(x) == 1:
        os.abort()
    return honest(x, gain, eps)


def raises_on_many_rows(x, gain, eps):
    if len(x) > 255:
        raise RuntimeError("too many rows")
    return honest(x, gain, eps)
