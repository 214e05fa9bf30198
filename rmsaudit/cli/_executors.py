"""Where the work on a model runs: in this process, in a local pool, or on a Dask cluster."""

import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

from rmsaudit.cli import _worker
from rmsaudit.errors import CouldNotRun, InputProblem, Problem
from rmsaudit.model.executing import Workers

AHEAD = 4  # pieces handed out at once per worker: none waits for its next one, and memory stays small

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def executor(jobs: int, scheduler: str | None) -> Iterator[Workers]:
    """An executor. When it is left by an exception, what still runs is cut off.

    Raises InputProblem for a scheduler that cannot be used, CouldNotRun where its workers cannot do the work.
    """
    if scheduler is None:
        workers: Workers = Here() if jobs == 1 else LocalPool(jobs)
        try:
            yield workers
        finally:
            workers.shutdown(cancel_futures=True)
        return
    if jobs != 1:
        says = "has no meaning beside --scheduler, whose cluster has its own number of workers; leave one out"
        raise InputProblem([Problem(path="--jobs", says=says, kind="contradiction")])
    from rmsaudit.cli._cluster import cluster

    with cluster(scheduler) as found:
        yield found


class Here(Workers):
    """Does each piece at once, in this thread: Ctrl-C stops in the middle of it."""

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


class LocalPool(Workers):
    """A pool of processes. When one dies, the standard library gives up the whole pool; then this starts a new one.

    The workers are spawned: a fork of a process with threads can hang.
    """

    def __init__(self, jobs: int) -> None:
        self.ahead = AHEAD * jobs
        self._jobs = jobs
        _forget_what_is_no_file()
        self._context = get_context("spawn")
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._jobs, mp_context=self._context, initializer=_worker.begin, initargs=(self._reader,)
        )

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Raises CouldNotRun where no process can be started."""
        try:
            with _interrupts_held():
                try:
                    return self._pool.submit(function, *arguments, **named)
                except BrokenProcessPool:
                    self._replace()
                    return self._pool.submit(function, *arguments, **named)
        except OSError as error:
            says = f"a worker process cannot be started ({error.strerror or error}); take fewer --jobs"
            raise CouldNotRun(says) from error

    def _replace(self) -> None:
        self._pool.shutdown()
        _say("a worker process died; what was lost with it is done again")
        self._pool = self._new()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With cancel_futures, what runs is cut off as well: its worker ends."""
        if cancel_futures:
            self._lifeline.close()
        self._pool.shutdown(wait, cancel_futures=cancel_futures)
        self._lifeline.close()
        self._reader.close()


def _forget_what_is_no_file() -> None:
    """A program read from standard input calls its file `<stdin>`, and a spawned process would run that first."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is not None and not Path(file).exists():
        del main.__file__


def _say(what: str) -> None:
    """A line on standard error, in place of a progress line that may stand there."""
    before = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{before}rmsaudit: {what}\n")


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A Ctrl-C comes after the block. A process started in it never sees one, not even before its first line runs."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
