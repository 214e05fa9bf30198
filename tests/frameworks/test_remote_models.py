"""`rmsaudit model` on checkpoints behind URLs: the record of the local files, from their headers and norms alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from safetensors.numpy import save

from rmsaudit.cli import run
from rmsaudit.documents.record import read_record
from rmsaudit.storage import BUFFER_BYTES

pytestmark = pytest.mark.frameworks

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
ULP = MODELS / "tolerance.yaml"
WIDTH, LAYERS = 64, 4
MATRIX_BYTES = 2**22  # between any two norms


@dataclass(frozen=True)
class Read:
    """One request for a range of a file."""

    path: str
    start: int
    stop: int


class CountedFile:
    """What is asked of an open file in this suite, noted, and nothing else."""

    def __init__(self, opened: Any, reads: list[Read]) -> None:
        self._opened = opened
        self._reads = reads

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())

    def read(self, count: int) -> bytes:
        start = self._opened.tell()
        data = bytes(self._opened.read(count))
        self._reads.append(Read(self._opened.path, start, start + len(data)))
        return data

    def close(self) -> None:
        """The store has one file object for all who open it."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Read]]:
    """fsspec's store in memory, empty before and after, and what is read from it."""
    noted: list[Read] = []
    plain = MemoryFileSystem._open

    def counting(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        opened = plain(self, path, mode, **options)
        return CountedFile(opened, noted) if mode == "rb" else opened

    monkeypatch.setattr(MemoryFileSystem, "_open", counting)
    MemoryFileSystem.store.clear()
    yield noted
    MemoryFileSystem.store.clear()


def put(folder: Path, at: str) -> None:
    system = fsspec.filesystem("memory")
    for file in sorted(folder.iterdir()):
        if file.is_file():
            system.pipe(f"{at}/{file.name}", file.read_bytes())


def record_of(out: Path, reference: object, candidate: object, *options: str) -> Any:
    paths = ["--ref", str(reference), "--cand", str(candidate)]
    assert run(["model", *paths, "--tolerance", str(ULP), "--out", str(out), *options]) in (0, 1)
    return read_record(out)


@pytest.mark.parametrize(
    ("candidate", "outcome"), [("llama-tiny/llama.gguf", "accepted"), ("broken/llama-eps.gguf", "rejected")]
)
def test_a_remote_reference_gives_the_record_of_the_local_one(
    reads: list[Read], tmp_path: Path, candidate: str, outcome: str
) -> None:
    put(MODELS / "llama-tiny", "/models/llama-tiny")
    here = record_of(tmp_path / "here.yaml", MODELS / "llama-tiny", MODELS / candidate)
    there = record_of(tmp_path / "there.yaml", "memory://models/llama-tiny", MODELS / candidate)
    assert there == here
    assert here.outcome == outcome


def test_both_sides_may_be_remote(reads: list[Read], tmp_path: Path) -> None:
    put(MODELS / "qwen3-tiny", "/models/qwen3-tiny")
    put(MODELS / "broken", "/broken")
    candidate = MODELS / "broken" / "qwen3-layers-swapped.gguf"
    here = record_of(tmp_path / "here.yaml", MODELS / "qwen3-tiny", candidate)
    urls = "memory://models/qwen3-tiny", f"memory://broken/{candidate.name}"
    assert record_of(tmp_path / "there.yaml", *urls) == here
    assert record_of(tmp_path / "jobs.yaml", *urls, "--jobs", "2") == here
    assert [finding.cause for finding in here.findings] == ["gain-values"]


def put_large(at: str) -> dict[str, int]:
    """A Llama with matrices that are never read; how many bytes its norms have, by name."""
    config = {"model_type": "llama", "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "rms_norm_eps": 1e-5}
    norms = [
        f"model.layers.{layer}.{part}_layernorm" for layer in range(LAYERS) for part in ("input", "post_attention")
    ]
    tensors: dict[str, Any] = {}
    for number, name in enumerate([*norms, "model.norm"]):
        tensors[f"{name}.weight"] = np.full(WIDTH, 1 + number / 8, dtype=np.float32)
        tensors[f"{name.replace('norm', 'matrix')}.weight"] = np.zeros(MATRIX_BYTES // 4, dtype=np.float32)
    system = fsspec.filesystem("memory")
    system.pipe(f"{at}/config.json", json.dumps(config).encode())
    system.pipe(f"{at}/model.safetensors", save(tensors))
    return {f"{name}.weight": 4 * WIDTH for name in (*norms, "model.norm")}


def header_bytes(path: str) -> int:
    data = MemoryFileSystem.store[path].getvalue()
    return 8 + int.from_bytes(data[:8], "little")


def test_only_headers_and_norms_are_read(reads: list[Read], tmp_path: Path) -> None:
    norms = put_large("/big")
    record = record_of(tmp_path / "record.yaml", "memory://big", "memory://big")
    assert (record.outcome, record.reference.norms) == ("accepted", 2 * LAYERS + 1)
    header = header_bytes("/big/model.safetensors")
    read = [each for each in reads if each.path == "/big/model.safetensors"]
    of_header = [each for each in read if each.start < header]
    assert max(each.stop for each in of_header) <= max(header, BUFFER_BYTES)
    of_norms = [each.stop - each.start for each in read if each.start >= header]
    assert sum(of_norms) <= 2 * sum(norms.values())  # both sides are the same file, and each is read once
    assert set(of_norms) == {4 * WIDTH}


def test_the_twin_that_reads_everything_is_noticed(reads: list[Read]) -> None:
    put_large("/big")
    fsspec.filesystem("memory").open("/big/model.safetensors", "rb").read(-1)
    assert reads[0].stop > 9 * MATRIX_BYTES


def test_problems_of_remote_paths_are_all_told(
    reads: list[Read], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(MODELS / "llama-tiny", "/models/llama-tiny")
    fsspec.filesystem("memory").pipe("/models/llama-tiny/config.json", b"{")
    paths = ["--ref", "memory://models/llama-tiny", "--cand", "memory://models/none.gguf"]
    assert run(["model", *paths]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0].startswith("memory://models/llama-tiny/config.json: is not JSON at 1:2 (")
    assert lines[1] == "memory://models/none.gguf: does not exist; check the path [no-such-file]"
    assert all("; " in line and line.endswith("]") for line in lines)


def test_a_store_that_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "--ref", "nonesuch://models", "--cand", str(MODELS / "llama-tiny")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("nonesuch://models: is no URL that fsspec can open (")
    assert line.endswith("; check it [unreadable]")
