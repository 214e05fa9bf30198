"""Checkpoints behind URLs, and that of a store's files no more is fetched than is needed."""

import json
import struct
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import gguf
import numpy as np
import pytest
import upath
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from rmsaudit.documents.checkpoints.opening import open_checkpoint
from rmsaudit.errors import CouldNotRun, InputProblem
from rmsaudit.loaders.tensors import load
from rmsaudit.storage import BUFFER_BYTES, path_of, read_at

pytestmark = pytest.mark.frameworks

INDEX = "model.safetensors.index.json"
WIDTH = 1024


class Store(AbstractFileSystem):
    """As s3fs and huggingface_hub build on fsspec: files that are fetched by ranges. Large ones are zeros, not held."""

    protocol = "counted"
    held: ClassVar[dict[str, tuple[bytes, int]]] = {}  # what a file begins with, and its size
    fetched: ClassVar[list[int]] = []
    broken: ClassVar[list[str]] = []

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        inside = f"{self._strip_protocol(path).rstrip('/')}/"
        names = [name for name in self.held if name.startswith(inside)]
        if not names:
            raise FileNotFoundError(path)
        return [self.info(name) for name in names] if detail else names

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        name = self._strip_protocol(path)
        if name in self.held:
            return {"name": name, "size": self.held[name][1], "type": "file"}
        if any(held.startswith(f"{name.rstrip('/')}/") for held in self.held):
            return {"name": name, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> "StoredFile":
        options.pop("autocommit", None)
        return StoredFile(self, path, mode, block_size or 5 * 2**20, **options)


class StoredFile(AbstractBufferedFile):
    def _fetch_range(self, start: int, end: int) -> bytes:
        if self.path in Store.broken:
            raise RuntimeError("the store hung up")
        Store.fetched.append(end - start)
        return Store.held[self.path][0][start:end].ljust(end - start, b"\0")


@pytest.fixture
def store() -> Iterator[type[Store]]:
    fsspec.register_implementation("counted", Store, clobber=True)
    Store.held.clear()
    Store.broken.clear()
    Store.fetched.clear()
    yield Store
    Store.held.clear()


def put_shards(store: type[Store], count: int = 6) -> None:
    """A folder of shards of 4 GiB, each with one norm behind the matrix."""
    placed = {}
    for index in range(count):
        shapes = {f"layers.{index}.mlp.weight": [2**16, 2**15], f"layers.{index}.norm.weight": [WIDTH]}
        header, reached = {}, 0
        for name, shape in shapes.items():
            end = reached + 2 * prod(shape)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [reached, end]}
            reached = end
            placed[name] = f"model-{index:05}.safetensors"
        text = json.dumps(header).encode()
        begins = struct.pack("<Q", len(text)) + text
        store.held[f"models/big/model-{index:05}.safetensors"] = (begins, len(begins) + reached)
    for name, content in ((INDEX, {"weight_map": placed}), ("config.json", {"rms_norm_eps": 1e-5})):
        data = json.dumps(content).encode()
        store.held[f"models/big/{name}"] = (data, len(data))


def test_of_many_gigabytes_headers_and_norms_are_fetched(store: type[Store]) -> None:
    put_shards(store)
    read = open_checkpoint(path_of("counted://models/big"))
    assert (read.format, len(read.tensors), read.config) == ("huggingface", 12, {"rms_norm_eps": 1e-5})
    assert len(store.fetched) == 6 + 2
    assert max(store.fetched) <= BUFFER_BYTES
    store.fetched.clear()
    norms = [load(place) for name, place in read.tensors.items() if name.endswith("norm.weight")]
    assert store.fetched == [2 * WIDTH] * 6
    assert all(not norm.astype(np.float32).any() for norm in norms)


def test_the_twin_that_reads_ahead_is_noticed(store: type[Store]) -> None:
    """What fsspec does unless it is told otherwise."""
    put_shards(store)
    path: Any = path_of("counted://models/big/model-00000.safetensors")
    with path.open("rb") as file:
        file.read(8)
    assert store.fetched[0] > BUFFER_BYTES


def test_a_store_that_fails(store: type[Store]) -> None:
    put_shards(store)
    store.broken.append("models/big/model-00003.safetensors")
    with pytest.raises(InputProblem) as caught:
        open_checkpoint(path_of("counted://models/big"))
    assert [str(problem) for problem in caught.value.problems] == [
        "counted://models/big/model-00003.safetensors: cannot be read (RuntimeError: the store hung up); "
        "check the path and its permissions [unreadable]"
    ]


def test_values_that_cannot_be_fetched_any_more(store: type[Store]) -> None:
    put_shards(store, count=1)
    place = open_checkpoint(path_of("counted://models/big")).tensors["layers.0.norm.weight"]
    begins, size = store.held["models/big/model-00000.safetensors"]
    store.held["models/big/model-00000.safetensors"] = (begins, size - 1)
    with pytest.raises(CouldNotRun, match=r"model-00000.safetensors: became shorter while it was read"):
        load(place)
    store.held.clear()
    with pytest.raises(CouldNotRun, match="cannot be read any more"):
        load(place)


def test_problems_of_remote_folders(store: type[Store]) -> None:
    put_shards(store)
    del store.held["models/big/model-00002.safetensors"]
    for url, says in (
        (
            "counted://models/big",
            f"counted://models/big/{INDEX}: names the shard `model-00002.safetensors`, which does",
        ),
        ("counted://models/none", "counted://models/none: does not exist; check the path [no-such-file]"),
        ("nonesuch://models", "nonesuch://models: is no URL that fsspec can open"),
    ):
        with pytest.raises(InputProblem) as caught:
            open_checkpoint(path_of(url))
        assert str(caught.value).startswith(says)


@pytest.fixture
def in_memory() -> Iterator[Callable[[str, bytes], None]]:
    system = fsspec.filesystem("memory")
    yield lambda path, data: system.pipe(path, data)
    system.store.clear()


def test_the_memory_store(in_memory: Callable[[str, bytes], None], tmp_path: Path) -> None:
    local = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(local, "llama")
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_token_list([f"token {index}" for index in range(100_000)])
    writer.add_tensor("norm.weight", np.arange(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    in_memory("/models/model.gguf", local.read_bytes())
    remote, here = (open_checkpoint(path_of(text)) for text in ("memory://models/model.gguf", f"{local}"))
    assert remote.metadata == here.metadata
    there, place = remote.tensors["norm.weight"], here.tensors["norm.weight"]
    assert (there.offset, there.length, there.shape) == (place.offset, place.length, place.shape)
    assert load(there).tobytes() == load(place).tobytes()
    assert load(there).flags.writeable
    assert read_at(there.path, 0, 4) == read_at(place.path, 0, 4) == b"GGUF"


def test_what_is_a_url() -> None:
    assert path_of("models/llama") == Path("models/llama")
    assert path_of("C:\\models\\llama") == Path("C:\\models\\llama")
    assert path_of("file:///models/a%20b") == Path("/models/a b")
    assert isinstance(path_of("memory://models"), upath.UPath)


def test_a_store_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("rmsaudit.storage.import_module", absent)
    with pytest.raises(InputProblem) as caught:
        path_of("s3://bucket/model")
    assert str(caught.value) == (
        "s3://bucket/model: is remote, and needs packages that this Python does not have: "
        "pip install 'rmsaudit[remote]' [missing-package]"
    )
