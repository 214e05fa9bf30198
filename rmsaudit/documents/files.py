"""Bytes of a file, or a sentence about why there are none."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rmsaudit.documents.problems import Refused, printable
from rmsaudit.storage import is_local, open_binary

MOST_BYTES = 8 * 2**20  # of a text document; a record has about 20 KiB


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The whole file. Never holds more than `most` bytes, whatever the path names. Raises Refused."""
    with opened(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Refused(f"is larger than {most // 2**20} MiB; name the document itself, which has some KiB", "too-large")
    return data


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, open for reading; what the system says against opening or reading it becomes Refused."""
    if is_local(path) and path.is_dir():  # of a remote one, opening says it without another request
        raise Refused("is a directory; name a file in it", "directory")
    try:
        file = open_binary(path)
    except ValueError:  # a NUL in the path
        raise Refused("is no path a system could have; check it", "unreadable") from None
    except OSError as error:
        raise _unreadable(error) from None
    with file:
        try:
            yield file
        except OSError as error:
            raise _unreadable(error) from None


def _unreadable(error: OSError) -> Refused:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Refused("does not exist; check the path", "no-such-file")
    reason = printable(error.strerror or str(error))
    return Refused(f"cannot be read ({reason}); check the path and its permissions", "unreadable")
