"""The child's half of a side that runs foreign code: one file, run by that side's own Python, 3.8 or newer.

It imports the standard library, the framework that a request names, and numpy where an array needs it; never rmsaudit.

    rmsaudit ── control ──> supervisor ──> worker ──> whatever the foreign code starts
        └────────── requests, answers ───────┘

The program forks once, before anything foreign is loaded. The supervisor keeps the control socket and waits; the worker
leads a session of its own and serves requests, or becomes another program. When the worker ends, or the control socket
closes, or rmsaudit is gone, the supervisor kills the worker and everything that descends from it, says on the control
socket how the worker ended, and ends. On Linux it is a subreaper, so that no descendant can leave the family by
detaching itself; elsewhere only the worker's process group is killed.

A frame, in both directions: 4 bytes with the length of a JSON header (little-endian), the header, then the raw
little-endian bytes of each array that is described in it. Two requests: `load` and `call`; see Code.
"""

from __future__ import annotations

import sys

# Python put this file's folder first, which holds rmsaudit's `onnx.py`; a foreign `import onnx` must not find that.
if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

import contextlib
import ctypes
import difflib
import faulthandler
import functools
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import pathlib
import re
import resource
import select
import signal
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LINUX = sys.platform.startswith("linux")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
KILLING_SECONDS = 10.0  # a process in an uninterruptible system call outlives SIGKILL; do not wait for it for ever
ITEMSIZE = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
LAYOUTS = ("contiguous", "transposed", "strided", "broadcast")


# --- the supervisor ---------------------------------------------------------------------------------------------------


def supervise(control: int, worker_only: Sequence[int]) -> None:
    """Forks, and comes back in the worker alone. The other half stays as its supervisor until both are done."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    supervisor, rmsaudit = os.getpid(), os.getppid()
    worker = os.fork()
    if worker == 0:
        os.close(control)
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:  # it ended before the line above
            os._exit(1)
        return
    for fd in worker_only:
        os.close(fd)
    status = watch(worker, control, rmsaudit)
    left = end_family(worker)
    with contextlib.suppress(OSError):  # nobody may be there to hear it
        os.write(control, json.dumps({"status": status, "left": left}).encode())
    os._exit(0)


def watch(worker: int, control: int, rmsaudit: int) -> int | None:
    """Waits until the worker has ended (its wait status) or is no longer wanted (None)."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        status = reap(worker)
        if status is not None:
            return status
        ready = [fd for fd, _ in poll.poll(1000)]
        # The socket may be held open by a process that rmsaudit forked; its own death shows in our parent as well.
        if control in ready or os.getppid() != rmsaudit:
            return None
        if woken in ready:
            os.read(woken, 4096)


def reap(worker: int) -> int | None:
    """Collects every child that has ended, adopted ones too; the worker's wait status if it was among them."""
    status = None
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == worker:
            status = ended


def end_family(worker: int) -> int:
    """Kills everything that descends from this process; how many processes beside the worker were alive."""
    alive: set[int] = set()
    deadline = time.monotonic() + KILLING_SECONDS
    while time.monotonic() < deadline:
        reap(worker)
        family = descendants(os.getpid())
        if family is None:
            with contextlib.suppress(OSError):
                os.killpg(worker, signal.SIGKILL)
            break
        if not family:
            break
        alive |= {pid for pid, state in family.items() if state != "Z"}
        for pid in family:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    return len(alive - {worker})


def descendants(root: int) -> dict[int, str] | None:
    """Process id to state letter of everything below `root`; None where the system has no /proc to tell."""
    states: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    try:
        processes = [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return None
    for entry in processes:
        with contextlib.suppress(OSError):
            state, parent = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:2]  # "pid (any name) S parent …"
            states[int(entry.name)] = state.decode()
            children.setdefault(int(parent), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return {pid: states[pid] for pid in found}


def prctl(option: int, value: int) -> None:
    """Does nothing where there is no such call; the process group is still killed there."""
    if LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def limit(memory_mib: int) -> None:
    """No core files; and at most `memory_mib` (0: no limit) of writable private memory, on Linux.

    RLIMIT_DATA, because RLIMIT_AS also counts address space that is only reserved or mapped from files, of which
    torch, JAX and CUDA take many GiB that they never use. Other systems do not apply it to anonymous maps.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mib and LINUX:
        resource.setrlimit(resource.RLIMIT_DATA, (memory_mib << 20, memory_mib << 20))


# --- frames -----------------------------------------------------------------------------------------------------------


class Channel:
    """The two pipes to rmsaudit. They belong to the worker alone: what it starts does not inherit them."""

    def __init__(self, requests: int, answers: int) -> None:
        os.set_inheritable(requests, False)
        os.set_inheritable(answers, False)
        self.requests, self.answers = requests, answers

    def receive(self) -> tuple[dict[str, Any], dict[str, Operand]]:
        """The next request with its arrays. Ends the process where there is none to come."""
        (size,) = struct.unpack("<I", self._exactly(4))
        header = json.loads(self._exactly(size))
        return header, {
            a["name"]: Operand(self._exactly(nbytes(a["dtype"], a["shape"])), tuple(a["shape"]), a["dtype"])
            for a in header["operands"]
        }

    def send(self, header: Mapping[str, Any], *arrays: Any) -> None:
        text = json.dumps(header).encode()
        for part in (struct.pack("<I", len(text)), text, *arrays):
            rest = memoryview(part).cast("B")
            while rest:
                rest = rest[os.write(self.answers, rest) :]

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            got = os.readv(self.requests, [rest])
            if got == 0:
                os._exit(0)
            rest = rest[got:]
        return data


class Operand:
    """An array as it crossed: its bytes in C order, its shape, its dtype word."""

    def __init__(self, data: bytearray, shape: tuple[int, ...], word: str) -> None:
        self.data, self.shape, self.word = data, shape, word

    def laid_out(self, layout: str) -> Operand:
        """What has to lie in memory so that `Framework.see` finds these values in it.

        strided leaves a hole after every element; all its bits are set, which is NaN in every format.
        """
        if layout == "contiguous":
            return self
        import numpy

        rows, width = self.shape
        bits = numpy.frombuffer(self.data, f"u{ITEMSIZE[self.word]}").reshape(self.shape)
        if layout == "transposed":
            stored = bits.T
        elif layout == "broadcast":
            stored = bits[:1]
        else:
            stored = numpy.full((rows, 2 * width), numpy.iinfo(bits.dtype).max, bits.dtype)
            stored[:, ::2] = bits
        return Operand(bytearray(stored.tobytes()), stored.shape, self.word)


def nbytes(word: str, shape: Sequence[int]) -> int:
    """Bytes that such an array takes."""
    return functools.reduce(int.__mul__, shape, ITEMSIZE[word])


# --- what is said about faults ----------------------------------------------------------------------------------------


class Unusable(Exception):
    """A fault that is told in our words, not in those of an exception."""


PIP_NAMES = {"PIL": "pillow", "cv2": "opencv-python", "sklearn": "scikit-learn", "yaml": "pyyaml"}


class Teller:
    """Puts faults into words without this machine's folders. They follow the code's name: "raised ValueError: …"."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.code_file = ""

    def told(self, error: BaseException) -> str:
        if isinstance(error, Unusable):
            return str(error)
        if isinstance(error, SystemExit):
            code = "" if error.code is None else short(error.code, repr)
            return f"called exit({code}){self.place(error)}"
        if isinstance(error, SyntaxError) and error.filename:
            return f"cannot be read: {self.name(error.filename)}:{error.lineno}:{error.offset}: {short(error.msg)}"
        if isinstance(error, ModuleNotFoundError) and error.name:
            return self.told_missing(error.name, self.place(error))
        says = self.without_folders(short(error))
        return f"raised {type(error).__name__}{says and ': '}{says}{self.place(error)}"

    def told_missing(self, name: str, place: str) -> str:
        top = name.split(".")[0]
        if importable(top):
            return f"needs {name}, which its Python's {top} does not have{place}"
        package = PIP_NAMES.get(top, top)
        says = f"needs {top}, which its Python does not have{place}"
        return f"{says}; if that is a package: python -m pip install {package}"

    def place(self, error: BaseException) -> str:
        """` (kernels.py:12)`: the innermost line of the code's own file, else of any but this one; may be empty."""
        frames = []
        step = error.__traceback__
        while step is not None:
            frames.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
            step = step.tb_next
        ours = (__file__, importlib.__file__)
        foreign = [frame for frame in frames if frame[0] not in ours and not frame[0].startswith("<frozen")]
        own = [frame for frame in foreign if frame[0] == self.code_file]
        if not foreign:
            return ""
        path, line = (own or foreign)[-1]
        return f" ({self.name(path)}:{line})"

    def without_folders(self, text: str) -> str:
        """`text` with paths as `name` has them, where they are known to be paths."""
        return re.sub(r"[^\s'\"]*/(?:site|dist)-packages/", "", text).replace(self.home + "/", "")

    def name(self, path: str) -> str:
        """A file relative to the declaring one's folder or to where packages lie, else without its folder."""
        packages = re.split("/(?:site|dist)-packages/", path)
        if len(packages) > 1:
            return packages[-1]
        return path[len(self.home) + 1 :] if path.startswith(self.home + "/") else pathlib.Path(path).name


def short(value: Any, text: Any = str) -> str:
    """One line of at most 400 characters, without memory addresses, whatever `value` does when asked for its text."""
    try:
        line = " ".join(text(value).split())
    except BaseException as error:
        return f"(no text: asking for it raised {type(error).__name__})"
    line = re.sub(r" at 0x[0-9a-fA-F]+", "", line)
    return line if len(line) <= 400 else line[:399] + "…"


def importable(name: str) -> bool:
    """True where there is such a top-level module."""
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


# --- frameworks -------------------------------------------------------------------------------------------------------


class Framework:
    """How arrays of one framework are made, looked at and read back. Every conversion keeps the bits.

    package: what has to be importable. layouts: how an operand's memory may lie.
    """

    package = ""
    layouts: Sequence[str] = ("contiguous",)

    def __init__(self, device: str) -> None:
        self.device = device
        try:
            self.library: Any = importlib.import_module(self.package)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != self.package.split(".")[0]:
                raise
            top = self.package.split(".")[0]
            says = f"is declared with arrays: {self.name}, which its Python does not have: python -m pip install {top}"
            raise Unusable(says) from None
        try:
            self.use_device()
        except Exception as error:
            raise Unusable(f"cannot use device: {device}: {short(error)}") from None

    def use_device(self) -> None:
        if self.device != "cpu":
            raise ValueError(f"arrays: {self.name} are always on the cpu")

    @property
    def name(self) -> str:
        """The word after `arrays:`."""
        return type(self).__name__.lower()

    def make(self, operand: Operand) -> Any:
        """A private array in memory of the framework's own, and so as aligned as any other of its arrays."""
        raise NotImplementedError

    def see(self, stored: Any, layout: str, shape: Sequence[int]) -> Any:
        """The view of `stored` through which the values of `Operand.laid_out(layout)` have `shape`."""
        if layout == "contiguous":
            return stored
        if layout == "transposed":
            return stored.T
        if layout == "strided":
            return stored[:, ::2]
        return self.spread(stored, shape)

    def spread(self, stored: Any, shape: Sequence[int]) -> Any:
        return self.library.broadcast_to(stored, tuple(shape))

    def dtype(self, value: Any) -> str | None:
        """The framework's own name of the dtype, which is our word for all six; None where it is no such array."""
        raise NotImplementedError

    def shape(self, value: Any) -> tuple[int, ...]:
        return tuple(value.shape)

    def read(self, value: Any) -> Any:
        """The bytes in C order."""
        raise NotImplementedError

    def shares(self, value: Any, stored: Any) -> bool:  # noqa: ARG002
        """True where both lie in the same memory, as far as the framework lets one know."""
        return False

    def prepared(self, layer: Any, width: int) -> Any:
        """A layer just constructed, made ready for inference."""
        if hasattr(layer, "build") and not getattr(layer, "built", True):
            layer.build((None, width))  # Keras makes parameters only now
        return layer

    def put(self, owner: Any, name: str, array: Any) -> None:
        """Makes `array` the parameter `name` of a layer."""
        parameter = getattr(owner, name)
        if hasattr(parameter, "assign"):  # a Keras or TensorFlow variable
            parameter.assign(array)
        elif self.dtype(parameter) is not None:
            setattr(owner, name, array)
        else:
            setattr(owner, name, type(parameter)(array))  # a box around an array, such as flax.nnx.Param

    def threads(self) -> int | None:
        """How many threads are in force; None where the framework cannot be told."""
        return None

    def set_threads(self, count: int) -> None:
        """`count` threads from now on; 0: as many as at the start. Only where `threads` gives a number."""
        raise NotImplementedError

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The circumstances of a call."""
        yield

    def numpy_dtype(self, word: str) -> Any:
        """The numpy dtype of a word. Raises Unusable."""
        import numpy

        if word in ("float64", "float32", "float16"):
            return numpy.dtype(word).newbyteorder("<")
        try:
            return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), word))
        except (ImportError, AttributeError):
            raise Unusable(
                f"takes {word}, which numpy does not have by itself:"
                " python -m pip install -U ml_dtypes for its Python, or declare arrays: torch"
            ) from None

    def as_numpy(self, operand: Operand) -> Any:
        import numpy

        return numpy.frombuffer(operand.data, self.numpy_dtype(operand.word)).reshape(operand.shape)


class Numpy(Framework):
    """With ml_dtypes for bfloat16 and float8."""

    package, layouts = "numpy", LAYOUTS

    def make(self, operand: Operand) -> Any:
        return self.as_numpy(operand).copy()

    def dtype(self, value: Any) -> str | None:
        return str(value.dtype.name) if isinstance(value, self.library.ndarray) else None

    def read(self, value: Any) -> Any:
        if value.dtype.byteorder == ">":
            value = value.astype(value.dtype.newbyteorder("<"))
        return value.tobytes()

    def shares(self, value: Any, stored: Any) -> bool:
        return bool(self.library.may_share_memory(value, stored))


class Torch(Framework):
    """Needs no numpy. Runs without gradients, as a deployed model does; with them, torch can pick other kernels."""

    package, layouts = "torch", LAYOUTS

    def use_device(self) -> None:
        self.at_start = self.library.get_num_threads()
        self.library.empty(1, device=self.device)  # raises in torch's own words where it has no such device

    def make(self, operand: Operand) -> Any:
        dtype = getattr(self.library, operand.word, None)
        if dtype is None:
            raise Unusable(f"takes {operand.word}, which torch {self.library.__version__} does not have")
        return self.library.frombuffer(operand.data, dtype=dtype).reshape(operand.shape).clone().to(self.device)

    def spread(self, stored: Any, shape: Sequence[int]) -> Any:
        return stored.expand(*shape)

    def dtype(self, value: Any) -> str | None:
        return str(value.dtype)[len("torch.") :] if isinstance(value, self.library.Tensor) else None

    def read(self, value: Any) -> Any:
        data = bytearray(value.numel() * value.element_size())
        flat = value.detach().contiguous().reshape(-1).view(self.library.uint8)
        self.library.frombuffer(data, dtype=self.library.uint8).copy_(flat)
        return data

    def shares(self, value: Any, stored: Any) -> bool:
        return bool(value.untyped_storage().data_ptr() == stored.untyped_storage().data_ptr())

    def prepared(self, layer: Any, width: int) -> Any:
        if isinstance(layer, self.library.nn.Module):
            return layer.eval().to(self.device)
        return super().prepared(layer, width)  # Keras on torch

    def put(self, owner: Any, name: str, array: Any) -> None:
        getattr(owner, name).data = array  # the parameter takes on the dtype of the gains; copy_ would round them

    def threads(self) -> int | None:
        return int(self.library.get_num_threads())

    def set_threads(self, count: int) -> None:
        if (count or self.at_start) != self.threads():
            self.library.set_num_threads(count or self.at_start)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with self.library.no_grad():
            yield


class Jax(Framework):
    """Its arrays have no strides and cannot be changed."""

    package = "jax"

    def use_device(self) -> None:
        platform, _, index = self.device.partition(":")
        self.place = self.library.devices(platform)[int(index or 0)]

    def make(self, operand: Operand) -> Any:
        array = self.library.device_put(self.as_numpy(operand).copy(), self.place)
        if array.dtype.name != operand.word:
            raise Unusable(f"takes {operand.word}, which JAX turns into {array.dtype.name}; set JAX_ENABLE_X64=1")
        return array

    def dtype(self, value: Any) -> str | None:
        return str(value.dtype.name) if isinstance(value, self.library.Array) else None

    def read(self, value: Any) -> Any:
        import numpy

        return numpy.asarray(value).tobytes()


class Tensorflow(Framework):
    """Its tensors have no strides and cannot be changed."""

    package = "tensorflow"

    def use_device(self) -> None:
        platform, _, index = self.device.partition(":")
        self.place = f"/{'CPU' if platform == 'cpu' else 'GPU'}:{index or 0}"
        with self.library.device(self.place):
            self.library.zeros(1)  # raises in TensorFlow's own words where it has no such device

    def make(self, operand: Operand) -> Any:
        with self.library.device(self.place):
            return self.library.constant(self.as_numpy(operand))

    def dtype(self, value: Any) -> str | None:
        return str(value.dtype.name) if isinstance(value, (self.library.Tensor, self.library.Variable)) else None

    def read(self, value: Any) -> Any:
        return value.numpy().tobytes()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with self.library.device(self.place):
            yield


class Mlx(Framework):
    """Evaluates lazily: the work is done when the output is read, which is still within the call."""

    package, layouts = "mlx.core", LAYOUTS

    def use_device(self) -> None:
        platform, _, index = self.device.partition(":")
        self.library.set_default_device(self.library.Device(getattr(self.library, platform), int(index or 0)))

    def make(self, operand: Operand) -> Any:
        import numpy

        dtype = getattr(self.library, operand.word, None)
        if dtype is None:
            raise Unusable(f"takes {operand.word}, which MLX does not have")
        bits = numpy.frombuffer(operand.data, f"u{ITEMSIZE[operand.word]}").reshape(operand.shape)
        return self.library.array(bits).view(dtype)

    def dtype(self, value: Any) -> str | None:
        return str(value.dtype).rpartition(".")[2] if isinstance(value, self.library.array) else None

    def read(self, value: Any) -> Any:
        import numpy

        flat = self.library.contiguous(value).reshape(-1)
        return numpy.array(flat.view(getattr(self.library, f"uint{8 * value.itemsize}"))).tobytes()


class DLDataType(ctypes.Structure):
    """As in dlpack.h."""

    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    """As in dlpack.h; strides count elements, and may be absent for C order."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    """As in dlpack.h: the form without a version, which every library takes."""

    _fields_ = [("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    """As in dlpack.h: the form that some libraries insist on giving."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


DLPACK_CODES = {
    "float64": 2, "float32": 2, "float16": 2, "bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip
DLPACK_CPU = 1
ALIGNMENT = 256  # what DLPack asks for
_lent: dict[int, Any] = {}  # what a consumer may still hold, by the address of its DLManagedTensor
_give_back = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda address: _lent.pop(address, None) and None)


class Exported:
    """Memory on the CPU that speaks DLPack and nothing else. strides count elements."""

    def __init__(self, memory: Any, shape: Sequence[int], strides: Sequence[int], word: str) -> None:
        self.memory, self.shape, self.strides, self.word = memory, tuple(shape), tuple(strides), word

    @property
    def address(self) -> int:
        return -(-ctypes.addressof(self.memory) // ALIGNMENT) * ALIGNMENT

    @property
    def T(self) -> Exported:  # noqa: N802 (numpy's name for it)
        return Exported(self.memory, self.shape[::-1], self.strides[::-1], self.word)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (DLPACK_CPU, 0)

    def __dlpack__(self, **_: Any) -> Any:
        axes = ctypes.c_int64 * len(self.shape)
        kind = DLDataType(DLPACK_CODES[self.word], 8 * ITEMSIZE[self.word], 1)
        shape, strides = axes(*self.shape), axes(*self.strides)
        managed = DLManagedTensor()
        managed.tensor = DLTensor(self.address, DLPACK_CPU, 0, len(self.shape), kind, shape, strides, 0)
        managed.deleter = ctypes.cast(_give_back, ctypes.c_void_p)
        _lent[ctypes.addressof(managed)] = (managed, shape, strides, self.memory)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return capsule(ctypes.addressof(managed), b"dltensor", None)


class Lent:
    """What somebody exports through DLPack, for as long as this object lives. strides count elements."""

    def __init__(self, value: Any) -> None:
        device, _ = value.__dlpack_device__()
        if device != DLPACK_CPU:
            raise Unusable("returned an array that is not on the CPU; arrays: dlpack takes only those")
        try:
            self.capsule = value.__dlpack__(max_version=(1, 0))
        except TypeError:  # older than that argument
            self.capsule = value.__dlpack__()
        tensor = self.tensor()
        axes = range(tensor.ndim)
        self.shape = tuple(int(tensor.shape[axis]) for axis in axes)
        self.strides = tuple(int(tensor.strides[axis]) for axis in axes) if tensor.strides else c_strides(self.shape)
        self.address = (tensor.data or 0) + int(tensor.byte_offset)
        self.dtype = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)

    def tensor(self) -> DLTensor:
        is_valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
        is_valid.argtypes = pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
        pointer.restype = ctypes.c_void_p
        if is_valid(self.capsule, b"dltensor_versioned"):
            versioned = DLManagedTensorVersioned.from_address(pointer(self.capsule, b"dltensor_versioned"))
            return versioned.tensor  # type: ignore[no-any-return]
        return DLManagedTensor.from_address(pointer(self.capsule, b"dltensor")).tensor  # type: ignore[no-any-return]


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array in C order."""
    return tuple(functools.reduce(int.__mul__, shape[axis + 1 :], 1) for axis in range(len(shape)))


class Dlpack(Framework):
    """Any library that speaks DLPack, on the CPU."""

    package, layouts = "ctypes", LAYOUTS

    def make(self, operand: Operand) -> Any:
        memory = (ctypes.c_char * (len(operand.data) + ALIGNMENT))()
        made = Exported(memory, operand.shape, c_strides(operand.shape), operand.word)
        ctypes.memmove(made.address, bytes(operand.data), len(operand.data))
        return made

    def see(self, stored: Any, layout: str, shape: Sequence[int]) -> Any:
        if layout in ("contiguous", "transposed"):
            return super().see(stored, layout, shape)
        steps = (stored.strides[0], 2) if layout == "strided" else (0, 1)
        return Exported(stored.memory, shape, steps, stored.word)

    def dtype(self, value: Any) -> str | None:
        if isinstance(value, Exported):
            return value.word
        if not hasattr(value, "__dlpack__"):
            return None
        code, bits, lanes = Lent(value).dtype
        words = [word for word in ITEMSIZE if (DLPACK_CODES[word], 8 * ITEMSIZE[word], 1) == (code, bits, lanes)]
        return words[0] if words else f"DLPack type {code} of {bits} bits"

    def shape(self, value: Any) -> tuple[int, ...]:
        return tuple(self.opened(value).shape)

    def opened(self, value: Any) -> Any:
        """Something with address, shape and strides, which keeps the memory alive."""
        return value if isinstance(value, Exported) else Lent(value)

    def read(self, value: Any) -> Any:
        opened, word = self.opened(value), self.dtype(value) or ""
        if opened.strides == c_strides(opened.shape):
            return ctypes.string_at(opened.address, nbytes(word, opened.shape))
        import numpy

        size = ITEMSIZE[word]
        strides = [size * stride for stride in opened.strides]
        reach = [step * (count - 1) for step, count in zip(strides, opened.shape)]  # noqa: B905 (3.8 has no strict)
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        memory = (ctypes.c_char * (high - low + size)).from_address(opened.address + low)
        return numpy.ndarray(opened.shape, f"u{size}", memory, -low, strides).tobytes()

    def shares(self, value: Any, stored: Any) -> bool:
        offset = self.opened(value).address - stored.address
        return bool(0 <= offset < nbytes(stored.word, stored.shape))


FRAMEWORKS = {kind.__name__.lower(): kind for kind in (Numpy, Torch, Jax, Tensorflow, Mlx, Dlpack)}


# --- the foreign code -------------------------------------------------------------------------------------------------

BY_NAME = {
    "gain": "$gain", "weight": "$gain", "scale": "$gain", "gamma": "$gain",
    "eps": "$eps", "epsilon": "$eps", "variance_epsilon": "$eps",
    "normalized_shape": ["$width"],
}  # fmt: skip


class Code:
    """The function or class that a load request names, and how it is called."""

    def __init__(self, teller: Teller) -> None:
        self.teller = teller
        self.versions = {"python": sys.version.split()[0]}
        self.digests: dict[str, str] = {}

    def load(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Imports what `request` names; the facts about it."""
        self.request = request
        self.framework = FRAMEWORKS[request["arrays"]](request["device"])  # before the user's folder is on the path
        self.target = self.find(self.imported(), request["name"])
        if request["file"] is None:
            self.note_source()
        self.layer: tuple[str, Any] | None = None
        usual = (["$x"], {}) if self.is_layer else fitted(self.target)
        self.arguments = as_call(request["call"]) or usual
        self.note_versions()
        wanted = {word for word in words_in(self.arguments) if word in ("x", "residual", "gain", "bias")}
        wanted |= {operand for operand in ("gain", "bias") if request["parameters"].get(operand)}
        return {
            "called": shown_call(request["name"], self.arguments),
            "operands": sorted(wanted),
            "takes_eps": "eps" in {*words_in(self.arguments), *words_in(request["init"])},
            "layouts": list(self.framework.layouts),
            "threads": self.framework.threads(),
        }

    @property
    def is_layer(self) -> bool:
        """True for a class that is constructed first; False for a function."""
        return self.request["init"] is not None

    def imported(self) -> Any:
        """The module that holds the target."""
        home, path = self.request["home"], self.request["file"]
        if path is None:
            sys.path.append(home)
            return importlib.import_module(self.request["module"])
        sys.path.insert(0, str(pathlib.Path(path).parent))
        return self.run_file(pathlib.Path(path))

    def run_file(self, path: pathlib.Path) -> Any:
        """The module that a file makes. Compiled from the very bytes that are digested; no cache is read or written."""
        self.teller.code_file = str(path)
        try:
            source = path.read_bytes()
        except FileNotFoundError:
            near = nearest(path.name, [file.name for file in path.parent.glob("*.py")])
            raise Unusable(f"cannot be run: there is no file {self.request['shown_file']}{near}") from None
        self.digests[self.request["shown_file"]] = hashlib.sha256(source).hexdigest()
        name = module_name(path)
        spec = importlib.util.spec_from_file_location(name, str(path))
        if spec is None:
            raise Unusable(f"cannot be run: {self.request['shown_file']} is not a .py file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 (this is what consent was given for)
        return module

    def find(self, module: Any, name: str) -> Any:
        try:
            target = functools.reduce(getattr, name.split("."), module)
        except AttributeError:
            loaded = vars(module)  # a lazy package lists more than it has loaded
            names = [n for n in dir(module) if not n.startswith("_") and callable(loaded.get(n, callable))]
            where = self.request["shown_file"] or self.request["module"]
            raise Unusable(f"does not exist: {where} has no {name}{nearest(name, names)}") from None
        if not callable(target):
            raise Unusable(f"cannot be called: it is {kind_of(target)}")
        return target

    def note_source(self) -> None:
        """Which file of a package defines the target, which may be re-exported from elsewhere, and its digest."""
        with contextlib.suppress(TypeError, OSError, AttributeError):  # compiled
            path = inspect.getsourcefile(inspect.unwrap(self.target)) or ""
            self.digests[self.target.__module__] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
            self.teller.code_file = path

    def note_versions(self) -> None:
        """Versions of what is loaded and can change numbers: the framework, numpy, the target's own package."""
        names = {self.framework.package.split(".")[0], "numpy", (self.request["module"] or "").split(".")[0]}
        for name in sorted((names & set(sys.modules)) - {"ctypes"}):
            version = getattr(sys.modules[name], "__version__", None) or installed_version(name)
            if isinstance(version, str):
                self.versions[name] = version

    def call(self, request: Mapping[str, Any], operands: Mapping[str, Operand]) -> tuple[dict[str, Any], Any]:
        """Runs it once on private arrays; the facts of the answer, and the output's bytes."""
        framework = self.framework
        layouts = {name: request["layout"] if name in ("x", "residual") else "contiguous" for name in operands}
        stored = {name: operand.laid_out(layouts[name]) for name, operand in operands.items()}
        made = {name: framework.make(operand) for name, operand in stored.items()}
        given = {name: framework.see(made[name], layouts[name], operands[name].shape) for name in operands}
        given.update(eps=request["eps"], width=request["shape"][-1])
        if framework.threads() is not None:
            framework.set_threads(request["threads"] or 0)
        with framework.running():
            callee = self.built(given) if self.is_layer else self.target
            positional, named = filled(self.arguments, given)
            output = self.chosen(self.called(callee, positional, named))
            header: dict[str, Any] = {"output": self.described(output, request["shape"])}
            data = framework.read(output)
        header["changed"] = [name for name, array in made.items() if self.was_changed(array, stored[name])]
        header["shares"] = [name for name, array in made.items() if framework.shares(output, array)]
        header["threads"] = framework.threads()
        return header, data

    def called(self, callee: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> Any:
        try:
            return callee(*positional, **named)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # from within
            how = shown_call(self.request["name"], self.arguments)
            raise Unusable(f"cannot be called as {how}: {short(error)}; say how with `call:`") from None

    def built(self, given: Mapping[str, Any]) -> Any:
        """The layer for this width and eps, with the gains in it."""
        init = filled(self.request["init"], {"width": given["width"], "eps": given["eps"]})
        key = repr(init)
        if self.layer is None or self.layer[0] != key:
            self.layer = (key, self.constructed(init, given["width"]))
        layer = self.layer[1]
        for operand, path in self.request["parameters"].items():
            if path:
                self.set_parameter(layer, path, given[operand])
        return layer

    def constructed(self, init: Any, width: int) -> Any:
        layer = self.target(**init) if isinstance(init, Mapping) else self.target(*init)
        return self.framework.prepared(layer, width)

    def set_parameter(self, layer: Any, path: str, array: Any) -> None:
        *owners, name = path.split(".")
        owner = functools.reduce(getattr, owners, layer)
        parameter = getattr(owner, name, None)
        if parameter is None:
            names = [n for n in dir(owner) if hasattr(getattr(owner, n, None), "shape")]
            raise Unusable(f"has no parameter {path}{nearest(name, names)}")
        if tuple(parameter.shape) != tuple(array.shape):
            raise Unusable(f"has {path} of shape {tuple(parameter.shape)}; the gains have {tuple(array.shape)}")
        self.framework.put(owner, name, array)
        holds, gives = dtype_name(getattr(owner, name)), dtype_name(array)
        if holds != gives:
            raise Unusable(
                f"holds {path} in {holds}, the gains are {gives}; construct it in that dtype through `init:`"
            )

    def chosen(self, returned: Any) -> Any:
        """The one result that counts, where `output:` says which."""
        index = self.request["output"]
        if index is None:
            return returned
        if not isinstance(returned, (tuple, list)) or len(returned) <= index:
            raise Unusable(f"returned {kind_of(returned)}, which has no item {index} (`output: {index}`)")
        return returned[index]

    def described(self, output: Any, shape: Sequence[int]) -> dict[str, Any]:
        """The output's dtype and shape. Raises Unusable for everything that cannot be compared."""
        word = self.framework.dtype(output)
        if word is None:
            hint = "; say which one with `output:`" if isinstance(output, (tuple, list)) else ""
            raise Unusable(f"returned {kind_of(output)}, not an array of {self.framework.name}{hint}")
        if word not in ITEMSIZE:
            raise Unusable(f"returned {word}; what is compared is one of {', '.join(ITEMSIZE)}")
        own_shape = self.framework.shape(output)
        if own_shape != tuple(shape):
            raise Unusable(f"returned shape {own_shape}; the input has {tuple(shape)}")
        return {"dtype": word, "shape": list(own_shape)}

    def was_changed(self, array: Any, before: Operand) -> bool:
        try:
            return bool(self.framework.read(array) != before.data)
        except Exception:  # such as a JAX array that was donated: it is no more
            return True


def module_name(path: pathlib.Path) -> str:
    """The name by which `import` would find this very file; where it would find another module, a name of our own."""
    with contextlib.suppress(ImportError, ValueError):
        spec = None if path.stem in sys.modules else importlib.util.find_spec(path.stem)
        if spec is not None and spec.origin == str(path):
            return path.stem
    return f"side_{path.stem}"


def as_call(call: Any) -> tuple[list[Any], dict[str, Any]] | None:
    """Positional and named arguments from a list or a mapping."""
    if call is None:
        return None
    return ([], dict(call)) if isinstance(call, Mapping) else (list(call), {})


def fitted(function: Any) -> tuple[list[Any], dict[str, Any]]:
    """How a function is called that nobody said it about: f(x, gain, eps), as far as its signature allows.

    x is the first argument. Where every other required parameter has a name in BY_NAME, those names are used and so
    their order does not matter; otherwise x, gain, eps go by position, as many as there is room for.
    """
    usual = ["$x", "$gain", "$eps"]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled, and says nothing
        return usual, {}
    nameable = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    rest = parameters[1:]
    known = {p.name: BY_NAME[p.name] for p in rest if p.name in BY_NAME and p.kind in nameable}
    required = {p.name for p in rest if p.default is p.empty and p.kind not in several}
    if known and required <= set(known):
        return ["$x"], known
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return usual, {}
    return usual[: sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)], {}


def filled(template: Any, values: Mapping[str, Any]) -> Any:
    """`template` with every "$name" in it replaced by that value."""
    if isinstance(template, str) and template.startswith("$"):
        return values[template[1:]]
    if isinstance(template, Mapping):
        return {key: filled(value, values) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [filled(value, values) for value in template]
    return template


def words_in(template: Any) -> Iterator[str]:
    """Every name that `filled` would look up."""
    if isinstance(template, str) and template.startswith("$"):
        yield template[1:]
    elif isinstance(template, (Mapping, list, tuple)):
        for value in template.values() if isinstance(template, Mapping) else template:
            yield from words_in(value)


def shown_call(name: str, arguments: tuple[list[Any], dict[str, Any]]) -> str:
    """`rms_norm(x, weight=gain, eps=eps)`."""
    positional, named = arguments
    parts = [shown(value) for value in positional] + [f"{key}={shown(value)}" for key, value in named.items()]
    return f"{name}({', '.join(parts)})"


def shown(value: Any) -> str:
    """A template as it would stand in a call: `[width]` for ["$width"]."""
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return value[1:] if isinstance(value, str) and value.startswith("$") else repr(value)


def nearest(word: str, known: Sequence[str]) -> str:
    """`; did you mean rms_norm?`, or the first few there are, or nothing."""
    close = difflib.get_close_matches(word, known)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(sorted(known)[:8])}" if known else ""


def kind_of(value: Any) -> str:
    """`a tuple of 2`, `a numpy.ndarray`."""
    if value is None:
        return "None"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    kind = type(value)
    if kind.__module__ != "builtins":
        return f"a {kind.__module__}.{kind.__name__}"
    return f"an {kind.__name__}" if kind.__name__[0] in "aeiou" else f"a {kind.__name__}"


def dtype_name(array: Any) -> str:
    """A dtype's name in any framework, parameters and variables included."""
    dtype = getattr(array, "dtype", "no dtype")
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def installed_version(name: str) -> str | None:
    """The version of a package that does not say it itself; None where the module is not named as its package."""
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# --- serving ----------------------------------------------------------------------------------------------------------


def serve(channel: Channel, trace: int) -> None:
    """Answers requests until there are no more. `trace`: where faulthandler reports crashes and time limits."""
    os.set_inheritable(trace, False)
    faulthandler.enable(trace, all_threads=False)
    me = os.getpid()
    code = Code(Teller(""))
    while True:
        request, operands = channel.receive()
        faulthandler.dump_traceback_later(request["seconds"], file=trace)
        if request["do"] == "load":
            code = Code(Teller(request["home"]))
        header, arrays = answered(code, request, operands)
        faulthandler.cancel_dump_traceback_later()
        if os.getpid() != me:  # a child that the foreign code forked and forgot must not speak for us
            os._exit(1)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        try:
            channel.send({**header, "id": request["id"]}, *arrays)
        except OSError:
            os.write(2, b"\nit closed a pipe that belongs to rmsaudit\n")
            os._exit(1)


def answered(
    code: Code, request: Mapping[str, Any], operands: Mapping[str, Operand]
) -> tuple[dict[str, Any], list[Any]]:
    """An answer's header and arrays. `settled`: false where the code did more than raise an ordinary exception."""
    header: dict[str, Any] = {}
    arrays: list[Any] = []
    try:
        if request["do"] == "load":
            header = code.load(request)
        else:
            header, data = code.call(request, operands)
            arrays = [data]
    except BaseException as error:  # everything: SystemExit and inventions of the foreign code too
        header, arrays = {"fault": code.teller.told(error), "settled": isinstance(error, Exception)}, []
    if request["do"] == "load":
        header.update(versions=code.versions, digests=code.digests)
    return header, arrays


def main() -> None:
    """worker.py CONTROL MEMORY_MIB (serve REQUESTS ANSWERS TRACE | exec PROGRAM ARGUMENT...)."""
    control, memory_mib, (mode, *rest) = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    del sys.argv[1:]
    pipes = [int(fd) for fd in rest] if mode == "serve" else []
    supervise(control, pipes)
    limit(memory_mib)
    if mode == "serve":
        serve(Channel(*pipes[:2]), pipes[2])
    try:
        os.execvp(rest[0], rest)  # noqa: S606
    except OSError as error:
        os.write(2, f"cannot start {rest[0]}: {error.strerror}\n".encode())
        os._exit(127)


if __name__ == "__main__":
    main()
