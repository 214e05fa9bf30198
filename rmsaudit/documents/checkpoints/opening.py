"""Which kind of checkpoint a path is, and what it holds."""

from pathlib import Path

from rmsaudit.documents.checkpoints import Checkpoint, gguf, huggingface, onnx
from rmsaudit.documents.files import opened
from rmsaudit.documents.problems import Refused, printable
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.storage import is_folder

_ZIP = b"PK\x03\x04"  # how torch.save has begun since 2020
_PICKLE = b"\x80"


def open_checkpoint(path: Path) -> Checkpoint:
    """What the model at `path` holds: a Hugging Face folder, an index of shards, a safetensors, GGUF or ONNX file.

    No tensor's values are read. Raises InputProblem with everything that is wrong, found at once,
    and CouldNotRun where an ONNX file ends the process that reads it.
    """
    try:
        if is_folder(path):
            return huggingface.read_folder(path)
    except OSError as error:
        reason = printable(error.strerror or str(error))
        raise _problem(path, f"cannot be read ({reason}); check the path", "unreadable") from None
    if path.name.endswith(huggingface.INDEX_SUFFIX):
        return huggingface.read_index(path)
    try:
        with opened(path) as file:
            first = file.read(9)
    except Refused as refused:
        raise _problem(path, refused.says, refused.kind) from None
    if first.startswith(b"GGUF") or path.suffix == ".gguf":
        return gguf.read_file(path)
    if path.suffix == onnx.SUFFIX:
        return onnx.read_file(path)
    if first[8:] == b"{" or path.suffix == huggingface.SUFFIX:
        return huggingface.read_single(path)
    if first.startswith((_ZIP, _PICKLE)):
        says = f"is a pickle, which runs code when it is loaded, and is not read; {huggingface.CONVERT_PICKLE}"
        raise _problem(path, says, "pickle")
    says = "is no checkpoint that is known; name a folder, a .safetensors file, a .gguf file or an .onnx file"
    raise _problem(path, says, "unknown-format")


def _problem(path: Path, says: str, kind: str) -> InputProblem:
    return InputProblem([Problem(path=printable(str(path)), says=says, kind=kind)])
