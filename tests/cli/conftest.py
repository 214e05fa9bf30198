"""Running the command line in this process: what it prints, what it says, and its exit code."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rmsaudit.cli import run

TOP = Path(__file__).parents[2]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def rmsaudit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command in the top folder, as the README does."""
    monkeypatch.chdir(TOP)
    for name in [name for name in os.environ if name.startswith("RMSAUDIT")]:
        monkeypatch.delenv(name)

    def command(*words: object) -> Ran:
        code = run([str(word) for word in words])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return command


@pytest.fixture
def quickstart() -> list[str]:
    """The two sides of the README's first command."""
    folder = "fixtures/quickstart"
    return ["--ref", f"{folder}/reference.yaml", "--cand", f"{folder}/candidate.yaml"]


@pytest.fixture
def tolerance() -> list[str]:
    return ["--tolerance", "fixtures/quickstart/tolerance.yaml"]
