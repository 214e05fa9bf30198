"""The workers of a Dask cluster as an executor, and what can be wrong with one, in our words."""

import asyncio
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from functools import partial
from pkgutil import resolve_name
from typing import Any, ParamSpec, TypeVar

from rmsaudit import __version__
from rmsaudit.cli._executors import AHEAD
from rmsaudit.cli._facts import environment
from rmsaudit.errors import CouldNotRun, InputProblem, Problem
from rmsaudit.model.executing import Workers

PATIENCE = 8  # seconds for a scheduler to answer

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def cluster(address: str) -> Iterator[Workers]:
    """The workers behind the scheduler at `address`.

    Raises InputProblem where there are none, CouldNotRun where they are not equipped as this process is.
    """
    with _quiet():
        client = _connected(address)
        try:
            threads = _threads(client, address)
            _refuse_other_versions(client)
            yield Cluster(client.get_executor(pure=False), AHEAD * threads, address)
        finally:
            client.close()


class Cluster(Workers):
    """Dask's executor, with its errors told in our words. Dask itself does again what was lost with a worker."""

    def __init__(self, executor: Executor, ahead: int, address: str) -> None:
        self.ahead = ahead
        self._executor = executor
        self._address = address

    def submit(self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        told: Future[T] = Future()
        given = self._executor.submit(function, *arguments, **named)
        given.add_done_callback(partial(self._tell, told))
        return told

    def _tell(self, told: Future[T], given: Future[T]) -> None:
        if given.cancelled():
            told.set_exception(CouldNotRun(f"the Dask scheduler at {self._address} went away; start it, and try again"))
        elif error := given.exception():
            told.set_exception(_in_our_words(error))
        else:
            told.set_result(given.result())


def _in_our_words(error: BaseException) -> BaseException:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):  # after as many deaths as the cluster allows a task
        return BrokenExecutor(str(error))
    if isinstance(error, ImportError):
        return CouldNotRun(f"a Dask worker cannot load rmsaudit ({error}); {_INSTALL}")
    return error


_INSTALL = f"install it there: pip install 'rmsaudit=={__version__}'"


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise _refused("needs Dask: pip install 'rmsaudit[dask]'", "missing-package") from None
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address), PATIENCE))  # where nobody speaks, Client waits for ever
        if kind == "Scheduler":
            return Client(address, timeout=PATIENCE, set_as_default=False)
        reason = f"a {kind} does"
    except TimeoutError:
        reason = f"nothing came for {PATIENCE} s"
    except Exception as error:  # of many kinds: an address without a port, an unknown protocol, no certificate
        reason = (str(error) or type(error).__name__).splitlines()[0]
    raise _refused(
        f"no Dask scheduler answers at {address} ({reason}); check the address, as tcp://host:8786", "no-scheduler"
    )


async def _kind(address: str) -> str:
    """What answers there: Scheduler, Worker, Nanny."""
    from distributed import rpc

    async with rpc(address, timeout=PATIENCE) as there:
        return str((await there.identity())["type"])


def _threads(client: Any, address: str) -> int:
    """How many pieces the workers do at once. Those that are just starting are waited for."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        says = f"the scheduler at {address} has no workers; start some: dask worker {address}"
        raise _refused(says, "no-workers") from None
    return sum(client.nthreads().values())


def _refused(says: str, kind: str) -> InputProblem:
    return InputProblem([Problem(path="--scheduler", says=says, kind=kind)])


def _refuse_other_versions(client: Any) -> None:
    """Workers must have our rmsaudit, and our version of what the record says could change the numbers. The scheduler
    unpacks and packs each piece of work, and must have them too."""
    for package, own in {"rmsaudit": __version__, **environment().changes_numbers}.items():
        for place, version in _versions(client, package).items():
            if isinstance(version, ImportError):
                raise CouldNotRun(f"{place} cannot load {package} ({version}); {_INSTALL}")
            if isinstance(version, str) and version != own:  # else it went away meanwhile
                raise CouldNotRun(f"{place} has {package} {version}, this process {own}; install the same on both")


def _versions(client: Any, package: str) -> dict[str, Any]:
    """Of a package, by place; the error where it could not be told."""
    asked = resolve_name, f"{package}:__version__"
    try:
        scheduler = client.run_on_scheduler(*asked)
    except Exception as error:
        scheduler = error
    workers = client.run(*asked, on_error="return")
    return {"the Dask scheduler": scheduler, **{f"the Dask worker {name}": each for name, each in workers.items()}}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's log and warnings on standard error: what matters of them is told as an error of ours."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(dask|distributed|tornado)\b")
            yield
    finally:
        logging.disable(before)
