"""The emulator around `evaluate`: blocks of rows, shapes, and quiet arithmetic."""

import numpy as np
import pytest

from rmsaudit import emulator
from rmsaudit.arrays import Array, word_of
from rmsaudit.case import Case
from rmsaudit.emulator import emulate_arrays, emulate_each
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import resolve


def operands(rows: int, width: int) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, width)).astype(np.float32)
    gain, bias = rng.standard_normal((2, width)).astype(np.float32)
    return x, gain, bias, rng.standard_normal((rows, width)).astype(np.float32)


SPECS = [
    resolve({"width": 12}),
    resolve({"width": 12, "groups": 3, "bias": True}),
    resolve({"width": 12, "residual": "add", "statistic_source": "rounded", "residual_out_dtype": "bfloat16"}),
    resolve({"width": 12, "association": "x*(i*g)", "inverse_dtype": "float16"}),
    resolve({"width": 12, "axes": (-2,), "bias": True}),
    resolve({"width": 12, "axes": (-2, -1)}),
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("elements", [1, 12, 40, 600])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, spec: NormSpec, elements: int) -> None:
    arrays = operands(50, 12)
    whole = emulate_arrays(spec, *arrays)
    monkeypatch.setattr(emulator, "BLOCK_ELEMENTS", elements)
    np.testing.assert_array_equal(emulate_arrays(spec, *arrays), whole)


@pytest.mark.parametrize("spec", SPECS)
def test_operands_are_only_read(spec: NormSpec) -> None:
    arrays = operands(7, 12)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    emulate_arrays(spec, *arrays)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_shape_and_dtype_of_the_output() -> None:
    got = emulate_arrays(resolve({"width": 12, "output_dtype": "float8_e5m2"}), *operands(5, 12))
    assert got.shape == (5, 12)
    assert word_of(got) == "float8_e5m2"
    assert emulate_arrays(resolve({"width": 12}), *operands(0, 12)).shape == (0, 12)


def test_overflow_and_zero_by_zero_warn_of_nothing() -> None:
    x = np.float32([[3e38, 1.0], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
    ones = np.ones(2, dtype=np.float32)
    got = emulate_arrays(resolve({"width": 2, "eps_placement": "none"}), x, ones, ones, x)
    np.testing.assert_array_equal(got, [[0, 0], [np.nan, np.nan], [np.nan, 0], [np.nan, np.nan]])


def test_any_memory_layout() -> None:
    x, gain, bias, residual = operands(9, 12)
    spec = resolve({"width": 12})
    wanted = emulate_arrays(spec, x, gain, bias, residual)
    for same in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], np.repeat(x, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(emulate_arrays(spec, same, gain, bias, residual), wanted)


@pytest.mark.parametrize("spec", [*SPECS, resolve({"width": 12, "gain_position": "before_statistic"})])
@pytest.mark.parametrize("elements", [12, 600])
def test_several_gains_at_once_are_each_alone(monkeypatch: pytest.MonkeyPatch, spec: NormSpec, elements: int) -> None:
    monkeypatch.setattr(emulator, "BLOCK_ELEMENTS", elements)
    x, gain, bias, residual = operands(50, 12)
    case = Case(category="", label="", x=x, gain=gain, bias=bias, residual=residual)
    gains = [gain, gain * 3, np.zeros_like(gain)]
    alone = [emulate_arrays(spec, x, each, bias, residual) for each in gains]
    np.testing.assert_array_equal(emulate_each(spec, case, gains), np.stack(alone))
