"""Functions that go wrong, each in one way, and a few that do not. Run in processes of their own, never imported here.

numpy is imported where it is used: most ways to go wrong need none, and each of them costs a process.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def honest(x, gain, eps):
    import numpy as np

    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.asarray(eps, x.dtype)) * gain


# --- it does not come back -------------------------------------------------------------------------------------------


def raises(x, gain, eps):
    raise ValueError(f"width {x.shape[-1]} is not\na multiple of 128: {object()}")


def raises_without_text(x, gain, eps):
    raise KeyError


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def raises_the_unspeakable(x, gain, eps):
    raise Unspeakable


class Strange(BaseException):
    pass


def raises_base(x, gain, eps):
    raise Strange("not even an Exception")


def raises_in_a_library(x, gain, eps):
    return json.loads("")


def complains_and_raises(x, gain, eps):
    sys.stderr.write("kernel: error 700\n")
    raise RuntimeError("launch failed")


def exits(x, gain, eps):
    exit(3)


def exits_hard(x, gain, eps):
    os.write(2, b"about to leave\n")
    os._exit(3)


def exits_hard_with_zero(x, gain, eps):
    os._exit(0)


def segfaults(x, gain, eps):
    ctypes.string_at(0)


def aborts(x, gain, eps):
    os.abort()


def is_killed(x, gain, eps):
    os.kill(os.getpid(), signal.SIGKILL)


def kills_its_group(x, gain, eps):
    os.killpg(0, signal.SIGKILL)


def loops(x, gain, eps):
    while True:
        pass


def sleeps(x, gain, eps):
    time.sleep(1000)


def holds_the_lock(x, gain, eps):
    """Blocks in C without letting any other Python thread run."""
    ctypes.PyDLL(None).pause()


def ignores_signals_and_sleeps(x, gain, eps):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(1000)


def floods_for_ever(x, gain, eps):
    while True:
        os.write(1, b"x" * (1 << 20))


def recurses(x, gain, eps):
    return recurses(x, gain, eps)


def takes_memory(x, gain, eps):
    import numpy as np

    kept = [np.ones(1 << 20) for _ in range(1 << 10)]
    return honest(x, gain, eps) + 0 * len(kept)


def closes_every_pipe(x, gain, eps):
    os.closerange(3, 256)
    return x


def speaks_on_every_pipe(x, gain, eps):
    for descriptor in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\x05\x00\x00\x00hello")
    return x


def wants_a_stream(x, gain, eps, stream):
    return x


# --- it comes back with something else -------------------------------------------------------------------------------


def returns_none(x, gain, eps):
    pass


def returns_a_generator(x, gain, eps):
    yield x


def returns_a_number(x, gain, eps):
    return 1.0


def returns_a_list(x, gain, eps):
    return [1.0, 2.0]


def returns_a_tuple(x, gain, eps):
    return x + 1, x


def returns_one_short(x, gain, eps):
    return honest(x, gain, eps)[:, :-1]


def returns_complex(x, gain, eps):
    import numpy as np

    return honest(x, gain, eps).astype(np.complex64)


def returns_integers(x, gain, eps):
    import numpy as np

    return honest(x, gain, eps).astype(np.int32)


def returns_objects(x, gain, eps):
    return honest(x, gain, eps).astype(object)


def returns_longer_doubles(x, gain, eps):
    import numpy as np

    return honest(x, gain, eps).astype(np.longdouble)


# --- it comes back, and something is worth a note --------------------------------------------------------------------


def returns_nan(x, gain, eps):
    import numpy as np

    return np.full_like(x, np.nan)


def returns_its_input(x, gain, eps):
    return x[:]


def returns_other_order(x, gain, eps):
    import numpy as np

    return np.asfortranarray(honest(x, gain, eps).astype(">f4"))


def changes_its_input(x, gain, eps):
    out = honest(x, gain, eps)
    x *= 2
    gain[0] = 7
    return out


def writes_into_the_holes(x, gain, eps):
    if x.base is not None:
        x.base[:, 1::2] = 0
    return honest(x, gain, eps)


def ignores_strides(x, gain, eps):
    import numpy as np

    memory = ctypes.cast(x.ctypes.data, ctypes.POINTER(ctypes.c_float))
    return honest(np.ctypeslib.as_array(memory, (x.size,)).reshape(x.shape), gain, eps)


def tells_its_layout(x, gain, eps):
    import numpy as np

    steps = tuple(stride // x.itemsize for stride in x.strides)
    rows, width = x.shape
    known = {(width, 1): 0, (1, rows): 1, (2 * width, 2): 2, (0, 1): 3}
    return np.full(x.shape, known[steps], np.float32)


def tells_its_eps(x, gain, eps):
    import numpy as np

    return np.full(x.shape, -1 if eps is None else eps, np.float64)


def tells_its_dtypes(x, gain, eps):
    if (x.dtype.name, gain.dtype.name) != ("bfloat16", "float16"):
        raise TypeError(f"{x.dtype} {gain.dtype}")
    return x


def floods(x, gain, eps):
    for _ in range(1 << 9):
        os.write(1, b"x" * (1 << 20))
    os.write(2, b"first\n" + b"y" * (1 << 20) + b"\nlast\n")
    return honest(x, gain, eps)


def talks_in_the_background(x, gain, eps):
    def talk():
        while True:
            os.write(1, b"blah " * 10_000)

    threading.Thread(target=talk, daemon=True).start()
    return honest(x, gain, eps)


def forks_and_both_return(x, gain, eps):
    os.fork()
    return honest(x, gain, eps)


def spoils_the_interpreter(x, gain, eps):
    sys.stdout.close()
    sys.stderr = None
    sys.setrecursionlimit(60)
    os.chdir("/")
    sys.path.clear()
    return honest(x, gain, eps)


def leaves_a_daemon(x, gain, eps):
    """Forks twice into a session of its own, as daemons do, and writes the process id to daemon.pid."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            Path("daemon.tmp").write_text(str(os.getpid()))
            Path("daemon.tmp").rename("daemon.pid")
            time.sleep(1000)
        os._exit(0)
    while not Path("daemon.pid").exists():
        time.sleep(0.001)
    return x


def leaves_a_daemon_and_dies(x, gain, eps):
    leaves_a_daemon(x, gain, eps)
    os.abort()


def leaves_a_daemon_and_sleeps(x, gain, eps):
    leaves_a_daemon(x, gain, eps)
    time.sleep(1000)


def acts_by_width(x, gain, eps):
    with Path("pids").open("a") as seen:
        seen.write(f"{os.getpid()}\n")
    if x.shape[-1] == 2:
        raise ValueError("two")
    if x.shape[-1] == 3:
        os._exit(1)
    if x.shape[-1] == 4:
        sys.exit()
    return x


# --- ways to be called -----------------------------------------------------------------------------------------------


def only_x(x):
    return x


def other_order(x, epsilon, weight):
    return honest(x, weight, epsilon)


def by_name(x, *, gamma, eps=1e-5):
    return honest(x, gamma, eps)


def without_eps(x, weight, bias=None):
    return honest(x, weight, 1e-6)


def any_number(*operands):
    return honest(*operands)


def unknown_names(a, b, c):
    return honest(a, b, c)


def added(x, residual, weight, eps):
    total = x + residual
    return honest(total, weight, eps), total


class Layer:
    def __init__(self, width, *, eps=1e-6):
        import numpy as np

        self.eps = eps
        self.weight = np.ones(width, np.float32)
        self.inner = type("Inner", (), {})()
        self.inner.gain = np.ones(width, np.float32)
        self.scalar = np.ones(1, np.float32)

    def __call__(self, x):
        return honest(x, self.weight * self.inner.gain, self.eps)


not_a_function = 3
