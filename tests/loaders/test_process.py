"""Processes that answer, and what is left of those that do not."""

import ast
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmsaudit.arrays import bits, bits_of, dtype_of
from rmsaudit.errors import CouldNotRun
from rmsaudit.formats import FORMATS
from rmsaudit.loaders.process import PROGRAM, Answer, Ended, Launch, Worker, _Exchange, _incoming, run

HERE = Path(__file__).parent
PYTHON = Path(sys.executable)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guaranteed on Linux only")


def load_request(name: str, folder: Path = HERE, arrays: str = "numpy") -> dict[str, Any]:
    return {
        "do": "load",
        "home": str(folder),
        "file": str(HERE / "misbehaving.py"),
        "shown_file": "misbehaving.py",
        "module": None,
        "name": name,
        "init": None,
        "parameters": {},
        "call": None,
        "output": None,
        "arrays": arrays,
        "device": "cpu",
    }


def call_request(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"do": "call", "eps": 1e-6, "layout": "contiguous", "threads": None, "shape": list(shape)}


def ready_worker(name: str, folder: Path = HERE, arrays: str = "numpy") -> Worker:
    """A worker that has loaded misbehaving.py:name. `folder` is where it runs. With `arrays` dlpack it starts fast."""
    worker = Worker(Launch(interpreter=PYTHON, home=folder))
    loaded = worker.ask(load_request(name, folder, arrays), {}, 30)
    assert isinstance(loaded, Answer), loaded
    assert "fault" not in loaded.header, loaded
    return worker


def call(worker: Worker, x: np.ndarray | None = None, seconds: float = 30) -> Answer | Ended:
    operand = np.ones((2, 4), np.float32) if x is None else x
    gain = np.ones(operand.shape[-1], np.float32)
    return worker.ask(call_request(operand.shape), {"x": operand, "gain": gain}, seconds, operand.shape)


def is_alive(pid: int) -> bool:
    """True where the process exists; a zombie, which nobody has collected yet, does not count."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_for(file: Path) -> int:
    """The process id that turns up in `file`."""
    deadline = time.monotonic() + 20
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} never came"
        time.sleep(0.01)
    return int(file.read_text())


def ends_soon(pid: int) -> bool:
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(pid)


@pytest.fixture(scope="module")
def echo() -> Iterator[Worker]:
    worker = ready_worker("returns_its_input")
    yield worker
    worker.close()


@pytest.mark.parametrize("word", FORMATS)
def test_every_bit_pattern_comes_back(word: str, echo: Worker) -> None:
    size = FORMATS[word].bits
    patterns = (
        np.arange(1 << size, dtype=bits_of(word))
        if size <= 16
        else np.random.default_rng(1).integers(0, 1 << size, 1 << 14, dtype=bits_of(word))
    )
    x = patterns.view(dtype_of(word)).reshape(-1, 32)
    answer = call(echo, x)
    assert isinstance(answer, Answer)
    assert answer.output is not None
    assert answer.output.dtype == x.dtype
    np.testing.assert_array_equal(bits(answer.output), bits(x))


def test_an_array_larger_than_every_pipe_comes_back(echo: Worker) -> None:
    x = np.random.default_rng(2).standard_normal((1024, 1024)).astype(np.float32)
    answer = call(echo, x.T)  # and one that has to be put in order first
    assert isinstance(answer, Answer)
    np.testing.assert_array_equal(answer.output, x.T)


def test_gigabytes_of_output_are_neither_kept_nor_in_the_way() -> None:
    worker = ready_worker("floods")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = call(worker)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker.close()
    assert isinstance(answer, Answer)
    assert after - before < 20 << 10  # KiB; of 513 MiB that were written, a few KiB are kept
    assert answer.stderr.startswith("first\nyyy")
    assert answer.stderr.endswith("yyy\nlast\n")
    assert "[... " in answer.stderr
    assert len(answer.stderr) < 10_000


def test_a_thread_that_never_stops_talking_is_not_waited_for() -> None:
    worker = ready_worker("talks_in_the_background")
    answers = [call(worker) for _ in range(3)]
    worker.close()
    assert all(isinstance(answer, Answer) for answer in answers)


def test_a_worker_that_has_ended_stays_so() -> None:
    worker = ready_worker("exits_hard", arrays="dlpack")
    first = call(worker)
    assert isinstance(first, Ended)
    assert first.exit_code == 3
    assert first.says == "ended its own process with exit code 3; it printed: about to leave"
    assert worker.close() == 0
    assert worker.close() == 0  # twice does no harm
    assert call(worker) == Ended(says="has been ended")


@linux
@pytest.mark.parametrize("name", ["leaves_a_daemon", "leaves_a_daemon_and_dies", "leaves_a_daemon_and_sleeps"])
def test_a_daemon_does_not_outlive_its_worker(name: str, tmp_path: Path) -> None:
    worker = ready_worker(name, tmp_path, "dlpack")
    answer = call(worker, seconds=1 if name.endswith("sleeps") else 30)
    daemon = wait_for(tmp_path / "daemon.pid")
    if isinstance(answer, Answer):
        assert is_alive(daemon)
    assert worker.close() == 1
    assert not is_alive(daemon)


SESSION = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from test_process import call, ready_worker
worker = ready_worker("leaves_a_daemon{then}", Path({folder!r}), "dlpack")
call(worker)
"""


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_rmsaudit_whatever_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    """SIGINT is Ctrl-C: Python unwinds. The other two end it on the spot, and only the supervisor is left to act."""
    script = SESSION.format(tests=str(HERE), folder=str(tmp_path), then="_and_sleeps")
    session = subprocess.Popen([PYTHON, "-c", script], stderr=subprocess.PIPE)
    daemon = wait_for(tmp_path / "daemon.pid")
    supervisor = int(Path(f"/proc/{session.pid}/task/{session.pid}/children").read_text())
    session.send_signal(number)
    _, stderr = session.communicate(timeout=20)
    assert session.returncode == -number
    assert (number == signal.SIGINT) == (b"KeyboardInterrupt" in stderr)
    assert ends_soon(daemon)
    assert ends_soon(supervisor)


@linux
def test_nothing_outlives_a_session_that_forgot_to_close(tmp_path: Path) -> None:
    script = SESSION.format(tests=str(HERE), folder=str(tmp_path), then="")
    session = subprocess.run([PYTHON, "-W", "error", "-c", script], stderr=subprocess.PIPE, timeout=30)
    assert session.returncode == 0
    assert session.stderr == b""
    assert not is_alive(wait_for(tmp_path / "daemon.pid"))  # at once: Python waited for it at exit


@linux
def test_a_worker_dies_with_its_supervisor() -> None:
    worker = ready_worker("returns_its_input", arrays="dlpack")
    supervisor = worker._process._popen.pid
    child = int(Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text())
    os.kill(supervisor, signal.SIGKILL)
    assert ends_soon(child)
    assert isinstance(call(worker), Ended)


def test_an_interpreter_that_never_comes_to_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmsaudit.loaders.process.ENDING_SECONDS", 0.2)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nsleep 1000 &\necho $! > sleeper\nwait\n")
    python.chmod(0o755)
    worker = Worker(Launch(interpreter=python, home=tmp_path))
    ended = worker.ask(load_request("honest"), {}, 0.5)
    assert isinstance(ended, Ended)
    assert ended.says == "was still running after 0.5 s"
    assert ends_soon(wait_for(tmp_path / "sleeper"))


def test_the_wrong_interpreter_is_told_from_the_wrong_code(tmp_path: Path) -> None:
    worker = Worker(Launch(interpreter=Path("/bin/false"), home=tmp_path))
    ended = worker.ask(load_request("honest"), {}, 5)
    assert isinstance(ended, Ended)
    assert ended.exit_code is None
    assert ended.says == "cannot be run: its Python ended with exit code 1 before it could be asked"
    with pytest.raises(FileNotFoundError):
        Worker(Launch(interpreter=tmp_path / "python", home=tmp_path))


class TestWhatComesIn:
    """Bytes from a process in which foreign code runs: nothing of them is believed."""

    SHAPE = (2, 3)

    def received(self, header: object, data: bytes = b"", *, size: int | None = None) -> _Exchange:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        frame = (len(text) if size is None else size).to_bytes(4, "little") + text + data
        exchange = _Exchange([], _incoming(7, self.SHAPE))
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.write(writing, frame)
        while exchange.read(reading):
            pass
        os.close(reading)
        os.close(writing)
        return exchange

    def test_an_answer(self) -> None:
        output = np.arange(6, dtype=np.float32).reshape(self.SHAPE)
        header = {"id": 7, "output": {"dtype": "float32", "shape": [2, 3]}}
        exchange = self.received(header, output.tobytes())
        assert exchange.answer is not None
        np.testing.assert_array_equal(exchange.answer[1], output)

    def test_a_fault_needs_no_array(self) -> None:
        exchange = self.received({"id": 7, "fault": "raised ValueError"})
        assert exchange.answer == ({"id": 7, "fault": "raised ValueError"}, None)

    @pytest.mark.parametrize(
        "header",
        [
            b"hello",
            b"\xff\xfe\xff",
            b"[" * 50_000,
            b"[7]",
            {"id": 6, "output": {"dtype": "float32", "shape": [2, 3]}},  # the answer to another question
            {"output": {"dtype": "float32", "shape": [2, 3]}},
            {"id": 7},
            {"id": 7, "output": None},
            {"id": 7, "output": {"dtype": "float32", "shape": [200000000, 3]}},  # would take 2 GiB
            {"id": 7, "output": {"dtype": "complex64", "shape": [2, 3]}},
        ],
    )
    def test_anything_else_is_refused(self, header: object) -> None:
        exchange = self.received(header, bytes(64))
        assert exchange.answer is None
        assert exchange.complaint == "wrote into the pipe on which rmsaudit reads its answers"

    @pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1, (1 << 32) - 1])
    def test_a_header_of_absurd_size_is_refused(self, size: int) -> None:
        assert self.received({"id": 7}, size=size).complaint


class TestRun:
    """One supervised program, from its start to its end."""

    def launched(self, code: str, folder: Path, seconds: float = 20) -> Ended:
        return run([sys.executable, "-c", code], Launch(interpreter=PYTHON, home=folder), seconds)

    def test_exit_code_and_both_streams(self, tmp_path: Path) -> None:
        code = "import sys, os; print(os.getcwd()); print('note', file=sys.stderr); sys.exit(4)"
        ended = self.launched(code, tmp_path)
        assert ended == Ended(
            says="ended its own process with exit code 4; it printed: note",
            exit_code=4,
            stdout=f"{tmp_path.resolve()}\n",
            stderr="note\n",
        )

    def test_success(self, tmp_path: Path) -> None:
        assert self.launched("", tmp_path).exit_code == 0

    def test_a_signal_has_its_name(self, tmp_path: Path) -> None:
        ended = self.launched("import os; os.kill(os.getpid(), 15)", tmp_path)
        assert ended.exit_code == -signal.SIGTERM
        assert ended.says.startswith("died of SIGTERM (")

    def test_a_time_limit(self, tmp_path: Path) -> None:
        ended = self.launched("import time; time.sleep(1000)", tmp_path, seconds=0.3)
        assert ended.timed_out
        assert ended.says == "was still running after 0.3 s"

    @linux
    def test_what_it_leaves_behind_is_ended_and_counted(self, tmp_path: Path) -> None:
        code = "import subprocess; print(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid)"
        ended = self.launched(code, tmp_path)
        assert ended.left == 1
        assert not is_alive(int(ended.stdout))

    def test_input_is_empty(self, tmp_path: Path) -> None:
        assert self.launched("import sys; sys.exit(len(sys.stdin.read()))", tmp_path).exit_code == 0

    def test_a_program_that_does_not_exist(self, tmp_path: Path) -> None:
        ended = run(["./kernel"], Launch(interpreter=PYTHON, home=tmp_path), 20)
        assert ended.exit_code == 127
        assert "cannot start ./kernel: No such file or directory" in ended.says

    def test_a_supervisor_that_does_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(CouldNotRun, match="No such file"):
            run(["true"], Launch(interpreter=tmp_path / "python", home=tmp_path), 20)


class TestTheProgram:
    """worker.py has to run where rmsaudit is not installed, in Pythons older than rmsaudit's own."""

    SOURCE = PROGRAM.read_text(encoding="utf-8")

    def test_python_3_8_can_read_it(self) -> None:
        ast.parse(self.SOURCE, feature_version=(3, 8))

    def test_only_the_standard_library_is_imported_at_its_start(self) -> None:
        top = [node for node in ast.parse(self.SOURCE).body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in top}
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names

    def test_rmsaudit_is_imported_nowhere(self) -> None:
        modules = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(self.SOURCE))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert "rmsaudit" not in modules
        assert "numpy" in modules  # the twin: the search does find imports inside functions


def test_importing_it_is_cheap() -> None:
    """No framework, no document reader, and none of the standard library's own heavy ways to run code."""
    heavy = ["torch", "yaml", "pydantic", "click", "rich", "multiprocessing", "asyncio", "concurrent.futures"]
    code = f"import sys, rmsaudit.loaders.process; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
