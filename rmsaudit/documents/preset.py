"""Presets: named starting points, one file each in `rmsaudit/presets`, read by the same reader as any document."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Literal

from pydantic import Field, create_model

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.norm import NormSection, preset_section
from rmsaudit.documents.problems import Problems
from rmsaudit.documents.source import parse
from rmsaudit.tolerance import Part

SCHEMA: Literal["rmsaudit/preset/1"] = "rmsaudit/preset/1"
SUFFIX = ".yaml"


class PresetSource(Part):
    """Where a preset was read off."""

    project: str = Field(min_length=1, description="the repository", examples=["huggingface/transformers"])
    version: str = Field(min_length=1, description="its release or commit", examples=["5.24.0"])
    file: str = Field(min_length=1, description="the file in it")


class PresetDocument(Part):
    """A preset: the variables that one published RMSNorm fixes."""

    schema_: Literal["rmsaudit/preset/1"] = Field(alias="schema", description="the type of this document")
    name: str = Field(min_length=1, description="as `preset:` names it; the file's name without .yaml")
    about: str = Field(min_length=1, description="one sentence: what it is, and what sets it apart")
    source: PresetSource
    norm: NormSection


@dataclass(frozen=True, kw_only=True)
class Preset:
    """values: variable to declared value; eps None is torch's None."""

    name: str
    about: str
    source: PresetSource
    values: dict[str, Any]


@cache
def preset_model() -> type[PresetDocument]:
    """The document with its `norm:` in full; built when first needed, because that takes milliseconds."""
    return create_model("Preset", __base__=PresetDocument, __doc__=PresetDocument.__doc__, norm=(preset_section(), ...))


def preset_names() -> list[str]:
    """Every preset's name, sorted."""
    return sorted(entry.name.removesuffix(SUFFIX) for entry in _folder().iterdir() if entry.name.endswith(SUFFIX))


def read_preset(name: str) -> Preset:
    """The preset of a name out of `preset_names()`. Raises InputProblem where its file is not as it should be."""
    path = f"presets/{name}{SUFFIX}"
    tree = parse((_folder() / f"{name}{SUFFIX}").read_bytes(), path)
    document = read_model(preset_model(), tree)
    if document.name != name:
        problems = Problems(path)
        problems.add(tree.mark_of("name"), f"name must be that of the file; write {name}", "other-name")
        problems.raise_any()
    return Preset(name=name, about=document.about, source=document.source, values=document.norm.declared())


def _folder() -> Traversable:
    return resources.files("rmsaudit") / "presets"
