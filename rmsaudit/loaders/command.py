"""command: any program that reads a safetensors file and writes one. For C++, CUDA, Rust, another machine by ssh.

The program is started once per case, without a shell, in the folder of the declaring file. In its arguments, `{input}`
stands for a file with the operands that the spec reads (`x`, `gain`, `residual`, `bias`), each in the dtype that the
spec has for it; `{output}` for the file that it has to write, with the result as tensor `y`; `{eps}` and `{width}` for
numbers. Whatever a placeholder stands for, its argument stays one argument. `{{` and `}}` are braces.
"""

import hashlib
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.loaders import Failed, Observation
from rmsaudit.loaders.exchange import (
    UnusableTensors,
    fed,
    listed,
    observed,
    open_tensors,
    operands,
    write_tensors,
)
from rmsaudit.loaders.process import Ended, Launch, run
from rmsaudit.semantics import NormSpec

INPUT = "rmsaudit/input/1"
OUTPUT_NAME = "y"
PLACEHOLDERS = ("input", "output", "eps", "width")
MOST_SENTENCES = 20
_BRACES = re.compile(r"\{\{|\}\}|\{(\w*)\}")


@dataclass(frozen=True, kw_only=True)
class CommandSection:
    """The section `command:` of an implementation file. timeout: seconds a call may take."""

    argv: tuple[str, ...]
    timeout: float = 60.0
    memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """How one call went. exit_code as in process.Ended; stderr: its start and its end."""

    case: str
    exit_code: int | None
    seconds: float
    stderr: str


class CommandSide:
    """A side that is a program. notes: one entry per call, in order. digests: sha256 of the files that argv names."""

    def __init__(
        self, section: CommandSection, home: Path, *, declared: Mapping[str, Any], spec: NormSpec, gain: Array | None
    ) -> None:
        self.declared, self.spec, self.gain = declared, spec, gain
        self.notes: list[Call] = []
        self.digests = _digests(section.argv, home)
        self._section, self._home = section, home

    @property
    def sentences(self) -> tuple[str, ...]:
        """What calls wrote to standard error or ended with, each once; the first MOST_SENTENCES of them."""
        said = (
            f"{call.case}: exit code {call.exit_code}" + (f", standard error: {call.stderr}" if call.stderr else "")
            for call in self.notes
            if call.stderr or call.exit_code
        )
        return tuple(islice(dict.fromkeys(said), MOST_SENTENCES))

    @property
    def seconds(self) -> float:
        """Wall time of all calls together."""
        return sum(call.seconds for call in self.notes)

    def observe(self, case: Case) -> Observation:
        return self.call(case)

    def call(self, case: Case, *, eps: float | None = None) -> Observation:
        """One call in a folder of its own, which is gone afterwards. eps: another one than the declared."""
        missing = _missing_program(self._section.argv[0], self._home)
        if missing:
            return Failed(missing)
        with tempfile.TemporaryDirectory(prefix="rmsaudit-") as folder:
            given, returned = Path(folder) / "input.safetensors", Path(folder) / "output.safetensors"
            eps = self.spec.eps if eps is None else eps
            try:
                _write_input(given, fed(case, self.spec), self.spec, eps)
            except UnusableTensors as problem:
                return Failed(problem.says)
            values = {"input": str(given), "output": str(returned), "eps": repr(eps), "width": str(case.width)}
            ended = self._run([_filled(argument, values) for argument in self._section.argv], case)
            return self._judged(ended, returned, case)

    def _run(self, argv: list[str], case: Case) -> Ended:
        launch = Launch(interpreter=Path(sys.executable), home=self._home, memory_mib=self._section.memory_mib)
        started = time.monotonic()
        ended = run(argv, launch, self._section.timeout)
        seconds = time.monotonic() - started
        name = ", ".join(word for word in (case.category, case.label) if word)
        self.notes.append(Call(case=name, exit_code=ended.exit_code, seconds=seconds, stderr=ended.stderr))
        return ended

    def _judged(self, ended: Ended, returned: Path, case: Case) -> Observation:
        program = self._section.argv[0]
        if ended.exit_code != 0 or ended.timed_out:
            return Failed(f"{program} {ended.says}")
        try:
            file = open_tensors(returned)
        except UnusableTensors as problem:
            if problem.kind == "no-such-file":
                return Failed(f"{program} ended with exit code 0 and wrote no {{output}}")
            return Failed(f"{program} wrote an {{output}} that {problem.says}")
        if OUTPUT_NAME not in file.entries:
            found = listed(file.entries) if file.entries else "nothing"
            return Failed(f"{program} wrote no tensor {OUTPUT_NAME!r}; its {{output}} holds {found}")
        return observed(file, OUTPUT_NAME, case)


def load(
    section: CommandSection,
    *,
    declared: Mapping[str, Any],
    spec: NormSpec,
    gain: Array | None,
    home: Path,
    allow_code: bool,
) -> CommandSide:
    """The side that `section` declares; nothing is run before the first case. `home`: the declaring file's folder.

    Raises InputProblem: without consent, and for an argv that cannot work.
    """
    problems = _senseless(section.argv)
    if problems:
        raise InputProblem(Problem(path="command", says=says, kind="command-section") for says in problems)
    if not allow_code:
        says = f"this would run `{shlex.join(section.argv)}`; if you trust it, add --allow-code"
        raise InputProblem([Problem(path=section.argv[0], says=says, kind="code-not-allowed")])
    return CommandSide(section, home.absolute(), declared=declared, spec=spec, gain=gain)


def _senseless(argv: tuple[str, ...]) -> list[str]:
    """Everything wrong with an argv, with what to do."""
    if not argv or not argv[0]:
        return ["`argv:` is empty; write the program and its arguments as a list"]
    found = {match[1] for argument in argv for match in _BRACES.finditer(argument) if match[1] is not None}
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    problems = [
        f"`argv:` has {{{word}}}, which stands for nothing; there are {known}, and {{{{ for a brace"
        for word in sorted(found - set(PLACEHOLDERS))
    ]
    for needed, why in (("input", "its operands"), ("output", "where to write")):
        if needed not in found:
            problems.append(f"`argv:` has no {{{needed}}}, so the program would not learn {why}; add it")
    if any("\0" in argument for argument in argv):
        problems.append("`argv:` has a NUL character, which no program can be given; remove it")
    return problems


def _filled(argument: str, values: Mapping[str, str]) -> str:
    def replaced(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else values[match[1]]

    return _BRACES.sub(replaced, argument)


def _write_input(path: Path, case: Case, spec: NormSpec, eps: float) -> None:
    metadata = {
        "rmsaudit.schema": INPUT,
        "rmsaudit.category": case.category,
        "rmsaudit.label": case.label,
        "rmsaudit.eps": repr(eps),
        "rmsaudit.digest": case.digest(),
    }
    write_tensors(path, operands(case, spec), metadata)


def _missing_program(program: str, home: Path) -> str | None:
    """Why `program` cannot be started, or None. A name with a slash is relative to `home`, any other is looked up."""
    if "/" not in program:
        return None if shutil.which(program) else f"{program} is not installed: no folder of PATH has it"
    path = home / program
    if not path.is_file():
        return f"{program} does not exist; it is looked for in the folder of the declaring file"
    return None if shutil.which(path) else f"{program} is not executable; chmod +x makes it so"


def _digests(argv: tuple[str, ...], home: Path) -> dict[str, str]:
    """sha256 of the program and of every argument that names a file."""
    found = {}
    for argument in argv:
        which = shutil.which(argument) if argument == argv[0] and "/" not in argument else None
        path = Path(which) if which else home / argument
        try:
            if path.is_file():
                with path.open("rb") as file:
                    found[argument] = hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):  # a name that no system has, or a file that cannot be read: its call will say so
            continue
    return found
