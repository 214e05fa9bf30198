"""A GGUF file, or all parts of one that `llama-gguf-split` cut up.

Part 1 has the metadata of the whole; the others have tensors, and the keys `split.*` only. They lie side by side as
NAME-00001-of-00003.gguf, and any of them may be named.
"""

import re
from pathlib import Path

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.gguf import Gguf, read_gguf
from rmsaudit.documents.problems import Refused, printable, quoted
from rmsaudit.documents.tensors import TensorPlace
from rmsaudit.errors import InputProblem, Problem

COUNT, NUMBER, TENSORS = "split.count", "split.no", "split.tensors.count"
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")
_MOST_PARTS = 99_999  # what the five digits hold


def read_file(path: Path) -> Checkpoint:
    """The checkpoint in a GGUF file and its other parts. Raises InputProblem with everything that is wrong."""
    try:
        named = read_gguf(path)
        paths = _parts(path, named)
    except Refused as refused:
        raise InputProblem([_problem(path, refused.says, refused.kind)]) from None
    parts: dict[Path, Gguf] = {}
    problems = []
    for number, part in enumerate(paths):
        try:
            read = named if part == path else read_gguf(part)
            _check_part(read, number, len(paths))
            parts[part] = read
        except Refused as refused:
            missing = f"is part {number + 1} of {len(paths)} of {printable(path.name)}, and does not exist; fetch it"
            says = missing if refused.kind == "no-such-file" else refused.says
            problems.append(_problem(part, says, refused.kind))
    tensors = _joined(parts, problems)
    if problems:
        raise InputProblem(problems)
    return Checkpoint(path=path, format="gguf", tensors=tensors, metadata=parts[paths[0]].metadata)


def _parts(path: Path, named: Gguf) -> list[Path]:
    """The paths of all parts, in order; `path` alone where there is one. Raises Refused."""
    count = named.metadata.get(COUNT, 1)
    if not isinstance(count, int) or not 0 <= count <= _MOST_PARTS:
        raise Refused(f"gives {COUNT} as {quoted(f'{count}')}; it is damaged", "bad-gguf")
    if count <= 1:
        return [path]
    name = _PART.fullmatch(path.name)
    if name is None or int(name[3]) != count:
        says = f"is one of {count} parts, and its name does not say how the others are called"
        raise Refused(f"{says}; name it as NAME-00001-of-{count:05}.gguf", "bad-gguf")
    return [path.parent / f"{name[1]}-{number:05}-of-{count:05}.gguf" for number in range(1, count + 1)]


def _check_part(part: Gguf, number: int, count: int) -> None:
    """Raises Refused where a file is another part than its name says."""
    if count == 1:
        return
    found = part.metadata.get(NUMBER), part.metadata.get(COUNT)
    if found != (number, count):
        says = f"says of itself that it has {NUMBER} {found[0]} and {COUNT} {found[1]}, and by its name it has {number}"
        raise Refused(f"{says} and {count}; fetch it again", "bad-gguf")


def _joined(parts: dict[Path, Gguf], problems: list[Problem]) -> dict[str, TensorPlace]:
    """The tensors of all parts, each of which must be in one of them only."""
    found: dict[str, TensorPlace] = {}
    for path, part in parts.items():
        for name, place in part.tensors.items():
            if name in found:
                says = f"holds {quoted(name)}, and so does {printable(found[name].path.name)}; fetch both again"
                problems.append(_problem(path, says, "duplicate-tensor"))
            found[name] = place
    first = next(iter(parts), None)
    if first is None or problems:
        return found
    announced = parts[first].metadata.get(TENSORS, len(found))
    if announced != len(found):
        says = f"announces {announced} tensors, and its {len(parts)} parts hold {len(found)}; fetch them again"
        problems.append(_problem(first, says, "bad-gguf"))
    return found


def _problem(path: Path, says: str, kind: str) -> Problem:
    return Problem(path=printable(str(path)), says=says, kind=kind)
