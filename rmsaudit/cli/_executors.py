"""Where the work on a model runs: in this process, in a local pool, or on a Dask cluster."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager


@contextmanager
def executor(jobs: int, scheduler: str | None) -> Iterator[Executor]:
    """An executor; work that has not begun is dropped when it is left. Raises InputProblem for a scheduler that cannot
    be used."""
    if scheduler is not None:
        yield from _on_a_cluster(scheduler)
        return
    found = _pool(jobs)
    try:
        yield found
    finally:
        found.shutdown(wait=True, cancel_futures=True)


def _pool(jobs: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from multiprocessing import get_context

    if jobs == 1:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))  # a fork of a threaded process can hang


def _on_a_cluster(scheduler: str) -> Iterator[Executor]:
    from rmsaudit.errors import InputProblem, Problem

    def refused(says: str, kind: str) -> InputProblem:
        return InputProblem([Problem(path="--scheduler", says=says, kind=kind)])

    try:
        from distributed import Client
    except ImportError:
        raise refused("needs Dask; run: pip install 'rmsaudit[dask]'", "missing-package") from None
    try:
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        says = f"no Dask scheduler answers at {scheduler} ({type(error).__name__}); check the address"
        raise refused(says, "no-scheduler") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise refused(f"the scheduler at {scheduler} has no workers; start some", "no-workers")
        yield client.get_executor(pure=False, retries=2)
