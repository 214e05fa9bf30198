"""Progress of work that takes over a second: on a terminal only, on standard error, gone when done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

PATIENCE = 1.0  # seconds without a word


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Gives a function to be called with what is being worked on."""
    started = monotonic()
    shown = False

    def notify(what: str) -> None:
        nonlocal shown
        if monotonic() - started >= PATIENCE and sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{what} …")
            sys.stderr.flush()
            shown = True

    try:
        yield notify
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
