"""The parent's half of a side that runs foreign code: processes that cannot hang, flood or outlive rmsaudit.

    Runner     a worker loaded with one piece of code, replaced after a fault
    Worker     one supervised process that answers requests, until something ends it
    run        one supervised program, from its start to its end

What is guaranteed. A call takes no longer than its limit. Output on stdout and stderr is always read, and never more
than a few KiB of it are kept. On Linux, nothing that the foreign code started outlives its worker, however it detached
itself, and a worker does not outlive rmsaudit, whatever ended that: the supervisor (see worker.py) needs no one to tell
it. Elsewhere this holds for the worker's process group.

What is not. This is no sandbox: the code has the rights of the person who runs it, which is what consent is asked for.
It could kill its supervisor first (it dies with it, but what it had detached stays); a process that changed its user
(sudo) may not be ours to kill. `memory_mib` limits each process by itself, on Linux only, and no accelerator's memory.
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
    """What a worker answered, the array that came with it, and what was written to stderr meanwhile."""

    header: Mapping[str, Any]
    output: Array | None
    stderr: str


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
        return Failed(fault or "", died=isinstance(answer, Ended))

    def close(self) -> None:
        """Ends the worker with all that it started."""
        if self._worker is not None:
            self.left += self._worker.close()
            self._worker = None

    def _loaded(self) -> str | None:
        try:
            self._worker = Worker(self._launch, self._load.get("file") or "")
        except OSError as error:
            python = _shown(str(self._launch.interpreter), str(self._launch.home))
            return f"{self._subject} cannot be run: {python}: {error.strerror}"
        answer = self._worker.ask(self._load, {}, max(self._seconds, LOADING_SECONDS))
        if isinstance(answer, Answer):
            self.facts = answer.header
        return self._fault(answer)

    def _fault(self, answer: Answer | Ended) -> str | None:
        """The fault as a sentence; None where there is none."""
        if isinstance(answer, Answer) and "fault" not in answer.header:
            return None
        says = answer.says if isinstance(answer, Ended) else f"{answer.header['fault']}{self._printed(answer)}"
        if self._launch.memory_mib is not None and re.search("memory|alloc|SIGKILL", says, re.IGNORECASE):
            says += f"; its limit is memory_mib: {self._launch.memory_mib}"
        return f"{self._subject} {says}"

    def _printed(self, answer: Answer) -> str:
        return _last_words(answer.stderr, str(self._launch.home))

    def _may_stay(self, answer: Answer) -> bool:
        return (
            answer.header.get("settled") is True and not self._has_returned and self._load.get("device", "cpu") == "cpu"
        )


def run(command: Sequence[str], launch: Launch, seconds: float) -> Ended:
    """Runs a program under supervision and tells how it ended. `launch.interpreter` only supervises.

    Raises CouldNotRun where there is no such interpreter or the system is not POSIX.
    """
    try:
        process = _Process(launch, ["exec", *command], ())
    except OSError as error:
        raise CouldNotRun(f"{launch.interpreter}: {error.strerror}") from error
    with process:
        in_time = process.attend(seconds, lambda: False, {})
        return process.ended(late=None if in_time else seconds)


class Worker:
    """A process that answers requests, one after the other. The first `Ended` is its last word."""

    def __init__(self, launch: Launch, own_file: str = "") -> None:
        """own_file: the file whose lines are meant when it is said where something happened. Raises OSError."""
        self._home, self._own_file = str(launch.home), own_file
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        trace_read, trace = os.pipe()
        ours, theirs = [self._requests, self._answers, trace_read], [requests, answers, trace]
        try:
            self._process = _Process(launch, ["serve", *map(str, theirs)], theirs)
        except BaseException:
            _close_all(ours)
            raise
        finally:
            _close_all(theirs)
        self._process.take_over(ours)
        self._trace = self._process.listen(trace_read)
        self._asked = 0

    def ask(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, Array],
        seconds: float,
        shape: tuple[int, ...] | None = None,
    ) -> Answer | Ended:
        """The answer to one request. `shape`: of the array that comes with it, where one does."""
        if not self._process.is_open:
            return Ended(says="has been ended")
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
        while exchange.read(self._answers):  # one that has just died may have answered before
            pass
        if exchange.answer is None:
            return self._ended(None if in_time else seconds, exchange.complaint)
        header, output = exchange.answer
        self._process.drain()
        return Answer(header, output, self._process.stderr.text())

    def close(self) -> int:
        """Ends it with all that it started; how many processes it would have left behind."""
        with self._process:
            return self._process.stop().left

    def _ended(self, late: float | None, complaint: str) -> Ended:
        with self._process:
            self._process.stop()
            place = _place(self._trace.text(), self._own_file, self._home)
            return self._process.ended(late=late, complaint=complaint, place=place)


@dataclass(frozen=True)
class _Word:
    """The supervisor's last word. status: as waitpid gave it for the worker; None where the worker had to be killed."""

    status: int | None = None
    left: int = 0


class _Process:
    """A supervised process, its streams and its control socket. Used by one thread at a time.

    What is open is closed, and what runs is ended, by `with`, when it is forgotten, and when Python exits.
    """

    def __init__(self, launch: Launch, mode: Sequence[str], pass_fds: Sequence[int]) -> None:
        if os.name != "posix":
            raise OSError(0, "code is run on Linux and macOS only; on Windows use WSL, or kind: recorded")
        self._control, far = socket.socketpair()
        start = [str(launch.interpreter), "-X", "utf8", str(PROGRAM), str(far.fileno())]
        try:
            self._popen = subprocess.Popen(  # noqa: S603 (running what the person named is the point)
                [*start, str(launch.memory_mib or 0), *mode],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=launch.home,
                pass_fds=[far.fileno(), *pass_fds],
                start_new_session=True,
            )
        except BaseException:
            self._control.close()
            raise
        finally:
            far.close()
        self._home = str(launch.home)
        self._descriptors: list[int] = []
        self._close = weakref.finalize(self, _end, os.getpid(), self._popen, self._control, self._descriptors)
        self._word: _Word | None = None
        self._streams: dict[int, _Stream] = {}
        self._buffer = memoryview(bytearray(CHUNK_BYTES))
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self.stdout = self.listen(self._popen.stdout.fileno())
        self.stderr = self.listen(self._popen.stderr.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    @property
    def is_open(self) -> bool:
        return self._close.alive

    def take_over(self, descriptors: Iterable[int]) -> None:
        """Makes these pipes as short-lived as the process."""
        for descriptor in descriptors:
            os.set_blocking(descriptor, False)
            self._descriptors.append(descriptor)

    def listen(self, descriptor: int) -> "_Stream":
        """What is written there from now on, but for its middle."""
        os.set_blocking(descriptor, False)
        return self._streams.setdefault(descriptor, _Stream())

    def clear_streams(self) -> None:
        for stream in self._streams.values():
            stream.clear()

    def attend(
        self, seconds: float, is_over: Callable[[], bool], tasks: Mapping[int, tuple[int, Callable[[], bool]]]
    ) -> bool:
        """Keeps everything flowing until `is_over` or the process's end (True), or until time is up (False).

        tasks: descriptor to the event it waits for and what to do then; one that gives back False has no more to do.
        """
        deadline = time.monotonic() + seconds
        reads = {fd: (selectors.EVENT_READ, partial(self._read, fd)) for fd in self._streams}
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            for fd, (event, task) in {**reads, **tasks}.items():
                selector.register(fd, event, task)
            while not is_over():
                for key, _ in selector.select(max(deadline - time.monotonic(), 0)):
                    if key.data is None:  # the supervisor speaks: all has ended
                        return True
                    if not key.data():
                        selector.unregister(key.fileobj)
                if time.monotonic() >= deadline:
                    return is_over()
        return True

    def drain(self) -> None:
        """Reads what already lies in the pipes; no more than they hold, should somebody still write."""
        for fd in self._streams:
            for _ in range((1 << 20) // CHUNK_BYTES):
                if not self._read(fd):
                    break

    def _read(self, fd: int) -> bool:
        try:
            size = os.readv(fd, [self._buffer])
        except BlockingIOError:
            return False
        self._streams[fd].add(self._buffer[:size])
        return size > 0

    def stop(self) -> _Word:
        """Ends the process with all that it started, and reads the rest of its streams. The same word every time."""
        if self._word is None:
            self._word = _last_word(self._control)
            self.drain()
        return self._word

    def ended(self, *, late: float | None = None, complaint: str = "", place: str = "") -> Ended:
        """The whole story. late: the limit it went past; complaint: why else it was ended; place: where it was."""
        word = self.stop()
        self._close()
        code = None if word.status is None else os.waitstatus_to_exitcode(word.status)
        if late is not None:
            says = f"was still running after {late:g} s"
        elif complaint:
            says = complaint
        elif code is None:
            says = f"cannot be run: its Python ended with exit code {self._popen.returncode} before it could be asked"
        else:
            says = _how(code)
        stdout, stderr = self.stdout.text(), self.stderr.text()
        return Ended(
            says=f"{says}{place}{_last_words(stderr or stdout, self._home)}",
            exit_code=code,
            timed_out=late is not None,
            left=word.left,
            stdout=stdout,
            stderr=stderr,
        )


def _last_word(control: socket.socket) -> _Word:
    """Tells the supervisor to end, if it has not, and waits for what it says; an empty word if it says nothing."""
    said = b""
    with suppress(OSError):
        control.settimeout(ENDING_SECONDS)
        control.shutdown(socket.SHUT_WR)
    with suppress(OSError):
        while part := control.recv(4096):
            said += part
    try:
        return _Word(**json.loads(said))
    except (ValueError, TypeError):
        return _Word()


def _end(owner: int, popen: "subprocess.Popen[bytes]", control: socket.socket, descriptors: Sequence[int]) -> None:
    """Knows nothing of the object it cleans up after, so that it can run when that is gone."""
    if os.getpid() != owner:  # a fork of the process that this belongs to
        return
    _last_word(control)
    control.close()
    try:
        popen.wait(timeout=1)
    except subprocess.TimeoutExpired:  # an interpreter that never came as far as worker.py
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
    for stream in (popen.stdout, popen.stderr):
        if stream is not None:
            stream.close()
    _close_all(descriptors)


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _Stream:
    """The start and the end of what was written to a pipe."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._first, self._last, self._size = b"", b"", 0

    def add(self, data: memoryview) -> None:
        room = KEPT_BYTES - len(self._first)
        self._first += bytes(data[:room])
        self._last = (self._last + bytes(data[room:][-KEPT_BYTES:]))[-KEPT_BYTES:]
        self._size += len(data)

    def text(self) -> str:
        forgotten = self._size - len(self._first) - len(self._last)
        gap = f"\n[... {forgotten} bytes ...]\n".encode() if forgotten else b""
        return (self._first + gap + self._last).decode(errors="replace")


class _Exchange:
    """One request on its way out and its answer on the way in, a piece at a time."""

    def __init__(self, frame: list[memoryview], incoming: "_Incoming") -> None:
        self._frame, self._incoming = frame, incoming
        self._wanted = next(incoming)
        self.answer: tuple[Mapping[str, Any], Array | None] | None = None
        self.complaint = ""

    def is_over(self) -> bool:
        return self.answer is not None or bool(self.complaint)

    def write(self, descriptor: int) -> bool:
        """Sends what the pipe takes; False when there is nothing more to send, or nobody to read it."""
        try:
            sent = os.writev(descriptor, self._frame)
        except BrokenPipeError:
            return False
        while self._frame and sent >= len(self._frame[0]):
            sent -= len(self._frame.pop(0))
        if self._frame:
            self._frame[0] = self._frame[0][sent:]
        return bool(self._frame)

    def read(self, descriptor: int) -> bool:
        """Takes what the pipe has; False when there is no more, or no more is wanted."""
        if self.is_over():
            return False
        try:
            size = os.readv(descriptor, [self._wanted])
        except BlockingIOError:
            return False
        self._wanted = self._wanted[size:]
        if not self._wanted:
            self._advance()
        return size > 0

    def _advance(self) -> None:
        try:
            self._wanted = next(self._incoming)
        except StopIteration as finished:
            self.answer = finished.value
        except _Garbled:
            self.complaint = "wrote into the pipe on which rmsaudit reads its answers"


class _Garbled(Exception):
    """What came in is no frame, or not the answer to what was asked."""


_Incoming = Generator[memoryview, None, tuple[Mapping[str, Any], Array | None]]


def _frame(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> list[memoryview]:
    """The pieces of a request, without copying an array that lies in C order already. The format is in worker.py."""
    listed = [{"name": name, "dtype": word_of(a), "shape": list(a.shape)} for name, a in arrays.items()]
    text = json.dumps({**header, "operands": listed}).encode()
    little = [bits(np.ascontiguousarray(a)) for a in arrays.values()]
    data = [a.astype(a.dtype.newbyteorder("<"), copy=False) for a in little]
    return [memoryview(struct.pack("<I", len(text))), memoryview(text), *(a.data.cast("B") for a in data if a.size)]


def _incoming(number: int, shape: tuple[int, ...] | None) -> _Incoming:
    """Gives the memory that the next bytes of the answer to request `number` belong into; in the end, the answer.

    Trusts nothing: how much memory is taken was decided by what was asked.
    """
    prefix = bytearray(4)
    yield memoryview(prefix)
    size = struct.unpack("<I", prefix)[0]
    if not 2 <= size <= HEADER_BYTES:
        raise _Garbled
    text = bytearray(size)
    yield memoryview(text)
    header = _header(text, number)
    if shape is None or "fault" in header:
        return header, None
    described = header.get("output")
    if (
        not isinstance(described, dict)
        or described.get("shape") != list(shape)
        or described.get("dtype") not in FORMATS
    ):
        raise _Garbled
    output = np.empty(shape, dtype_of(described["dtype"]))
    if output.size:
        yield bits(output).data.cast("B")
    if sys.byteorder == "big":
        bits(output).byteswap(inplace=True)
    return header, output


def _header(text: bytearray, number: int) -> Mapping[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise _Garbled from None
    if not isinstance(header, dict) or header.get("id") != number:
        raise _Garbled
    return header


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended its own process with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        return f"died of signal {-exit_code}"
    meaning = (signal.strsignal(-exit_code) or "").lower()
    hint = ", as by a system that is out of memory" if name == "SIGKILL" else ""
    return f"died of {name} ({meaning}{hint})"


def _place(trace: str, own_file: str, home: str) -> str:
    """` (kernels.py:12)`, as Teller.place in worker.py has it, out of faulthandler's report; empty without one."""
    threads = [re.findall(r'File "(.+?)", line (\d+)', part) for part in re.split(r"(?m)^(?:Current t|T)hread ", trace)]
    threads = [frames for frames in threads if frames]
    if not threads:
        return ""
    served = [frames for frames in threads if any(path == str(PROGRAM) for path, _ in frames)]
    frames = [frame for frame in (served or threads)[-1] if frame[0] != str(PROGRAM) and not frame[0].startswith("<")]
    own = [frame for frame in frames if frame[0] == own_file]
    if not frames:
        return ""
    path, line = (own or frames)[0]
    return f" ({_shown(path, home)}:{line})"


def _shown(path: str, home: str) -> str:
    packages = re.split("/(?:site|dist)-packages/", path)
    if len(packages) > 1:
        return packages[-1]
    return path.removeprefix(home + "/") if path.startswith(home + "/") else Path(path).name


def _last_words(stream: str, home: str) -> str:
    """The last three lines of a stream as the end of a sentence, without this machine's folders; may be empty."""
    lines = [" ".join(line.split()) for line in stream.splitlines() if line.strip()]
    lines = [re.sub(r"[^\s'\"]*/(?:site|dist)-packages/", "", line).replace(home + "/", "") for line in lines[-3:]]
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", " | ".join(line[:120] for line in lines))
    return f"; it printed: {text}" if text else ""
