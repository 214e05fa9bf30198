"""Where the work on a model runs: what is killed is done again, Ctrl-C ends everything, and little waits at once."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from types import ModuleType
from typing import Any

import pytest

from rmsaudit.cli import run
from rmsaudit.cli._executors import AHEAD, Here, LocalPool, executor
from rmsaudit.errors import CouldNotRun, InputProblem
from rmsaudit.model.executing import Workers, results_of

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
SWAPPED = ["model", "--ref", str(MODELS / "qwen3-tiny"), "--cand", str(MODELS / "broken" / "qwen3-layers-swapped.gguf")]
GUILTY = "model.layers.1.self_attn.q_norm"

posix = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="signals and /proc")


@dataclass(frozen=True)
class Number:
    """A piece of work by hand."""

    value: int

    @property
    def names(self) -> tuple[str, ...]:
        return (f"model.layers.{self.value}.norm",)


@pytest.fixture
def doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Functions that worker processes can import, as they cannot import this file."""
    (tmp_path / "piece_of_work.py").write_text(f"""
import os
import signal
import time
from pathlib import Path

from rmsaudit.errors import InputProblem, Problem
from rmsaudit.model import work

RUN = work.run
MARKS = Path({str(tmp_path)!r})


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(portion):
    if {GUILTY!r} in portion.names and not (MARKS / "died").exists():
        (MARKS / "died").touch()
        die()
    return RUN(portion)


def always_dies(portion):
    if {GUILTY!r} in portion.names:
        die()
    return RUN(portion)


def sleeps(portion):
    (MARKS / f"begun-{{os.getpid()}}").touch()
    time.sleep(600)


def even_dies(piece):
    if piece % 2 == 0:
        die()
    return piece


def threads(_):
    import numpy

    numpy.ones((300, 300)) @ numpy.ones((300, 300))
    return len(os.listdir("/proc/self/task"))


def refuses(_):
    raise ValueError("this one cannot be done")


def finds_problems(_):
    raise InputProblem([Problem(path="a", says="one; mend it", kind="k"), Problem(path="b", says="two", kind="k")])
""")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "piece_of_work", raising=False)
    return import_module("piece_of_work")


def record_of(out: Path, *options: str) -> tuple[int, bytes]:
    code = run([*SWAPPED, "--out", str(out), *options])
    return code, out.read_bytes()


@posix
def test_a_worker_that_is_killed_changes_nothing(
    doing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = record_of(tmp_path / "alone.yaml")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("rmsaudit.model.work.run", doing.dies_once)
    assert record_of(tmp_path / "killed.yaml", "--jobs", "2") == alone
    assert (tmp_path / "died").exists()
    assert capsys.readouterr().err == "rmsaudit: a worker process died; what was lost with it is done again\n"


@posix
def test_a_portion_that_kills_its_workers_is_named_and_not_tried_for_ever(
    doing: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rmsaudit.model.work.run", doing.always_dies)
    assert run([*SWAPPED, "--out", str(tmp_path / "record.yaml"), "--jobs", "2"]) == 3
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == (
        "rmsaudit: the worker process died while it worked on model.layers.{1-2}.self_attn.q_norm, "
        "model.layers.{1-2}.self_attn.k_norm, and so did another one that did nothing else; if it ran out of memory, "
        "use a machine with more, or fewer --rows"
    )
    assert said.out == ""
    assert not (tmp_path / "record.yaml").exists()


@dataclass(frozen=True)
class Plain:
    """A piece that a worker can unpickle without knowing this file: it is sent as its number."""

    value: int

    @property
    def names(self) -> tuple[str, ...]:
        return (f"model.layers.{self.value}.norm",)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (self.value,)


@posix
def test_the_one_that_kills_is_blamed_and_no_neighbour(doing: ModuleType) -> None:
    """1, 3 and 5 are lost with 6, again and again; they are given back."""
    pieces = [Plain(value) for value in (1, 3, 5, 6, 7)]
    given = []
    with executor(2, None) as workers, pytest.raises(CouldNotRun, match=r"worked on model\.layers\.6\.norm, and"):  # noqa: PT012
        for result in results_of(workers, doing.even_dies, pieces):
            given.append(result)  # noqa: PERF402  what was given before the end is kept
    assert given in ([], [1], [1, 3], [1, 3, 5])


@posix
def test_an_error_in_a_worker_is_that_error(doing: ModuleType) -> None:
    with executor(2, None) as workers, pytest.raises(ValueError, match="this one cannot be done"):
        list(results_of(workers, doing.refuses, [Plain(1)]))


def test_problems_come_whole_out_of_a_worker(doing: ModuleType) -> None:
    with executor(2, None) as workers, pytest.raises(InputProblem) as caught:
        list(results_of(workers, doing.finds_problems, [Plain(1)]))
    assert [problem.path for problem in caught.value.problems] == ["a", "b"]


class Counting(Workers):
    """Answers nothing before it is asked; counts what it holds."""

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.held: list[int] = []
        self.most = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **_: Any) -> "Future[Any]":
        self.held.append(arguments[0].value)
        self.most = max(self.most, len(self.held))
        return Unasked(self, function, arguments[0])


class Unasked(Future[Any]):
    def __init__(self, owner: Counting, function: Callable[..., Any], piece: Number) -> None:
        super().__init__()
        self.work = owner, function, piece

    def exception(self, timeout: float | None = None) -> BaseException | None:
        owner, function, piece = self.work
        if not self.done():
            owner.held.remove(piece.value)
            self.set_result(function(piece))
        return super().exception(timeout)


@pytest.mark.parametrize("ahead", [1, 8])
def test_few_pieces_are_handed_out_at_once_and_answers_come_in_order(ahead: int) -> None:
    counting, taken = Counting(ahead), []

    def pieces() -> Iterator[Number]:
        for value in range(100):
            taken.append(value)
            yield Number(value)

    results = results_of(counting, lambda piece: piece.value**2, pieces())
    assert next(results) == 0
    assert len(taken) == ahead  # an answer comes before the rest is even asked for
    assert list(results) == [value**2 for value in range(1, 100)]
    assert counting.most == ahead


class Losing(Workers):
    """Loses what it is given together with piece 3, until piece 3 is given alone."""

    ahead = 4

    def __init__(self) -> None:
        self.given: list[int] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **_: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.given.append(arguments[0].value)
        if len(self.given) <= self.ahead:
            future.set_exception(BrokenExecutor("lost"))
        else:
            future.set_result(function(*arguments))
        return future


def test_what_was_lost_is_done_again_before_anything_new() -> None:
    losing = Losing()
    assert list(results_of(losing, lambda piece: piece.value, map(Number, range(6)))) == list(range(6))
    assert losing.given == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]


def test_pools_hold_four_pieces_a_worker() -> None:
    with executor(3, None) as workers:
        assert isinstance(workers, LocalPool)
        assert workers.ahead == 3 * AHEAD == 12
    with executor(1, None) as workers:
        assert isinstance(workers, Here)
        assert workers.ahead == 1


def test_here_is_this_thread_and_ctrl_c_stops_in_the_middle() -> None:
    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    with executor(1, None) as workers, pytest.raises(KeyboardInterrupt):
        workers.submit(interrupted, 1)
    with executor(1, None) as workers, pytest.raises(ZeroDivisionError):
        list(results_of(workers, lambda piece: piece.value / 0, [Number(1)]))


def test_progress_is_told_as_portions_finish(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import contextmanager

    told: list[str] = []

    @contextmanager
    def progress() -> Iterator[Callable[[str], None]]:
        yield told.append

    monkeypatch.setattr("rmsaudit.cli._progress.progress", progress)
    assert run([*SWAPPED, "--jobs", "2"]) == 0
    assert told == ["site 1 of 10", "site 2 of 10", "site 6 of 10", "site 10 of 10", told[-1]]


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(ProcessPoolExecutor, "submit", refused)
    assert run([*SWAPPED, "--jobs", "2"]) == 3
    assert capsys.readouterr().err == (
        "rmsaudit: a worker process cannot be started (Resource temporarily unavailable); take fewer --jobs\n"
    )


@posix
def test_workers_start_no_threads_for_blas(doing: ModuleType) -> None:
    """One thread works, one waits for the end of who started the process."""
    with executor(2, None) as workers:
        assert list(results_of(workers, doing.threads, [Plain(1)])) == [2]


@pytest.mark.parametrize("how", ["module", "script", "standard input"])
def test_processes_start_however_the_program_was_started(how: str) -> None:
    program = {
        "module": ["-m", "rmsaudit"],
        "script": [str(Path(sys.executable).with_name("rmsaudit"))],
        "standard input": ["-"],
    }[how]
    code = "import sys; from rmsaudit.cli import main; main()" if how == "standard input" else ""
    paths = ["--ref", str(MODELS / "llama-tiny"), "--cand", str(MODELS / "llama-tiny" / "llama.gguf")]
    words = ["model", *paths, "--category", "zero", "--jobs", "2"]
    done = subprocess.run([sys.executable, *program, *words], input=code, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "9 norms in float32" in done.stdout


@pytest.fixture
def sleeping(doing: ModuleType, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """The command line with two workers that are in the middle of work that does not end."""
    (tmp_path / "slow.py").write_text(
        "import sys\nimport piece_of_work\nfrom rmsaudit.cli import run\nfrom rmsaudit.model import work\n"
        "if __name__ == '__main__':\n    work.run = piece_of_work.sleeps\n    sys.exit(run(sys.argv[1:]))\n"
    )
    words = [str(tmp_path / "slow.py"), *SWAPPED, "--jobs", "2", "--out", str(tmp_path / "record.yaml")]
    begun = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert until(lambda: len(workers_of(tmp_path)) == 2), begun.communicate()
    yield begun
    for process in (begun.pid, *workers_of(tmp_path)):
        if is_alive(process):
            os.kill(process, signal.SIGKILL)
    begun.communicate()


def workers_of(tmp_path: Path) -> list[int]:
    return [int(mark.name.removeprefix("begun-")) for mark in tmp_path.glob("begun-*")]


def until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    """Waits until something holds. Its limit is for what never comes."""
    end = monotonic() + seconds
    while not holds() and monotonic() < end:
        sleep(0.02)
    return holds()


def is_alive(process: int) -> bool:
    """A zombie is not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@posix
def test_ctrl_c_ends_everything(sleeping: "subprocess.Popen[str]", tmp_path: Path) -> None:
    os.killpg(sleeping.pid, signal.SIGINT)  # as a terminal does: the workers get it too
    out, err = sleeping.communicate(timeout=60)  # the work would take ten minutes
    assert (sleeping.returncode, out, err.strip()) == (130, "", "interrupted; nothing was written")
    assert not any(map(is_alive, workers_of(tmp_path)))
    assert sorted(path.name for path in tmp_path.glob("record*")) == []


@posix
def test_workers_end_with_the_program_that_is_killed(sleeping: "subprocess.Popen[str]", tmp_path: Path) -> None:
    os.kill(sleeping.pid, signal.SIGKILL)
    assert until(lambda: not any(map(is_alive, workers_of(tmp_path))))


def test_a_number_of_processes_has_no_meaning_on_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SWAPPED, "--jobs", "2", "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == (
        "--jobs: has no meaning beside --scheduler, whose cluster has its own number of workers; leave one out "
        "[contradiction]\n"
    )


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run([*SWAPPED, "--scheduler", "tcp://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err == "--scheduler: needs Dask: pip install 'rmsaudit[dask]' [missing-package]\n"
