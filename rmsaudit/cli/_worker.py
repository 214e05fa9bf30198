"""What a worker process does before its first piece of work. Imports nothing that takes time or starts threads."""

import os
import signal
import threading
from multiprocessing.connection import Connection


def begin(lifeline: Connection) -> None:
    """Makes this process end when the other end of `lifeline` is closed, be it by the death of who holds it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for where `_interrupts_held` cannot hold them: Windows
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts a thread a core, and none is ever used
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)
