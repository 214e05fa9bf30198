"""onnx: a norm in an .onnx file, run by ONNX Runtime on the CPU or by ONNX's own reference evaluator.

A graph is data: running one needs no consent. It still runs in a process of its own, because a crash, a hang or an
exhausted memory must be a line in the record. What has to be fed, and the eps, are read from the graph (`onnx_graph`).
Where the file holds more than a norm, the norm is cut out of it, and nothing else is run.
"""

import json
import shutil
import sys
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Literal, Self

from rmsaudit.arrays import Array, word_of
from rmsaudit.case import Case
from rmsaudit.errors import CouldNotRun, InputProblem, Problem
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed, Observation, Ran
from rmsaudit.loaders.exchange import exactly, open_tensors
from rmsaudit.loaders.process import Launch, Runner, run
from rmsaudit.semantics import NormSpec

ROOT = Path(__file__).absolute().parents[2]  # of the package, for a child that has not installed it
START = "import sys; sys.path.append(sys.argv[1]); from rmsaudit.loaders.onnx_child import main; main(sys.argv[2])"

EngineName = Literal["onnxruntime", "reference"]
Level = Literal["none", "basic", "extended", "all"]


@dataclass(frozen=True, kw_only=True)
class OnnxSection:
    """The section `onnx:` of an implementation file.

    node, output: which norm, where the model holds several. x, gain, residual, bias: tensors of the graph, where they
    are not found out. optimization, threads: ONNX Runtime's; 0 threads: as many as it likes. timeout: seconds a call
    may take.
    """

    model: Path
    engine: EngineName = "onnxruntime"
    optimization: Level = "all"
    node: str | None = None
    output: str | None = None
    x: str | None = None
    gain: str | None = None
    residual: str | None = None
    bias: str | None = None
    threads: int = 1
    timeout: float = 60.0
    memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class Operand:
    """The tensor of the graph that an operand is. shape: None in it for a size that is free; None where it is unknown.

    own: the model brings it as a constant; what a case has takes the place of those numbers. Otherwise it is fed.
    """

    tensor: str
    dtype: str
    shape: tuple[int | None, ...] | None
    own: bool

    def __str__(self) -> str:
        return f"{'constant' if self.own else 'tensor'} {self.tensor!r}"


class Scratch:
    """A private folder that is gone when nobody holds this object any more, at the latest when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rmsaudit-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """What the graph says by itself.

    norm: its place in words, None where none was recognised. eps, placement, trail: as onnx_graph.FoundEps has them.
    gain: the model's own [width], None where it brings none. whole: the model is run as it is; otherwise the norm was
    cut out. scratch: holds what the child needs, for as long as these facts are alive.
    """

    norm: str | None
    kind: str | None
    center: bool
    eps: float | None
    eps_dtype: str | None
    placement: str | None
    trail: tuple[str, ...]
    operands: Mapping[str, Operand]
    output: str
    gain: Array | None
    whole: bool
    versions: Mapping[str, str]
    digests: Mapping[str, str]
    scratch: Scratch

    @property
    def width(self) -> int | None:
        """The only width that the graph takes; None where it takes any. A gain of several axes spans them all."""
        gain = self.operands.get("gain")
        if gain is not None and gain.shape and len(gain.shape) > 1 and None not in gain.shape:
            return prod(size for size in gain.shape if size is not None)
        shape = self.operands["x"].shape
        return shape[-1] if shape else None

    def variables(self) -> dict[str, tuple[Any, str]]:
        """What the graph settles, by variable: the value, and where it stands."""
        found = self._of_the_norm()
        for variable, name in (("input_dtype", "x"), ("gain_dtype", "gain"), ("residual_dtype", "residual")):
            operand = self.operands.get(name)
            if operand is not None and operand.dtype in FORMATS:
                found[variable] = (operand.dtype, str(operand))
        for variable, name, value in (("residual", "residual", "add"), ("bias", "bias", True)):
            if name in self.operands:
                found[variable] = (value, str(self.operands[name]))
        if self.norm is not None and "gain" not in self.operands:
            found["gain_applied"] = (False, self.norm)
        if self.width is not None:
            found["width"] = (self.width, f"the shape of {self.operands['x']}")
        elif self.gain is not None:
            found["width"] = (self.gain.size, f"the shape of {self.operands['gain']}")
        return found

    def _of_the_norm(self) -> dict[str, tuple[Any, str]]:
        found: dict[str, tuple[Any, str]] = {}
        if self.eps is not None:
            found["eps"] = (self.eps, "; ".join(self.trail))
        if self.placement is not None:
            found["eps_placement"] = (self.placement, self.trail[-1])
        if self.kind == "decomposed" and self.eps_dtype in FORMATS:
            found["eps_dtype"] = (self.eps_dtype, self.trail[0])
        if self.center:
            found["center"] = (True, self.norm or "")
        return found


def inspect(section: OnnxSection, home: Path) -> Facts:
    """What the model says of its norm; nothing of it is run. `home`: the declaring file's folder.

    Raises InputProblem for a file that cannot be used or a norm that is not clear, CouldNotRun where reading it fails.
    """
    scratch = Scratch()
    request = {
        "model": str(home.absolute() / section.model),
        "engine": section.engine,
        "optimization": section.optimization,
        "threads": section.threads,
        "wish": {name: getattr(section, name) for name in ("node", "output", "x", "gain", "residual", "bias")},
    }
    (scratch.path / "request.json").write_text(json.dumps(request), "utf-8")
    command = [sys.executable, "-P", "-c", START, str(ROOT), str(scratch.path)]
    ended = run(command, _launch(section, home), section.timeout)
    answer = scratch.path / "facts.json"
    if ended.exit_code != 0 or ended.timed_out or not answer.is_file():
        raise CouldNotRun(f"{section.model}: reading it {ended.says}")
    facts = json.loads(answer.read_text("utf-8"))
    if "fault" in facts:
        raise InputProblem([Problem(path=str(section.model), says=facts["fault"], kind="onnx-model")])
    return _facts(facts, scratch)


def _facts(facts: Mapping[str, Any], scratch: Scratch) -> Facts:
    norm = facts["norm"] or {"told": None, "kind": None, "center": False, "eps": None}
    eps = norm["eps"] or {"value": None, "dtype": None, "placement": None, "trail": ()}
    own = open_tensors(scratch.path / "own.safetensors")
    return Facts(
        norm=norm["told"],
        kind=norm["kind"],
        center=norm["center"],
        eps=eps["value"],
        eps_dtype=eps["dtype"],
        placement=eps["placement"],
        trail=tuple(eps["trail"]),
        operands={
            name: _operand(of, own=own)
            for own, key in ((True, "own"), (False, "feeds"))
            for name, of in facts[key].items()
        },
        output=facts["output"],
        gain=own.read("gain") if "gain" in own.entries else None,
        whole=facts["whole"],
        versions=facts["versions"],
        digests=facts["digests"],
        scratch=scratch,
    )


def _operand(described: Mapping[str, Any], *, own: bool) -> Operand:
    shape = described["shape"]
    return Operand(
        tensor=described["tensor"], dtype=described["dtype"], shape=None if shape is None else tuple(shape), own=own
    )


def _launch(section: OnnxSection, home: Path) -> Launch:
    return Launch(interpreter=Path(sys.executable), home=home.absolute(), memory_mib=section.memory_mib)


class OnnxSide:
    """A side that is a graph. gain: the declared gains, else the model's own, else None."""

    def __init__(
        self, facts: Facts, runner: Runner, *, declared: Mapping[str, Any], spec: NormSpec, gain: Array | None
    ) -> None:
        self.facts, self.declared, self.spec = facts, declared, spec
        self.gain = facts.gain if gain is None else gain
        self._runner = runner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. A later call would start another."""
        self._runner.close()

    @property
    def versions(self) -> Mapping[str, str]:
        return self.facts.versions

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 of the model file and of every file that it keeps tensors in."""
        return self.facts.digests

    @property
    def only_width(self) -> str | None:
        """Why it takes no other width; None where its graph leaves the width free."""
        for operand in self.facts.operands.values():
            if not operand.own and operand.shape and operand.shape[-1] is not None:
                return f"the graph takes {operand} of width {self.facts.width or operand.shape[-1]} only"
        return None

    @property
    def only_rows(self) -> str | None:
        """Why it does not take any number of rows; None where its graph leaves that free."""
        x = self.facts.operands["x"]
        fixed = [size for size in (x.shape or ())[:-1] if size not in (None, 1)]
        return f"the graph takes {x} in shape {[*(x.shape or ())]} only" if fixed else None

    def observe(self, case: Case) -> Observation:
        fed = self._fed(case)
        if isinstance(fed, Failed):
            return fed
        request = {"do": "call", "eps": None, "layout": "contiguous", "threads": None, "shape": list(case.x.shape)}
        answer = self._runner.ask(request, fed, case.x.shape)
        if isinstance(answer, Failed):
            return answer
        assert answer.output is not None
        return Ran(answer.output)

    def _fed(self, case: Case) -> dict[str, Array] | Failed:
        """The operands in the dtypes of the graph, or why one of them does not exist there."""
        fed = {}
        for name, dtype in ((name, operand.dtype) for name, operand in self.facts.operands.items()):
            given = getattr(case, name)
            if dtype not in FORMATS:
                return Failed(f"the graph takes {name} as {dtype}, and an operand is one of {', '.join(FORMATS)}")
            converted = exactly(given, dtype)
            if converted is None:
                held = word_of(given)
                return Failed(f"the graph takes {name} as {dtype}, and not all values of this {held} input exist there")
            fed[name] = converted
        return fed


def load(
    section: OnnxSection, facts: Facts, *, declared: Mapping[str, Any], spec: NormSpec, gain: Array | None, home: Path
) -> OnnxSide:
    """The side that `section` declares, whose facts `inspect` found; nothing of it is run before the first case."""
    request = {
        "do": "load",
        "home": str(ROOT),
        "file": None,
        "shown_file": None,
        "module": "rmsaudit.loaders.onnx_engine",
        "name": "call",
        "init": None,
        "parameters": {},
        "call": {"folder": str(facts.scratch.path), **{name: f"${name}" for name in facts.operands}},
        "output": None,
        "arrays": "numpy",
        "device": "cpu",
    }
    runner = Runner(str(section.model), request, _launch(section, home), section.timeout)
    return OnnxSide(facts, runner, declared=declared, spec=spec, gain=gain)
