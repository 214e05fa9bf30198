"""Functions that go wrong, each in one way. Run by the tests in a process of their own; never imported by them."""

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np


def honest(x, gain, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.asarray(eps, x.dtype)) * gain


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


def raises_once_in_a_row(x, gain, eps):
    """Fails for width 5 alone."""
    if x.shape[-1] == 5:
        raise ValueError("not five")
    return honest(x, gain, eps)


def exits(x, gain, eps):
    exit(3)


def exits_hard(x, gain, eps):
    print("about to leave", file=sys.stderr)
    os._exit(3)


def exits_hard_with_zero(x, gain, eps):
    os._exit(0)


def segfaults(x, gain, eps):
    print("about to read address 0", file=sys.stderr, flush=True)
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


def recurses(x, gain, eps):
    return recurses(x, gain, eps)


def floods(x, gain, eps):
    megabyte = b"x" * (1 << 20)
    for _ in range(1 << 10):
        os.write(1, megabyte)
    for _ in range(1 << 8):
        os.write(2, megabyte)
    os.write(2, b"\nthe last line\n")
    return honest(x, gain, eps)


def floods_for_ever(x, gain, eps):
    while True:
        os.write(1, b"x" * (1 << 20))


def talks_in_the_background(x, gain, eps):
    def talk():
        while True:
            os.write(1, b"blah " * 10_000)

    threading.Thread(target=talk, daemon=True).start()
    return honest(x, gain, eps)


def returns_none(x, gain, eps):
    honest(x, gain, eps)


def returns_a_generator(x, gain, eps):
    yield from honest(x, gain, eps)


def returns_a_tuple(x, gain, eps):
    return honest(x, gain, eps), x


def returns_one_short(x, gain, eps):
    return honest(x, gain, eps)[:, :-1]


def returns_complex(x, gain, eps):
    return honest(x, gain, eps).astype(np.complex64)


def returns_integers(x, gain, eps):
    return honest(x, gain, eps).astype(np.int32)


def returns_objects(x, gain, eps):
    return honest(x, gain, eps).astype(object)


def returns_longer_doubles(x, gain, eps):
    return honest(x, gain, eps).astype(np.longdouble)


def returns_nan(x, gain, eps):
    return np.full_like(x, np.nan)


def returns_its_input(x, gain, eps):
    return x[:]


def returns_big_endian(x, gain, eps):
    return honest(x, gain, eps).astype(">f4")


def changes_its_input(x, gain, eps):
    out = honest(x, gain, eps)
    x *= 2
    gain[0] = 7
    return out


def writes_into_the_holes(x, gain, eps):
    """Writes beyond what it was given, where that is a view of every second element."""
    if x.base is not None:
        x.base[:, 1::2] = 0
    return honest(x, gain, eps)


def ignores_strides(x, gain, eps):
    """Reads the memory as if it were contiguous."""
    flat = np.ctypeslib.as_array(ctypes.cast(x.ctypes.data, ctypes.POINTER(ctypes.c_float)), (x.size,))
    return honest(flat.reshape(x.shape), gain, eps)


def takes_memory(x, gain, eps):
    kept = [np.ones(1 << 20) for _ in range(1 << 10)]
    return honest(x, gain, eps) + 0 * len(kept)


def closes_every_pipe(x, gain, eps):
    os.closerange(3, 256)
    return honest(x, gain, eps)


def forks_and_both_return(x, gain, eps):
    os.fork()
    return honest(x, gain, eps)


def speaks_on_every_pipe(x, gain, eps):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"\x05\x00\x00\x00hello")
        except OSError:
            pass
    return honest(x, gain, eps)


def leaves_a_daemon(x, gain, eps):
    """Forks twice, into a session of its own, as daemons do; `daemon.pid` is where its process id is written."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            Path("daemon.pid").write_text(str(os.getpid()))
            time.sleep(1000)
        os._exit(0)
    while not (Path("daemon.pid").exists() and Path("daemon.pid").read_text()):
        time.sleep(0.001)
    return honest(x, gain, eps)


def leaves_a_daemon_and_sleeps(x, gain, eps):
    leaves_a_daemon(x, gain, eps)
    time.sleep(1000)


def changes_what_is_the_norm(x, gain, eps):
    """Leaves the interpreter in a state in which little works."""
    sys.stdout.close()
    sys.stderr = None
    sys.setrecursionlimit(60)
    os.chdir("/")
    sys.path.clear()
    return honest(x, gain, eps)


def swapped(x, eps, weight):
    return honest(x, weight, eps)


def only_x(x):
    return honest(x, np.float32(1), 1e-6)


def wants_the_unknown(x, gain, eps, stream):
    return honest(x, gain, eps)


def added(x, residual, weight, eps):
    total = x + residual
    return honest(total, weight, eps), total


class Layer:
    def __init__(self, width, *, eps=1e-6, bias=False):
        self.eps = eps
        self.weight = np.ones(width, np.float32)
        self.inner = type("Inner", (), {})()
        self.inner.gain = np.ones(width, np.float32)
        self.scalar = np.ones(1, np.float32)

    def __call__(self, x):
        return honest(x, self.weight * self.inner.gain, self.eps)


not_a_function = 3
