"""`rmsaudit model --scheduler` on a real Dask cluster of two worker processes."""

import logging
import operator
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

from rmsaudit.cli import _cluster, run
from rmsaudit.cli._cluster import Cluster
from rmsaudit.cli._executors import executor
from rmsaudit.documents.record import read_record, to_text
from rmsaudit.errors import CouldNotRun
from rmsaudit.model.executing import results_of

pytestmark = pytest.mark.frameworks

MODELS = Path(__file__).parents[2] / "fixtures" / "models"
SWAPPED = ["model", "--ref", str(MODELS / "qwen3-tiny"), "--cand", str(MODELS / "broken" / "qwen3-layers-swapped.gguf")]


def until(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """Waits until something holds, and gives it. Its limit is for what never comes."""
    end = time.monotonic() + seconds
    while not (found := holds()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def started(workers: int) -> Any:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Any]:
    """Lost workers are left to their nannies: this cluster would else close the nanny of one that is long back."""
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}), started(2) as found:
        yield found


@pytest.fixture
def cluster(own_cluster: Any) -> Any:
    """With both workers at work: one that a test killed is started again."""
    assert until(lambda: len(own_cluster.scheduler.workers) == 2)
    return own_cluster


@pytest.fixture
def on_workers(cluster: Any) -> Iterator[Callable[[str], Any]]:
    """Runs Python text on each worker."""
    with Client(cluster.scheduler_address, set_as_default=False) as client:
        yield lambda text: client.run(exec, text)


def busy(cluster: Any) -> Any:
    """The nanny of a worker that is in the middle of a piece, after another piece is done; None where there is none."""
    scheduler = cluster.scheduler
    if not any(finish == "memory" for _, _, finish, *_ in list(scheduler.transition_log)):
        return None
    working = {address for address, worker in list(scheduler.workers.items()) if worker.processing}
    return next((nanny for nanny in cluster.workers.values() if nanny.worker_address in working), None)


def test_a_worker_killed_in_the_middle_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    here, there = tmp_path / "here.yaml", tmp_path / "there.yaml"
    program = [sys.executable, "-W", "error", "-m", "rmsaudit"]
    command = [*program, *SWAPPED, "--scheduler", cluster.scheduler_address, "--out", str(there)]
    begun = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    nanny = until(lambda: busy(cluster) or begun.poll() is not None)
    assert nanny is not True, begun.communicate()
    os.kill(nanny.pid, signal.SIGKILL)
    out, err = begun.communicate(timeout=120)
    assert (begun.returncode, err) == (0, "")  # none of Dask's log either
    assert "8 of 17" in out
    assert run([*SWAPPED, "--out", str(here)]) == 0
    replay = read_record(here).replay  # the one thing that tells the commands apart
    assert to_text(read_record(there).model_copy(update={"replay": replay})) == here.read_text()


@contextmanager
def listening() -> Iterator[str]:
    """A port where nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def refusal(capsys: pytest.CaptureFixture[str], address: str) -> str:
    capsys.readouterr()
    assert run([*SWAPPED, "--scheduler", address]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cluster.PATIENCE <= 10
    monkeypatch.setattr(_cluster, "PATIENCE", 1)
    with listening() as address:
        assert refusal(capsys, address).startswith(f"--scheduler: no Dask scheduler answers at {address} (")
    for closed in (address, "nonsense", "what://ever:1"):
        said = refusal(capsys, closed)
        assert said.startswith(f"--scheduler: no Dask scheduler answers at {closed} (")
        assert said.endswith("check the address, as tcp://host:8786 [no-scheduler]\n")
        assert said.count("\n") == 1


def test_no_workers(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(_cluster, "PATIENCE", 1)
    with started(0) as empty:
        address = empty.scheduler_address
        assert refusal(capsys, address) == (
            f"--scheduler: the scheduler at {address} has no workers; start some: dask worker {address} [no-workers]\n"
        )


@pytest.mark.parametrize(
    ("change", "back", "says"),
    [
        (
            "import sys; sys.kept = sys.modules.pop('rmsaudit', None); sys.modules['rmsaudit'] = None",
            "import sys; sys.modules.pop('rmsaudit'); sys.modules.update({'rmsaudit': sys.kept} if sys.kept else {})",
            "cannot load rmsaudit (import of rmsaudit halted; None in sys.modules); install it there: pip install",
        ),
        (
            "import rmsaudit; rmsaudit.kept, rmsaudit.__version__ = rmsaudit.__version__, '0.0.9'",
            "import rmsaudit; rmsaudit.__version__ = rmsaudit.kept",
            "has rmsaudit 0.0.9, this process",
        ),
        (
            "import numpy; numpy.kept, numpy.__version__ = numpy.__version__, '1.26.4'",
            "import numpy; numpy.__version__ = numpy.kept",
            "has numpy 1.26.4, this process",
        ),
    ],
    ids=["without rmsaudit", "another rmsaudit", "another numpy"],
)
def test_workers_that_are_equipped_otherwise(
    on_workers: Callable[[str], Any],
    cluster: Any,
    capsys: pytest.CaptureFixture[str],
    change: str,
    back: str,
    says: str,
) -> None:
    on_workers(change)
    try:
        assert run([*SWAPPED, "--scheduler", cluster.scheduler_address]) == 3
    finally:
        on_workers(back)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rmsaudit: the Dask worker tcp://127.0.0.1:")
    assert says in line


@dataclass(frozen=True)
class Call:
    """A piece of work by hand, which is a call by the time that a worker has it: these cannot import this file."""

    call: Callable[[], Any]
    names: tuple[str, ...] = field(default=("model.norm",))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial, (self.call,)


def test_a_module_that_a_worker_cannot_load_after_all(cluster: Any) -> None:
    missing = ModuleNotFoundError("No module named 'rmsaudit.model'")
    with executor(1, cluster.scheduler_address) as workers, pytest.raises(CouldNotRun, match="cannot load rmsaudit"):
        list(results_of(workers, operator.call, [Call(partial(exec, f"raise {missing!r}"))]))


def test_an_error_in_a_piece_is_that_error(cluster: Any) -> None:
    with executor(1, cluster.scheduler_address) as workers, pytest.raises(ZeroDivisionError):
        list(results_of(workers, operator.call, [Call(partial(operator.truediv, 1, 0))]))


@pytest.mark.parametrize("always", [False, True])
def test_a_cluster_that_gives_up_at_the_first_death(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """What it gave up is tried once more, alone."""
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    mark = tmp_path / "died"
    dies = f"""
import os, pathlib
mark = pathlib.Path({str(mark)!r})
if {always} or not mark.exists():
    mark.touch()
    os._exit(1)
"""
    pieces = [Call(partial(abs, -1)), Call(partial(exec, dies), names=("model.layers.7.norm",)), Call(partial(abs, -2))]
    with executor(1, cluster.scheduler_address) as workers:
        if not always:
            assert list(results_of(workers, operator.call, pieces)) == [1, None, 2]
            return
        with pytest.raises(CouldNotRun, match=r"worked on model\.layers\.7\.norm, and so did another one"):
            list(results_of(workers, operator.call, pieces))


def test_large_pieces_are_sent_without_a_word(cluster: Any) -> None:
    """Dask warns of more than 10 MB; in this suite, a warning is an error."""
    with executor(1, cluster.scheduler_address) as workers:
        assert list(results_of(workers, operator.call, [Call(partial(len, bytes(11_000_000)))])) == [11_000_000]


def test_what_is_set_to_be_quiet_is_set_back_and_nothing_stays_on_the_cluster(cluster: Any) -> None:
    before = logging.root.manager.disable, list(warnings.filters)

    def interrupted() -> None:
        with executor(1, cluster.scheduler_address) as workers:
            assert isinstance(workers, Cluster)
            assert workers.ahead == 4 * 2
            assert not logging.getLogger("distributed.client").isEnabledFor(logging.CRITICAL)
            for _ in range(8):
                workers.submit(time.sleep, 0.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (logging.root.manager.disable, list(warnings.filters)) == before
    assert until(lambda: not cluster.scheduler.tasks, 20)


def test_a_scheduler_that_goes_away() -> None:
    other = started(1)
    try:
        with executor(1, other.scheduler_address) as workers:
            results = results_of(workers, operator.call, [Call(partial(abs, -1)), Call(partial(time.sleep, 30))])
            assert next(results) == 1
            other.close()
            with pytest.raises(CouldNotRun, match=r"the Dask scheduler at tcp://127\.0\.0\.1:\d+ went away"):
                next(results)
    finally:
        other.close()
