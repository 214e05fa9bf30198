"""eps that is read from a model's own files instead of being written down again."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from rmsaudit.documents.config import eps_of_config
from rmsaudit.documents.gguf import eps_of_gguf
from rmsaudit.documents.problems import Refused, printable
from rmsaudit.tolerance import Part

CONFIG_NAME = "config.json"


class FromConfig(Part):
    """eps as a Hugging Face config.json has it."""

    config: str = Field(min_length=1, description="path of the config.json", examples=["./config.json"])


class FromGguf(Part):
    """eps as the metadata of a GGUF file has it."""

    gguf: str = Field(min_length=1, description="path of the GGUF file", examples=["./model.gguf"])


class FromCheckpoint(Part):
    """eps as the config.json in a checkpoint's folder has it."""

    checkpoint: str = Field(min_length=1, description="path of the folder", examples=["./checkpoint"])


EpsPlace = FromConfig | FromGguf | FromCheckpoint


@dataclass(frozen=True)
class FoundEps:
    """eps, and where it was found: `config.json: rms_norm_eps`."""

    value: float
    source: str


def find_eps(place: EpsPlace, folder: Path) -> FoundEps:
    """The eps that `place` stands for; its path is relative to `folder`. Raises Refused, which names the path."""
    match place:
        case FromConfig(config=named):
            read, path = eps_of_config, folder / named
        case FromCheckpoint(checkpoint=named):
            named = f"{named.rstrip('/')}/{CONFIG_NAME}"
            read, path = eps_of_config, folder / named
        case FromGguf(gguf=named):
            read, path = eps_of_gguf, folder / named
    try:
        value, key = read(path)
    except Refused as refused:
        raise Refused(f"{printable(named)} {refused.says}", refused.kind) from None
    note = " (shortest decimal of the stored float32)" if isinstance(place, FromGguf) else ""
    return FoundEps(value, printable(f"{path.name}: {key}{note}"))
