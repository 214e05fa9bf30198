"""Real rows from a remote store."""

from pathlib import Path

import numpy as np
import pytest

from rmsaudit.activations.rows import blocks
from rmsaudit.activations.survey import survey
from rmsaudit.cli import run
from rmsaudit.documents.tensors import tensors_in
from rmsaudit.semantics.resolve import resolve
from rmsaudit.storage import path_of

pytestmark = pytest.mark.frameworks

ROWS = Path(__file__).parents[2] / "fixtures" / "models" / "activations" / "llama.safetensors"
REMOTE = "memory://acts/llama.safetensors"


def test_remote_rows_are_surveyed_as_local_ones(capsys: pytest.CaptureFixture[str]) -> None:
    path_of(REMOTE).write_bytes(ROWS.read_bytes())
    spec = resolve({"width": 128, "eps": 1e-4})
    remote, local = tensors_in(path_of(REMOTE)), tensors_in(ROWS)
    assert list(remote) == list(local)
    for name, place in remote.items():
        here = np.concatenate(list(blocks(local[name], 128)))
        assert np.array_equal(np.concatenate(list(blocks(place, 128, 1000))), here)
        assert survey(blocks(place, 128), spec) == survey([here], spec)
    assert run(["activations", REMOTE, "--eps", "1e-4"]) == 0
    assert "8 of 144 rows (5.56 %) are attenuated" in capsys.readouterr().out
