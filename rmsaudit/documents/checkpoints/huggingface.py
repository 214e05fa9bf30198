"""A Hugging Face folder: config.json, and one safetensors file or the shards that an index names.

Of the safetensors files, only the headers are read. Every problem is found before any is told.
"""

import hashlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from rmsaudit.documents import strict_json
from rmsaudit.documents.checkpoints import Checkpoint, Format
from rmsaudit.documents.files import read_bytes
from rmsaudit.documents.problems import MOST_PROBLEMS, Refused, printable, quoted
from rmsaudit.documents.tensors import TensorPlace, tensors_in
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.storage import is_local, names_in

CONFIG = "config.json"
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
INDEX_SUFFIX = ".safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
CONVERT_PICKLE = "load it where you trust it, and save it with save_pretrained(), which writes safetensors"

_MOST_INDEX_BYTES = 64 * 2**20  # 10^5 tensors take about 10 MiB
_REQUESTS_AT_ONCE = 8  # headers that are fetched from a remote store
_SHOWN = 3  # names in one message


def read_folder(path: Path) -> Checkpoint:
    """The checkpoint in a folder. Raises InputProblem with everything that is wrong.

    As in transformers, model.safetensors comes before model.safetensors.index.json; either before any other name.
    """
    reading = _Reading(path)
    config = reading.config()
    if CONFIG not in reading.files and not reading.problems:
        reading.notes.append(f"there is no {CONFIG}")
    weights = reading.weights()
    tensors = {} if weights is None else reading.tensors(weights)
    return reading.checkpoint(path, "huggingface", tensors, config)


def read_index(path: Path) -> Checkpoint:
    """The checkpoint whose index of shards is `path`. Raises InputProblem with everything that is wrong."""
    reading = _Reading(path.parent)
    config = reading.config()
    return reading.checkpoint(path, "huggingface", reading.tensors(path.name), config)


def read_single(path: Path) -> Checkpoint:
    """The checkpoint that is one safetensors file, with the config.json beside it, if there is one.

    Raises InputProblem with everything that is wrong.
    """
    reading = _Reading(path.parent)
    tensors = reading.tensors(path.name)
    config = reading.config()
    if config:
        reading.notes.append(f"{CONFIG}, which lies beside {printable(path.name)}, is taken to be its own")
    return reading.checkpoint(path, "safetensors", tensors, config)


class _Reading:
    """What is found in one folder, and what is wrong with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, str] = {}
        self.notes: list[str] = []
        self.problems: list[Problem] = []

    def checkpoint(
        self, path: Path, form: Format, tensors: Mapping[str, TensorPlace], config: Mapping[str, Any]
    ) -> Checkpoint:
        """Raises InputProblem if anything was wrong."""
        if self.problems:
            raise InputProblem(_bounded(self.problems))
        return Checkpoint(
            path=path, format=form, tensors=tensors, config=config, files=self.files, notes=tuple(self.notes)
        )

    def refuse(self, name: str, says: str, kind: str) -> None:
        """Notes a problem of a file in the folder; of the folder itself where `name` is empty."""
        place = self.folder / name if name else self.folder
        self.problems.append(Problem(path=printable(str(place)), says=says, kind=kind))

    def config(self) -> dict[str, Any]:
        """config.json as parsed; {} where there is none."""
        try:
            return self.json(CONFIG, _MOST_INDEX_BYTES)
        except Refused as refused:
            if refused.kind != "no-such-file":
                self.refuse(CONFIG, refused.says, refused.kind)
            return {}

    def json(self, name: str, most: int) -> dict[str, Any]:
        """The object in a file of the folder, whose digest is kept. Raises Refused."""
        data = read_bytes(self.folder / name, most)
        self.files[name] = hashlib.sha256(data).hexdigest()
        return strict_json.loads(data)

    def weights(self) -> str | None:
        """The name of the safetensors file, or of the index of several; None, and a problem, where neither is clear."""
        try:
            names = names_in(self.folder)
        except OSError as error:
            reason = printable(error.strerror or str(error))
            self.refuse("", f"cannot be read ({reason}); check the path and its permissions", "unreadable")
            return None
        indices = [name for name in names if name.endswith(INDEX_SUFFIX)]
        singles = [name for name in names if name.endswith(SUFFIX)]
        for candidates in ([SINGLE], [INDEX], indices, singles):
            there = [name for name in candidates if name in names]
            if len(there) == 1:
                return there[0]
            if there:
                says = f"holds {_list(there)}, and nothing says which of them are the model"
                self.refuse("", f"{says}; name one of them, or fetch {INDEX}", "unclear-checkpoint")
                return None
        self.refuse("", *_no_weights(names))
        return None

    def tensors(self, weights: str) -> dict[str, TensorPlace]:
        """Every tensor of a safetensors file, or of the shards of an index."""
        if not weights.endswith(INDEX_SUFFIX):
            return self.headers([weights]).get(weights, {})
        placed = self.index(weights)
        shards = list(dict.fromkeys(placed.values()))
        headers = self.headers(shards, named_by=weights)
        self.check_against_index(weights, placed, headers)
        return self.joined(weights, placed, headers)

    def index(self, name: str) -> dict[str, str]:
        """Shard by tensor, as the index has it; without what leaves the folder, which is a problem."""
        try:
            placed = self.json(name, _MOST_INDEX_BYTES).get("weight_map")
        except Refused as refused:
            self.refuse(name, refused.says, refused.kind)
            return {}
        if not isinstance(placed, dict) or not placed or not all(isinstance(shard, str) for shard in placed.values()):
            self.refuse(name, "has no `weight_map` from tensors to shards; fetch it again", "bad-index")
            return {}
        outside = {shard for shard in set(placed.values()) if not _stays_inside(shard)}
        for shard in sorted(outside):
            says = f"places tensors in {quoted(shard)}, outside its own folder, where nothing is read; mend it there"
            self.refuse(name, says, "outside-folder")
        return {tensor: shard for tensor, shard in placed.items() if shard not in outside}

    def headers(self, shards: list[str], named_by: str = "") -> dict[str, dict[str, TensorPlace]]:
        """The tensors of each file that could be read. named_by: the index that names them."""
        found = {}
        for shard, result in zip(shards, self._read(shards), strict=True):
            if not isinstance(result, Refused):
                found[shard] = result
            elif named_by and result.kind == "no-such-file":
                says = f"names the shard {quoted(shard)}, which does not exist; fetch it"
                self.refuse(named_by, says, "no-such-shard")
            else:
                self.refuse(shard, result.says, result.kind)
        return found

    def _read(self, shards: list[str]) -> Iterable[dict[str, TensorPlace] | Refused]:
        paths = [self.folder / shard for shard in shards]
        if is_local(self.folder):
            return map(_header, paths)
        with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:  # what takes time is waiting
            return list(pool.map(_header, paths))

    def check_against_index(
        self, index: str, placed: Mapping[str, str], headers: Mapping[str, Mapping[str, TensorPlace]]
    ) -> None:
        """Every tensor must lie where the index places it."""
        missing: dict[str, list[str]] = {}
        for tensor, shard in placed.items():
            if shard in headers and tensor not in headers[shard]:
                missing.setdefault(shard, []).append(tensor)
        for shard, tensors in missing.items():
            says = f"does not hold {_list(tensors)}, which {printable(index)} places in it; fetch both again"
            self.refuse(shard, says, "no-such-tensor")

    def joined(
        self, index: str, placed: Mapping[str, str], headers: Mapping[str, Mapping[str, TensorPlace]]
    ) -> dict[str, TensorPlace]:
        """The tensors of all shards, each of which must be in one of them only."""
        found: dict[str, TensorPlace] = {}
        holders: dict[str, str] = {}
        for shard, places in headers.items():
            twice: dict[str, list[str]] = {}
            for tensor, place in places.items():
                if tensor in holders:
                    twice.setdefault(holders[tensor], []).append(tensor)
                found[tensor], holders[tensor] = place, shard
            for other, tensors in twice.items():
                says = f"holds {_list(tensors)}, and so does {printable(other)}; keep one of them"
                self.refuse(shard, says, "duplicate-tensor")
        if more := [tensor for tensor in found if tensor not in placed]:
            self.notes.append(f"the shards also hold {_list(more)}, which {printable(index)} does not name")
        return found


def _header(path: Path) -> dict[str, TensorPlace] | Refused:
    try:
        return tensors_in(path)
    except Refused as refused:
        return refused


def _stays_inside(name: str) -> bool:
    """True for a relative path on any system. Links are followed: the Hugging Face cache consists of them."""
    path = PurePosixPath(name.replace("\\", "/"))
    return bool(name) and not path.is_absolute() and ".." not in path.parts and not set(":\0") & set(name)


def _no_weights(names: list[str]) -> tuple[str, str]:
    """What is wrong with a folder without safetensors files, and the kind of problem it is."""
    pickles = [name for name in names if name.endswith(PICKLES)]
    if pickles:
        says = f"holds {_list(pickles)} and no safetensors file; a pickle runs code when it is loaded, and is not read"
        return f"{says}; {CONVERT_PICKLE}", "pickle"
    others = [name for name in names if name.endswith((".gguf", ".onnx"))]
    if others:
        return f"holds no safetensors file; name {_list(others)} itself", "no-tensors"
    return f"holds neither {SINGLE} nor {INDEX}; name another folder, or fetch them", "no-tensors"


def _list(names: list[str]) -> str:
    shown = ", ".join(quoted(name) for name in islice(names, _SHOWN))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _bounded(problems: list[Problem]) -> list[Problem]:
    if len(problems) <= MOST_PROBLEMS:
        return problems
    last = problems[MOST_PROBLEMS]
    more = f"and {len(problems) - MOST_PROBLEMS} more problems; mend these first"
    return [*problems[:MOST_PROBLEMS], Problem(path=last.path, says=more, kind="too-many")]
