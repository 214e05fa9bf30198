"""What an audit may not look up itself: the environment, and the command that led to it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmsaudit.record import Environment, Replay


def environment() -> "Environment":
    """What could change the numbers of declared sides: the libraries that round, and the processor's instruction
    set."""
    import platform
    import sys

    import ml_dtypes
    import numpy as np

    from rmsaudit.record import Environment

    return Environment(
        changes_numbers={"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__},
        informative={"python": platform.python_version(), "machine": platform.machine(), "system": sys.platform},
    )


def replay(files: Mapping[Path, str], others: Collection[str] = ()) -> "Replay":
    """The command as given, with names instead of paths, and what the files held.

    files: digest by path. others: words that are paths as well, and whose digests stand elsewhere in the record.
    """
    import shlex
    import sys

    from rmsaudit.record import Replay

    given = zip(["", *sys.argv[1:]], sys.argv[1:], strict=False)
    words = [
        Path(word).name if Path(word) in files or word in others else word
        for before, word in given
        if "--out" not in (before, word)
    ]
    return Replay(command=shlex.join(["rmsaudit", *words]), inputs={path.name: found for path, found in files.items()})
