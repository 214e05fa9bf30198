"""A preset against the implementation it was read off: same inputs, same bits, same dtype.

Rows are of two kinds. `hard` rows try everything (eps, subnormals, overflow, zeros), and need the implementation's own
order of addition. In `exact` rows every square and every partial sum is a float32, so that no order can differ.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.arrays import Array, bits, round_to, word_of
from rmsaudit.documents.preset import read_preset
from rmsaudit.emulator import emulate_arrays
from rmsaudit.semantics.resolve import resolve

Live = Callable[[Array, Array], Array]  # x[rows, width], gain[width] -> y[rows, width]

WIDTHS = (1, 3, 7, 8, 31, 64, 100, 513, 768, 1000, 4096, 5000)
EXACT_WIDTHS = (16, 64, 100, 768)
ORDERS = ("pairwise", "sequential", "torch_cpu", "lanes:32", "blocks:128", "exact")
SCALES = (1, 1, 1e-2, 1e-3, 1e-3, 1e-4, 1e-5, 1e-6, 3, 30, 100, 1e-20, 1e-30)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A plain `pytest` does without the frameworks: these files are for `-m frameworks`, or when they are named."""
    named = any("frameworks" in argument for argument in config.args)
    return None if named or config.option.markexpr == "frameworks" else True


def hard_rows(word: str, width: int) -> Array:
    """float64 draws of very different sizes, one row of zeros, one constant, two that overflow when squared."""
    rng = np.random.default_rng(width)
    rows = rng.standard_normal((len(SCALES) + 4, width))
    rows[: len(SCALES)] *= np.array(SCALES)[:, None]
    zero, constant, large, largest = rows[-4:]
    zero[:] = 0
    constant[:] = 0.37
    large *= 300 if word == "float16" else 1e19
    np.copysign(6e4 if word == "float16" else 3e38, largest, out=largest)
    with np.errstate(over="ignore"):
        return round_to(rows, word)


def exact_rows(word: str, width: int) -> Array:
    """Integers below 2^8, times a power of two; their squares add up to less than 2^24 whole units."""
    rng = np.random.default_rng(width)
    largest = min(255, int((2**24 / width) ** 0.5))
    whole = rng.integers(-largest, largest + 1, size=(24, width)).astype(np.float64)
    return round_to(whole * np.exp2(np.resize([0, -6, -12, -16], 24))[:, None], word)


def gains(word: str, width: int) -> Array:
    return round_to(1 + np.random.default_rng(width + 1).standard_normal(width), word)


def emulate(preset: str, x: Array, gain: Array, **changes: Any) -> Array:
    """`preset` with `changes` on x and gain; the residual of a preset that adds one is zero."""
    declared = {"width": x.shape[1], "input_dtype": word_of(x), "gain_dtype": word_of(gain)}
    spec = resolve({**read_preset(preset).values, **declared, **changes})
    return emulate_arrays(spec, x, gain, np.zeros_like(gain), np.zeros_like(x))


def assert_same_bits(got: Array, live: Array) -> None:
    """Equal dtypes and equal patterns; any NaN equals any other."""
    assert word_of(got) == word_of(live)
    differ = bits(got) != bits(np.ascontiguousarray(live))
    differ &= ~(np.isnan(got.astype(np.float64)) & np.isnan(live.astype(np.float64)))
    where = [f"row {row}, column {column}" for row, column in np.argwhere(differ)[:3]]
    assert not differ.any(), f"{differ.sum()} of {differ.size} differ, first at {'; '.join(where)}"


@pytest.fixture
def agrees_on_hard_rows() -> Callable[..., None]:
    """(preset, live, (input dtype, gain dtype), accumulate_order, **changes): the same bits at a dozen widths."""

    def check(preset: str, live: Live, dtypes: tuple[str, str], order: str, **changes: Any) -> None:
        for width in WIDTHS:
            x, gain = hard_rows(dtypes[0], width), gains(dtypes[1], width)
            assert_same_bits(emulate(preset, x, gain, accumulate_order=order, **changes), live(x, gain))

    return check


@pytest.fixture
def agrees_on_exact_rows() -> Callable[..., None]:
    """(preset, live, (input dtype, gain dtype), **changes): the same bits in every order of addition."""

    def check(preset: str, live: Live, dtypes: tuple[str, str], **changes: Any) -> None:
        for width in EXACT_WIDTHS:
            x, gain = exact_rows(dtypes[0], width), gains(dtypes[1], width)
            wanted = live(x, gain)
            for order in ORDERS:
                assert_same_bits(emulate(preset, x, gain, accumulate_order=order, **changes), wanted)

    return check


@pytest.fixture
def to_torch() -> Callable[[Array], Any]:
    """numpy to torch, bits unchanged."""
    import torch

    def convert(array: Array) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    return convert


@pytest.fixture
def from_torch() -> Callable[[Any], Array]:
    """torch to numpy, bits unchanged."""
    import torch

    def convert(tensor: Any) -> Array:
        tensor = tensor.detach().contiguous()
        if tensor.dtype == torch.bfloat16:
            return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        return tensor.numpy()

    return convert
