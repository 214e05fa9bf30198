"""Files wherever they lie: on this machine, or behind a URL that fsspec knows (s3://, hf://, memory://).

A remote path is a `UPath` of universal_pathlib, which has pathlib's methods; code that takes a Path takes it as well.
Both packages are imported late: who reads local files only does not need them. Of a remote file, no more is fetched
than is asked for, rounded up to BUFFER_BYTES: without fsspec's reading ahead, which takes 5 MiB at a time.
"""

import io
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from rmsaudit.errors import InputProblem, Problem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER_BYTES = 2**16  # of one request to a store; below that, what it takes hardly depends on the size
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z0-9+.-]+)*://")


def path_of(text: str) -> Path:
    """The path that `text` names, a URL included. Raises InputProblem for a URL that cannot be opened from here."""
    url = _URL.match(text)
    if url is None:
        return Path(text)
    if url[0].lower() == "file://":
        return Path(unquote(urlsplit(text).path))
    try:
        path_class = import_module("upath").UPath
    except ImportError:
        says = "is remote, and needs packages that this Python does not have: pip install 'rmsaudit[remote]'"
        raise InputProblem([Problem(path=text, says=says, kind="missing-package")]) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a store without a class of its own in universal_pathlib
            path = path_class(text)
        path.fs  # noqa: B018 (imports what this kind of store needs)
    except ImportError as error:  # fsspec says what to install
        says = f"is remote, and needs a package that this Python does not have ({error}); install it"
        raise InputProblem([Problem(path=text, says=says, kind="missing-package")]) from None
    except Exception as error:
        says = f"is no URL that fsspec can open ({_told(error)}); check it"
        raise InputProblem([Problem(path=text, says=says, kind="unreadable")]) from None
    return cast("Path", path)


def open_binary(path: Path) -> BinaryIO:
    """The file, open for reading. Raises OSError only, then and while it is read."""
    if is_local(path):
        return path.open("rb")
    return cast("BinaryIO", io.BufferedReader(_RemoteFile(path), BUFFER_BYTES))


def read_at(path: Path, offset: int, count: int) -> bytes:
    """`count` bytes of a file from `offset` on and nothing else, in one request; fewer where it ends.

    Raises OSError only.
    """
    with path.open("rb") if is_local(path) else _RemoteFile(path) as file:
        file.seek(offset)
        return file.read(count) or b""


def is_folder(path: Path) -> bool:
    """Raises OSError only."""
    with _only_os_errors():
        return path.is_dir()


def names_in(folder: Path) -> list[str]:
    """The names of what lies in a folder, in order. Raises OSError only."""
    with _only_os_errors():
        return sorted(each.name for each in folder.iterdir())


def size_of(file: BinaryIO) -> int:
    """How many bytes an open file has. It is left at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def is_local(path: object) -> bool:
    """False for a UPath of a remote store, which is no pathlib.Path."""
    return isinstance(path, Path)


class _RemoteFile(io.RawIOBase):
    """A file of an fsspec store: each read is one request for those bytes."""

    def __init__(self, path: Any) -> None:
        super().__init__()
        with _only_os_errors():
            self._file = path.fs.open(path.path, "rb", cache_type="none")
            self._size = self._file.seek(0, os.SEEK_END)
            self._file.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        left = self._size - self.tell()
        if left <= 0:  # some stores answer a range beyond the end by an error
            return 0
        with _only_os_errors():
            data = self._file.read(min(len(view), left))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return int(self._file.seek(offset, whence))  # a number only; no request

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            with _only_os_errors():
                self._file.close()
        super().close()


@contextmanager
def _only_os_errors() -> Iterator[None]:
    """A store raises what its library likes; callers know OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(None, _told(error)) from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
