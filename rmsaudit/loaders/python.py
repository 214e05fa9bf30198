"""python: a function or a layer of any array framework, run in a process of its own."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.loaders import Failed, Observation, Ran
from rmsaudit.loaders.process import Launch, Runner
from rmsaudit.semantics import NormSpec

Framework = Literal["numpy", "torch", "jax", "mlx", "tensorflow", "dlpack"]
Layout = Literal["contiguous", "transposed", "strided", "broadcast"]
Template = Sequence[Any] | Mapping[str, Any]

WORDS_OF_INIT = ("width", "eps")
WORDS_OF_CALL = ("x", "residual", "gain", "bias", *WORDS_OF_INIT)


@dataclass(frozen=True, kw_only=True)
class PythonSection:
    """The section `python:` of an implementation file, as it was read.

    function or module: `file.py:name` or `package.module:name`; a module is a class. init, call: arguments by position
    (a list) or by name (a mapping), in which "$width" and "$eps", in `call` also "$x", "$gain", "$residual" and
    "$bias", stand for values. gain, bias: the layer's parameter for that operand; dots are allowed. output: which of
    several results counts. timeout: seconds a call may take.
    """

    function: str | None = None
    module: str | None = None
    init: Template = ()
    gain: str | None = None
    bias: str | None = None
    call: Template | None = None
    output: int | None = None
    arrays: Framework = "numpy"
    device: str = "cpu"
    interpreter: Path | None = None
    timeout: float = 60.0
    memory_mib: int | None = None

    @property
    def target(self) -> str:
        return self.function or self.module or ""


@dataclass(frozen=True, eq=False)
class Returned:
    """One call's output, and what was seen around it.

    changed, shares: operands whose bytes differ afterwards, and those in whose memory the output lies. threads: how
    many were in force; None where the framework does not tell.
    """

    output: Array
    changed: tuple[str, ...]
    shares: tuple[str, ...]
    threads: int | None


@dataclass(frozen=True)
class Notes:
    """What is no fault and yet worth knowing, gathered over all calls.

    called: how arguments were passed. changed, shares: see Returned. left: processes that would have been left behind,
    known once their worker has ended.
    """

    called: str = ""
    changed: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    left: int = 0

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a record says of them; nothing where nothing was noted."""
        said = {
            f"called as {self.called}": self.called,
            f"changed {' and '.join(sorted(self.changed))} in place; every call has copies of its own": self.changed,
            f"returned memory of {' and '.join(sorted(self.shares))}": self.shares,
            f"left {self.left} processes behind, which were ended": self.left,
        }
        return tuple(sentence for sentence, noted in said.items() if noted)


class PythonSide:
    """A side whose every call runs in the side's own process."""

    def __init__(
        self, section: PythonSection, runner: Runner, *, declared: Mapping[str, Any], spec: NormSpec, gain: Array | None
    ) -> None:
        self.declared, self.spec, self.gain = declared, spec, gain
        self._section, self._runner = section, runner
        self._notes = Notes()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process. A later call would start another."""
        self._runner.close()

    @property
    def notes(self) -> Notes:
        return replace(self._notes, called=self._runner.facts.get("called", ""), left=self._runner.left)

    @property
    def versions(self) -> Mapping[str, str]:
        """Of Python, the framework, numpy and the code's package, by name; empty before the first call."""
        return dict(self._runner.facts.get("versions", {}))

    @property
    def digests(self) -> Mapping[str, str]:
        """sha256 of the code, by the file or module as declared; empty before the first call."""
        return dict(self._runner.facts.get("digests", {}))

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts its framework can hold; empty before the first call, or where the code cannot be loaded."""
        return tuple(self._runner.facts.get("layouts", ()))

    @property
    def threads(self) -> int | None:
        """How many threads it uses; None before the first call, or where that cannot be set."""
        return self._runner.facts.get("threads")

    @property
    def takes_eps(self) -> bool:
        """Whether eps is handed to it, in the call or when it is constructed; False before the first call."""
        return bool(self._runner.facts.get("takes_eps"))

    @property
    def only_width(self) -> str | None:
        """Why it takes no other width; None where it may. A class whose gain has a size of its own takes that one."""
        section = self._section
        if section.module is None or section.gain is None or "$width" in _words(section.init):
            return None
        return f"{section.target} is constructed for one width; write $width in `init:` if it takes others"

    def observe(self, case: Case) -> Observation:
        returned = self.call(case)
        return returned if isinstance(returned, Failed) else Ran(returned.output)

    def call(
        self,
        case: Case,
        *,
        eps: float | None = None,
        layout: Layout = "contiguous",
        threads: int | None = None,
        spec: NormSpec | None = None,
    ) -> Returned | Failed:
        """One call on private copies, each operand in the dtype that the spec has for it.

        eps: another one than the declared. layout: how x and residual lie in memory; for `broadcast`, their first row
        stands for all. threads: how many to use, where `self.threads` is not None. spec: another one than the
        declared, for its operands' dtypes.
        """
        failed = self._runner.start()
        if failed is not None:
            return failed
        wanted = self._operands(case, self._runner.facts["operands"], spec or self.spec)
        request = {
            "do": "call",
            "eps": self._declared_eps() if eps is None else eps,
            "layout": layout,
            "threads": threads,
            "shape": list(case.x.shape),
        }
        answer = self._runner.ask(request, wanted, case.x.shape)
        if isinstance(answer, Failed):
            return answer
        assert answer.output is not None
        returned = Returned(
            answer.output,
            tuple(answer.header["changed"]),
            tuple(answer.header["shares"]),
            answer.header["threads"],
        )
        self._note(returned)
        return returned

    def _declared_eps(self) -> float | None:
        """None where `eps: null` was declared: torch's None, which the code resolves itself."""
        return None if "eps" in self.declared and self.declared["eps"] is None else self.spec.eps

    def _operands(self, case: Case, wanted: Sequence[str], spec: NormSpec) -> dict[str, Array]:
        dtypes = {
            "x": spec.input_dtype,
            "residual": spec.residual_dtype,
            "gain": spec.gain_dtype,
            "bias": spec.gain_dtype,
        }
        with np.errstate(all="ignore"):
            return {name: round_to(getattr(case, name), dtypes[name]) for name in wanted}

    def _note(self, returned: Returned) -> None:
        self._notes = replace(
            self._notes,
            changed=self._notes.changed | set(returned.changed),
            shares=self._notes.shares | set(returned.shares),
        )


def load(
    section: PythonSection,
    *,
    declared: Mapping[str, Any],
    spec: NormSpec,
    gain: Array | None,
    home: Path,
    allow_code: bool,
) -> PythonSide:
    """The side that `section` declares; nothing of it is run before the first call. `home`: where the file stands.

    Raises InputProblem: without consent, and for a section that makes no sense.
    """
    says = _senseless(section)
    if says:
        raise InputProblem([Problem(path=section.target or "python", says=says, kind="python-section")])
    if not allow_code:
        raise InputProblem([Problem(path=section.target, says=_consent(section), kind="code-not-allowed")])
    home = home.absolute()
    launch = Launch(
        interpreter=home / section.interpreter if section.interpreter else Path(sys.executable),
        home=home,
        memory_mib=section.memory_mib,
    )
    runner = Runner(section.target, _load_request(section, home), launch, section.timeout)
    return PythonSide(section, runner, declared=declared, spec=spec, gain=gain)


def _consent(section: PythonSection) -> str:
    what = "the function" if section.function else "the class"
    code, _, name = section.target.rpartition(":")
    interpreter = section.interpreter or "the Python that runs rmsaudit"
    return f"this would run {what} {name} of {code} with {interpreter}; if you trust it, add --allow-code"


def _senseless(section: PythonSection) -> str | None:
    """Why the section cannot be what anybody means, with what to do; None where it can."""
    if (section.function is None) == (section.module is None):
        return "name one of `function:` and `module:`"
    code, colon, name = section.target.rpartition(":")
    if not (code and colon and name):
        return f"{section.target} names no code; write file.py:name or package.module:name"
    if section.function and (section.init or section.gain or section.bias):
        return "`init:`, `gain:` and `bias:` are for a class; write `module:` instead of `function:`"
    if not section.timeout > 0:
        return f"a call cannot take {section.timeout:g} s; write `timeout:` in seconds, above 0"
    return _misused("init", section.init, WORDS_OF_INIT) or _misused("call", section.call, WORDS_OF_CALL)


def _misused(key: str, template: Any, words: tuple[str, ...]) -> str | None:
    """A word in a template that stands for nothing, or an operand that lost its $."""
    if isinstance(template, str):
        if template.startswith("$") and template[1:] not in words:
            return f"`{key}:` has {template}; what it can have is {', '.join('$' + word for word in words)}"
        if key == "call" and template in words:
            return f"`call:` has the text {template}; write ${template} for the value"
        return None
    if isinstance(template, Mapping | list | tuple):
        parts = template.values() if isinstance(template, Mapping) else template
        return next(filter(None, (_misused(key, part, words) for part in parts)), None)
    if template is None or isinstance(template, bool | int | float):
        return None
    return f"`{key}:` has a {type(template).__name__}, which cannot be handed on; write a number, a word or a list"


def _words(template: Any) -> set[str]:
    """Every text in a template."""
    if isinstance(template, str):
        return {template}
    if isinstance(template, Mapping):
        template = list(template.values())
    return set().union(*map(_words, template)) if isinstance(template, list | tuple) else set()


def _load_request(section: PythonSection, home: Path) -> dict[str, Any]:
    code, _, name = section.target.rpartition(":")
    is_file = code.endswith(".py") or "/" in code
    return {
        "do": "load",
        "home": str(home),
        "file": os.path.normpath(home / code) if is_file else None,
        "shown_file": code if is_file else None,
        "module": None if is_file else code,
        "name": name,
        "init": section.init if section.module else None,
        "parameters": {"gain": section.gain, "bias": section.bias},
        "call": section.call,
        "output": section.output,
        "arrays": section.arrays,
        "device": section.device,
    }
