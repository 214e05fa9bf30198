"""Sides that do not compute what they declare: what the search for a cause is measured on. Called as f(x, gain)."""

import ml_dtypes
import numpy as np

BFLOAT16 = ml_dtypes.bfloat16


def _norm(x, gain, *, eps=1e-5, rounds_before=True):
    """x, gain in bfloat16, computed in float32. rounds_before: x·i is rounded before the gain as well."""
    wide = x.astype(np.float32)
    mean = np.mean(wide * wide, axis=-1, keepdims=True, dtype=np.float32)
    y = wide / np.sqrt(mean + np.float32(eps))
    if rounds_before:
        y = y.astype(BFLOAT16).astype(np.float32)
    return (y * gain.astype(np.float32)).astype(BFLOAT16)


def one_change(x, gain):
    """Another eps."""
    return _norm(x, gain, eps=1e-6)


def two_changes(x, gain):
    """Another eps, and no rounding before the gain."""
    return _norm(x, gain, eps=1e-6, rounds_before=False)


def unexplained(x, gain):
    """Five percent of noise."""
    noise = np.random.default_rng(1).normal(size=x.shape).astype(np.float32)
    return (_norm(x, gain).astype(np.float32) * (1 + np.float32(0.05) * noise)).astype(BFLOAT16)
