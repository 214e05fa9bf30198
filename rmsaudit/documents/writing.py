"""Writing a file so that nothing is ever half there."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from rmsaudit.errors import InputProblem, Problem


def write_beside_and_rename(path: Path, text: str) -> None:
    """Writes `text` to a new file in the same folder, flushes it to disk and renames it over `path`.

    Raises InputProblem where the folder is missing or cannot be written; `path` is then as it was.
    """
    beside = None
    try:
        descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        _take_over_mode(path, beside)
        Path(beside).replace(path)
    except OSError as problem:
        if beside is not None:
            with suppress(OSError):
                Path(beside).unlink()
        says = f"cannot be written: {problem.strerror}; nothing was changed"
        raise InputProblem([Problem(path=str(path), says=says, kind="not-writable")]) from problem


def _take_over_mode(path: Path, beside: str) -> None:
    """The mode of the file that is replaced, or that of a new file under the current umask."""
    if path.exists():
        mode = path.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    Path(beside).chmod(mode)
