"""Pieces of work through an executor: answers in order, few pieces handed out at once, and again what was lost."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from typing import Any

from rmsaudit.errors import CouldNotRun
from rmsaudit.model.explained import Question
from rmsaudit.model.names import compact
from rmsaudit.model.work import Portion


class Workers(Executor):
    """An executor that goes on after a worker died.

    A future of it raises BrokenExecutor where its piece was lost with a worker; `submit` never does.
    ahead: how many pieces may be handed out before the first answer is waited for. Each carries its gains, so that a
    queue of all of them would be a second copy of the model's.
    """

    ahead: int = 1


def results_of(workers: Workers, function: Callable[[Any], Any], pieces: Iterable[Any]) -> Iterator[Any]:
    """`function` of each piece, in their order.

    A piece that was lost with its worker is done again by another one, never here: what it died of may be memory.
    Raises CouldNotRun where that dies as well.
    """
    waiting: _Waiting = deque()
    for piece in pieces:
        waiting.append((piece, workers.submit(function, piece)))
        if len(waiting) >= workers.ahead:
            yield _first(workers, function, waiting)
    while waiting:
        yield _first(workers, function, waiting)


_Waiting = deque[tuple[Any, Future[Any]]]


def _first(workers: Workers, function: Callable[[Any], Any], waiting: _Waiting) -> Any:
    if _is_lost(waiting[0][1]):
        _do_again(workers, function, waiting)
    return waiting.popleft()[1].result()


def _do_again(workers: Workers, function: Callable[[Any], Any], waiting: _Waiting) -> None:
    """Does again what was lost, one piece at a time while nothing else runs: then it is known which one kills."""
    wait([future for _, future in waiting])
    for place, (piece, future) in enumerate(waiting):
        if _is_lost(future):
            again = workers.submit(function, piece)
            if _is_lost(again):
                raise _killer(piece)
            waiting[place] = piece, again


def _is_lost(future: Future[Any]) -> bool:
    return isinstance(future.exception(), BrokenExecutor)


def _killer(piece: Any) -> CouldNotRun:
    names = (piece.pair.name,) if isinstance(piece, Question) else tuple(site.name for site in piece.sites)
    return CouldNotRun(
        f"the worker process died while it worked on {', '.join(compact(names))}, and so did another one that did"
        " nothing else; if it ran out of memory, use a machine with more, or fewer --rows"
    )
