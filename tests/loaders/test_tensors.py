"""Gains as arrays: every dtype, only the bytes in question, and a file that changed under us."""

from pathlib import Path

import numpy as np
import pytest

from rmsaudit.arrays import word_of
from rmsaudit.documents.tensors import find_tensor
from rmsaudit.errors import CouldNotRun
from rmsaudit.loaders.tensors import load

FIXTURES = Path(__file__).parents[2] / "fixtures"
GAINS = FIXTURES / "implementations" / "files" / "gains.safetensors"
WORDS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize(("index", "word"), list(enumerate(WORDS)))
def test_every_dtype_loads_as_itself(index: int, word: str) -> None:
    gain = load(find_tensor(GAINS, f"layers.{index}.norm.weight"))
    assert word_of(gain) == word
    assert gain.astype(np.float64).tolist() == [0.5, 1.0, 1.5, 2.0]  # the bytes were written out by hand


def test_a_tensor_of_several_axes_keeps_its_shape() -> None:
    matrix = load(find_tensor(FIXTURES / "implementations" / "files" / "odd.safetensors", "matrix"))
    assert matrix.tolist() == [[0.5, 1.0], [1.5, 2.0]]


def test_a_file_that_is_gone_or_shorter_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gains.safetensors"
    path.write_bytes(GAINS.read_bytes())
    place = find_tensor(path, "layers.5.norm.weight")
    path.write_bytes(GAINS.read_bytes()[:-1])
    with pytest.raises(CouldNotRun, match="became shorter"):
        load(place)
    path.unlink()
    with pytest.raises(CouldNotRun, match="cannot be read any more"):
        load(place)
