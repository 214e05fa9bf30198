"""The parent's half of a side that runs foreign code: processes that cannot hang, flood, outlive or bring down rmsaudit.

    Runner     a worker loaded with one piece of code, replaced after a fault
    Worker     one supervised process that answers requests, until something ends it
    run        one supervised program, from its start to its end

What is guaranteed. A call takes no longer than its limit. Output on stdout and stderr is always read and never kept beyond
a few KiB. On Linux, nothing that the foreign code started outlives its worker, however it detached itself, and a
worker does not outlive rmsaudit, whatever ended that: the supervisor (see worker.py) needs no one to tell it. Elsewhere
this holds for the worker's process group.

What is not. This is no sandbox: the code has the rights of the person who runs it, which is what consent is asked for. It
could kill its supervisor first (it dies with it, but what it had detached stays); a process that changed its user (sudo)
may not be ours to kill. `memory_mib` limits each process by itself, on Linux only, and no accelerator's memory.
"""

import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from rmsaudit.arrays import Array, bits, dtype_of, word_of
from rmsaudit.errors import CouldNotRun
from rmsaudit.formats import FORMATS
from rmsaudit.loaders import Failed

PROGRAM = Path(__file__).absolute().with_name("worker.py")
KEPT_BYTES = 4096  # of the start, and of the end, of each stream
CHUNK_BYTES = 1 << 18
HEADER_BYTES = 1 << 20  # no honest header comes near
GRACE_SECONDS = 0.5  # past its limit, a worker may still say where it is
ENDING_SECONDS = 15.0  # a little more than the supervisor gives a family to die
LOADING_SECONDS = 60.0  # importing a framework takes seconds, whatever the limit of a call is


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a process is started: by which Python, in which folder, with how much memory (MiB; None: no limit)."""

    interpreter: Path
    home: Path
    memory_mib: int | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a worker answered, and the array that came with it."""

    header: Mapping[str, Any]
    output: Array | None


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process came to its end, in words that follow its name: "died of SIGSEGV …".

    exit_code: a negative one is a signal's number; None where nobody knows it. left: how many processes it would have
    left behind. stdout, stderr: the start and the end of each.
    """

    says: str
    exit_code: int | None = None
    timed_out: bool = False
    left: int = 0
    stdout: str = ""
    stderr: str = ""


class Runner:
    """A worker that has loaded one piece of code; after a fault the next request gets a fresh one.

    Kept is only a worker on the CPU whose every call so far ended in an ordinary exception: a fresh one would know no
    more, and code that always raises would cost its import every time. Code that twice could not be loaded for the
    same reason is not tried again.

    facts: what the worker told about the code when it was last loaded, or tried to. left: how many processes were found
    that the code would have left behind.
    """

    def __init__(self, subject: str, load: Mapping[str, Any], launch: Launch, seconds: float) -> None:
        self._subject, self._load, self._launch, self._seconds = subject, load, launch, seconds
        self._worker: Worker | None = None
        self._has_returned = False
        self._refusal: str | None = None
        self._refused_twice = False
        self.facts: Mapping[str, Any] = {}
        self.left = 0

    def start(self) -> Failed | None:
        """Loads the code unless a worker stands ready; what went wrong, if something did."""
        if self._worker is not None:
            return None
        if self._refused_twice and self._refusal is not None:
            return Failed(self._refusal)
        fault = self._loaded()
        if fault is None:
            self._has_returned, self._refusal = False, None
            return None
        self._refused_twice = fault == self._refusal
        self._refusal = fault
        self.close()
        return Failed(fault)

    def ask(self, request: Mapping[str, Any], arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Answer | Failed:
        """The answer to a call. `shape`: what the output must have."""
        failed = self.start()
        if failed is not None or self._worker is None:
            return failed or Failed(f"{self._subject} could not be loaded")
        answer = self._worker.ask(request, arrays, self._seconds, shape)
        fault = self._fault(answer)
        if fault is None and isinstance(answer, Answer):
            self._has_returned = True
            return answer
        if isinstance(answer, Ended) or not self._may_stay(answer):
            self.close()
        return Failed(fault or "")

    def close(self) -> None:
        """Ends the worker with all that it started."""
        if self._worker is not None:
            self.left += self._worker.close()
            self._worker = None

    def _loaded(self) -> str | None:
        try:
            self._worker = Worker(self._launch, self._load.get("file") or "")
        except OSError as error:
            return f"{self._subject} cannot be run: {self._launch.interpreter}: {error.strerror}"
        answer = self._worker.ask(self._load, {}, max(self._seconds, LOADING_SECONDS))
        if isinstance(answer, Answer):
            self.facts = answer.header
        return self._fault(answer)

    def _fault(self, answer: Answer | Ended) -> str | None:
        """The fault as a sentence; None where there is none."""
        if isinstance(answer, Answer) and "fault" not in answer.header:
            return None
        says = answer.says if isinstance(answer, Ended) else f"{answer.header['fault']}{answer.header['printed']}"
        if self._launch.memory_mib is not None and re.search("memory|alloc|SIGKILL", says, re.IGNORECASE):
            says += f"; its limit is memory_mib: {self._launch.memory_mib}"
        return f"{self._subject} {says}"

    def _may_stay(self, answer: Answer) -> bool:
        return answer.header.get("settled") is True and not self._has_returned and self._load["device"] == "cpu"


def run(command: Sequence[str], launch: Launch, seconds: float) -> Ended:
    """Runs a program under supervision and tells how it ended. `launch.interpreter` only supervises.

    Raises CouldNotRun where there is no such interpreter or the system is not POSIX.
    """
    try:
        process = _Process(launch, ["exec", *command], ())
    except OSError as error:
        raise CouldNotRun(f"{launch.interpreter}: {error.strerror}") from error
    try:
        late = not process.attend(seconds, lambda: False, {})
    finally:
        word = process.stop()
    return process.ended(word, f"was still running after {seconds:g} s" if late else "")


class Worker:
    """A process that answers requests, one after the other. The first `Ended` is its last word."""

    def __init__(self, launch: Launch, own_file: str = "") -> None:
        """own_file: the file whose lines are meant when it is said where something happened. Raises OSError."""
        self._home, self._own_file = str(launch.home), own_file
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        trace_reading, trace = os.pipe()
        ours, theirs = (self._requests, self._answers, trace_reading), (requests, answers, trace)
        try:
            self._process = _Process(launch, ["serve", *map(str, theirs)], theirs)
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        self._process.take_over(ours)
        self._trace = self._process.listen(trace_reading)
        self._asked = 0

    def ask(
        self, header: Mapping[str, Any], arrays: Mapping[str, Array], seconds: float, shape: tuple[int, ...] = ()
    ) -> Answer | Ended:
        """The answer to one request. `shape`: what an array that comes with it must have."""
        self._asked += 1
        frame = _frame({**header, "seconds": seconds, "id": self._asked}, arrays)
        exchange = _Exchange(frame, _incoming(self._asked, shape))
        tasks = {
            self._requests: (selectors.EVENT_WRITE, partial(exchange.write, self._requests)),
            self._answers: (selectors.EVENT_READ, partial(exchange.read, self._answers)),
        }
        self._process.clear_streams()
        try:
            in_time = self._process.attend(seconds + GRACE_SECONDS, exchange.is_over, tasks)
        except BaseException:  # Ctrl-C in the middle of a frame
            self.close()
            raise
        while exchange.read(self._answers):  # a process that has just died may have answered before
            pass
        if exchange.answer is None:
            return self._ended(exchange.complaint if in_time else f"was still running after {seconds:g} s")
        return self._with_output_printed(exchange.answer)
