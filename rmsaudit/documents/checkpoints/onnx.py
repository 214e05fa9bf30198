"""An ONNX file: its initialisers, and its norms, which its graph shows without their names being known.

The onnx package reads it in a process of its own (`loaders.onnx_model`): it brings numpy, and may crash.
"""

import atexit
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.problems import printable
from rmsaudit.documents.tensors import TensorPlace, tensors_in
from rmsaudit.errors import CouldNotRun, InputProblem, Problem

SUFFIX = ".onnx"

_ROOT = Path(__file__).absolute().parents[3]  # of the package, for a child that has not installed it
_START = "import sys; sys.path.append(sys.argv[1]); from rmsaudit.loaders.onnx_model import main; main(sys.argv[2])"
_LOOSE = "loose.safetensors"
_MOST_SECONDS = 600.0  # a graph of 10^5 nodes takes some ten
_LONGEST_TOLD = 200


@dataclass(frozen=True, kw_only=True)
class OnnxEps:
    """An eps of a graph: see loaders.onnx_graph.FoundEps. placement: a word of eps.PLACEMENTS, or None."""

    value: float
    dtype: str
    placement: str | None
    trail: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OnnxNorm:
    """One norm of a graph, in graph order under "norms" in a checkpoint's metadata.

    node: the name of its first node that has one, or "". operator: "RMSNormalization" and its kin; "decomposed" for a
    chain of simple ones. output: the tensor it makes, its gain and bias included. axis: None for several axes, or all.
    gain, bias: names in the checkpoint's tensors; None where there is none. gain_offset: what the graph adds to
    the stored gains. computed_gain: it has gains, and no tensor of the file shows them: they are fed, or computed
    otherwise. center: the mean is subtracted first, so that it is no RMSNorm.
    """

    node: str
    operator: str
    output: str
    axis: int | None
    eps: OnnxEps | None
    gain: str | None
    gain_offset: float
    computed_gain: bool
    bias: str | None
    residual: bool
    center: bool


def read_file(path: Path) -> Checkpoint:
    """The checkpoint in an ONNX file. Raises InputProblem, and CouldNotRun where reading it ends its process."""
    folder = Path(mkdtemp(prefix="rmsaudit-"))
    answer, loose = {}, {}
    try:
        answer = _ask(path, folder)
        loose = tensors_in(folder / _LOOSE) if "fault" not in answer else {}
    finally:
        if loose:  # its values are read when they are asked for
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if "fault" in answer:
        raise InputProblem([Problem(path=printable(str(path)), says=answer["fault"], kind="onnx-model")])
    tensors = {name: _place(path, name, of) for name, of in answer["tensors"].items()} | loose
    norms = tuple(_norm(of, tensors) for of in answer["norms"])
    metadata = {"norms": norms, "producer": answer["producer"], "opsets": answer["opsets"]}
    return Checkpoint(path=path, format="onnx", tensors=tensors, metadata=metadata)


def _ask(path: Path, folder: Path) -> dict[str, Any]:
    """What the child tells; beside its answer in the folder are gains that do not lie in the file as in memory."""
    (folder / "request.json").write_text(json.dumps({"model": str(path)}), "utf-8")
    command = [sys.executable, "-P", "-c", _START, str(_ROOT), str(folder)]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_MOST_SECONDS, check=False)  # noqa: S603 (ours)
    except subprocess.TimeoutExpired:
        raise CouldNotRun(f"{path}: reading it took more than {_MOST_SECONDS:g} seconds") from None
    answer = folder / "answer.json"
    if ran.returncode != 0 or not answer.is_file():
        last = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:_LONGEST_TOLD]
        raise CouldNotRun(f"{path}: reading it ended with exit code {ran.returncode}: {printable(last)}")
    answered: dict[str, Any] = json.loads(answer.read_text("utf-8"))
    return answered


def _place(path: Path, name: str, of: Mapping[str, Any]) -> TensorPlace:
    return TensorPlace(
        path=path.parent / of["file"],
        name=name,
        dtype=of["dtype"],
        shape=tuple(of["shape"]),
        offset=of["offset"],
        length=of["length"],
    )


def _norm(of: Mapping[str, Any], tensors: Mapping[str, TensorPlace]) -> OnnxNorm:
    eps = of["eps"] and OnnxEps(**{**of["eps"], "trail": tuple(of["eps"]["trail"])})
    stored = {key: of[key] if of[key] in tensors else None for key in ("gain", "bias")}
    return OnnxNorm(
        node=of["node"],
        operator=of["operator"],
        output=of["output"],
        axis=of["axis"],
        eps=eps,
        gain=stored["gain"],
        gain_offset=of["gain_offset"],
        computed_gain=of["has_gain"] and stored["gain"] is None,
        bias=stored["bias"],
        residual=of["has_residual"],
        center=of["center"],
    )
