"""Pieces of work through an executor: answers in order, few pieces handed out at once, and again what was lost."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from typing import Any, Protocol, TypeVar

from rmsaudit.errors import CouldNotRun
from rmsaudit.model.names import compact


class Piece(Protocol):
    """A piece of work. names: of the sites that it is about."""

    @property
    def names(self) -> tuple[str, ...]: ...


P = TypeVar("P", bound=Piece)
R = TypeVar("R")


class Workers(Executor):
    """An executor that goes on after a worker died.

    A future of it raises BrokenExecutor where its piece was lost with a worker; `submit` never does.
    ahead: how many pieces may be handed out before the first answer is waited for. Each carries its gains, so that a
    queue of all of them would be a second copy of the model's.
    """

    ahead: int = 1


_Waiting = deque[tuple[P, Future[R]]]


def results_of(executor: Executor, function: Callable[[P], R], pieces: Iterable[P]) -> Iterator[R]:
    """`function` of each piece, in their order.

    A piece that was lost with its worker is done again by another one, never here: what it died of may be memory.
    Raises CouldNotRun where that dies as well.
    """
    ahead = executor.ahead if isinstance(executor, Workers) else 1
    waiting: _Waiting[P, R] = deque()
    for piece in pieces:
        waiting.append((piece, executor.submit(function, piece)))
        if len(waiting) >= ahead:
            yield _first(executor, function, waiting)
    while waiting:
        yield _first(executor, function, waiting)


def _first(executor: Executor, function: Callable[[P], R], waiting: _Waiting[P, R]) -> R:
    if _is_lost(waiting[0][1]):
        _do_again(executor, function, waiting)
    return waiting.popleft()[1].result()


def _do_again(executor: Executor, function: Callable[[P], R], waiting: _Waiting[P, R]) -> None:
    """Does again what was lost, one piece at a time while nothing else runs: then it is known which one kills."""
    wait([future for _, future in waiting])
    for place, (piece, future) in enumerate(waiting):
        if _is_lost(future):
            again = executor.submit(function, piece)
            if _is_lost(again):
                raise _killer(piece)
            waiting[place] = piece, again


def _is_lost(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenExecutor)


def _killer(piece: Piece) -> CouldNotRun:
    return CouldNotRun(
        f"the worker process died while it worked on {', '.join(compact(piece.names))}, and so did another one that"
        " did nothing else; if it ran out of memory, use a machine with more, or fewer --rows"
    )
