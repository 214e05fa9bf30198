"""Reading rows in blocks, and real rows as cases."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rmsaudit.activations.rows import RealRows, blocks, rows_in, why_no_rows
from rmsaudit.activations.survey import survey
from rmsaudit.arrays import Array, bits, round_to
from rmsaudit.documents.tensors import TensorPlace, tensors_in
from rmsaudit.errors import CouldNotRun
from rmsaudit.measure.statistics import measure
from rmsaudit.results import Tally
from rmsaudit.semantics import NormSpec

Norm = Callable[..., NormSpec]
Stored = Callable[[dict[str, Array]], dict[str, TensorPlace]]
DTYPES = ("float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("word", DTYPES)
@pytest.mark.parametrize("most_bytes", [1, 200, 1 << 20])
def test_blocks_are_the_tensor_in_order(word: str, most_bytes: int, stored: Stored) -> None:
    tensor = round_to(np.random.default_rng(0).standard_normal((3, 5, 8)), word)
    read = list(blocks(stored({"other": np.ones(3, np.float32), "norm": tensor})["norm"], 8, most_bytes))
    assert np.array_equal(bits(np.concatenate(read)), bits(tensor.reshape(15, 8)))
    assert all(len(block) == 1 or block.nbytes <= most_bytes for block in read)


@pytest.mark.parametrize(
    ("shape", "says"),
    [((8,), r"one of them as \[1, width\]"), ((0, 8), "no row is in it"), ((4, 6), "rows of width 8"), ((), "width")],
)
def test_what_is_no_rows_is_told(shape: tuple[int, ...], says: str, stored: Stored) -> None:
    place = stored({"norm": np.zeros(shape, np.float32)})["norm"]
    with pytest.raises(ValueError, match=says):
        list(blocks(place, 8))


def test_integers_are_no_rows(tmp_path: Path) -> None:
    place = TensorPlace(path=tmp_path, name="ids", dtype="I64", shape=(2, 8), offset=0, length=128)
    assert why_no_rows(place) is not None


def test_a_file_that_became_shorter_is_told(stored: Stored) -> None:
    place = stored({"norm": np.ones((16, 8), np.float32)})["norm"]
    with place.path.open("r+b") as file:
        file.truncate(place.offset + 100)
    with pytest.raises(CouldNotRun, match="became shorter"):
        list(blocks(place, 8))


def test_a_file_of_300_mib_is_read_in_a_few(tmp_path: Path, norm: Norm) -> None:
    """A sparse file: what is read of it must not be held. tracemalloc counts numpy's memory."""
    width, rows = 4096, 19200
    path = tmp_path / "large.safetensors"
    header = f'{{"norm":{{"dtype":"F32","shape":[{rows},{width}],"data_offsets":[0,{rows * width * 4}]}}}}'.encode()
    last = np.full((1, width), 2.0**-10, np.float32)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.seek(8 + len(header) + (rows - 1) * width * 4)
        file.write(last.tobytes())
    place = tensors_in(path)["norm"]
    tracemalloc.start()
    found = survey(blocks(place, width), norm(width=width)).distribution
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert place.length > 300e6
    assert peak < 32 * 2**20
    assert (found.zero, found.rows, found.below) == (rows - 1, 1, 1)


# --- real rows as cases ----------------------------------------------------------------------------------------------


def activations() -> Array:
    rows = np.random.default_rng(1).standard_normal((10, 64)).astype(np.float32)
    rows[3] *= 1e5  # beyond float16
    return rows


def test_cases_are_all_rows_rounded_once(stored: Stored, norm: Norm) -> None:
    rows = activations()
    spec = norm(input_dtype="bfloat16", gain_dtype="float32")
    real = RealRows(stored({"norm": rows})["norm"], (spec, spec), np.ones(64, np.float32))
    (case,) = list(real)
    assert np.array_equal(bits(case.x), bits(round_to(rows, "bfloat16")))
    assert (case.category, case.label) == ("activations", "rows 0 to 9")
    assert not case.residual.any()
    assert not case.bias.any()
    assert real.says == "10 rows of float32, rounded once to bfloat16"


def test_rows_that_overflow_are_told(stored: Stored, norm: Norm) -> None:
    pair = norm(input_dtype="float16"), norm(input_dtype="bfloat16")
    real = RealRows(stored({"norm": activations()})["norm"], pair, np.ones(64, np.float32))
    (case,) = list(real)
    held = case.x.astype(np.float64)
    for word in ("float16", "bfloat16"):
        assert np.array_equal(round_to(case.x, word).astype(np.float64), held)
    assert real.says == "10 rows of float32, rounded once to bfloat16 and float16; 1 of them overflow there"


def test_rows_that_fit_are_said_to(stored: Stored, norm: Norm) -> None:
    real = RealRows(stored({"norm": activations()})["norm"], (norm(), norm()), np.ones(64, np.float32))
    list(real)
    assert real.says == "10 rows of float32, which float32 holds as they are"


@pytest.mark.parametrize("most", [1, 3, 7, 10, 99])
def test_a_choice_of_rows_is_spread_evenly(most: int, stored: Stored, norm: Norm) -> None:
    rows = np.arange(10, dtype=np.float32)[:, None] * np.ones((1, 64), np.float32)
    real = RealRows(stored({"norm": rows})["norm"], (norm(), norm()), np.ones(64, np.float32), most_rows=most)
    chosen = np.concatenate([case.x[:, 0] for case in real])
    assert chosen.tolist() == [at * 10 // min(most, 10) for at in range(min(most, 10))]
    assert real.rows == len(chosen)


def test_the_choice_does_not_depend_on_blocks(stored: Stored, norm: Norm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmsaudit.activations.rows.CASE_BYTES", 3 * 256)
    rows = np.arange(100, dtype=np.float32)[:, None] * np.ones((1, 64), np.float32)
    real = RealRows(stored({"norm": rows})["norm"], (norm(), norm()), np.ones(64, np.float32), most_rows=37)
    cases = list(real)
    assert np.concatenate([case.x[:, 0] for case in cases]).tolist() == [at * 100 // 37 for at in range(37)]
    assert len({case.label for case in cases}) == len(cases)


def test_cases_feed_a_tally(stored: Stored, norm: Norm) -> None:
    from rmsaudit.emulator import emulate
    from rmsaudit.oracle import oracle

    place = stored({"norm": np.concatenate([activations()] * 3)})["norm"]
    one, other = norm(), norm(eps=1e-3)
    tally, outputs = Tally("activations"), []
    for case in RealRows(place, (one, other), np.linspace(0.5, 2, 64).astype(np.float32)):
        pair = emulate(one, case), emulate(other, case)
        tally.add(one, case, pair, (oracle(one, case), oracle(other, case)))
        outputs.append(pair)
    assert tally.measurement is not None
    assert tally.measurement.elements == rows_in(place) * 64
    assert tally.measurement.max_ulp == max(measure(*pair, case="").max_ulp for pair in outputs)
