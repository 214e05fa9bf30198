"""What can go wrong, as values and as exceptions, and the exit code each one means.

RmsauditError            carries an exit code; caught in one place, `rmsaudit.cli`
├── InputProblem     2   a file or flag that cannot be used: one or more `Problem`s, all at once
├── CouldNotRun      3   a side that cannot be run, so there is nothing to compare
└── NotIeee          3   the arithmetic at hand is not IEEE 754, so the oracle proves nothing

Rejected, skipped and failed-to-run cells are not exceptions: they are values in the record.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the command line; every code has one meaning."""

    OK = 0
    REJECTED = 1
    INPUT_PROBLEM = 2
    COULD_NOT_RUN = 3
    NOTHING_COMPARED = 4
    BUG = 70
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with one place: `path:line:column: what is wrong; what to do [kind]`.

    `line` and `column` count from 1; both are None where a problem is about a whole file or about a flag.
    """

    path: str
    says: str
    kind: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}:{self.column}" if self.line is not None else self.path
        return f"{place}: {self.says} [{self.kind}]"


class RmsauditError(Exception):
    """Base of every error that is not a bug."""

    exit_code: Exit = Exit.BUG


class InputProblem(RmsauditError):
    """Input that cannot be used. `problems` holds every one that was found, in file order."""

    exit_code = Exit.INPUT_PROBLEM

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda p: (p.path, p.line or 0, p.column or 0)))
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type["InputProblem"], tuple[tuple[Problem, ...]]]:
        """As it was made, so that it comes whole out of a worker process."""
        return type(self), (self.problems,)


class CouldNotRun(RmsauditError):
    """A side that cannot be loaded or run at all."""

    exit_code = Exit.COULD_NOT_RUN


class NotIeee(RmsauditError):
    """The floating-point environment breaks the assumptions of the oracle's proofs: subnormals flushed, another
    rounding."""

    exit_code = Exit.COULD_NOT_RUN
