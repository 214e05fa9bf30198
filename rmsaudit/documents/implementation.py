"""The implementation file: what one side is, with every variable resolved and its source known.

A variable's value is, from weak to strong: the default; what the gain tensor says (width, gain_dtype); the preset; the
file's `norm:`; `--set`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, create_model

from rmsaudit.documents import nodes
from rmsaudit.documents.binding import Absent, read_model
from rmsaudit.documents.eps import FromCheckpoint, FromConfig, FromGguf, find_eps
from rmsaudit.documents.nodes import Entry, Mark, Tree
from rmsaudit.documents.norm import NormSection, norm_section
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.documents.problems import Problems, Refused, did_you_mean, quoted
from rmsaudit.documents.source import parse_flag, read_source
from rmsaudit.documents.tensors import TensorPlace, digest_of, find_tensor
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, resolve
from rmsaudit.tolerance import Part

KINDS: dict[str, type[Part] | None] = {"spec": None}
"""The kinds of implementation, each with the model of the section of its own name; `spec` has none beside `norm:`."""


class GainSection(Part):
    """Where the gains are read from. Without it the battery brings its own."""

    file: str = Field(min_length=1, description="a safetensors file", examples=["model.safetensors"])
    tensor: str = Field(
        min_length=1, description="the tensor's name in it", examples=["model.layers.0.input_layernorm.weight"]
    )


class ImplementationDocument(Part):
    """One side of a comparison: what it computes, declared. Paths are relative to the file they stand in."""

    schema_: Literal["rmsaudit/implementation/1"] = Field(alias="schema", description="the type of this document")
    name: str = Field(min_length=1, description="what reports call it", examples=["transformers LlamaRMSNorm"])
    kind: str
    preset: str | Absent = Field(
        None, description="a starting point; `norm:` overrides it (`rmsaudit list presets`)", examples=["transformers-llama"]
    )
    norm: NormSection | Absent = None
    gain: GainSection | Absent = None


@cache
def implementation_model() -> type[ImplementationDocument]:
    """The document with its kinds and its `norm:` in full; built when first needed, because that takes milliseconds."""
    keys: dict[str, Any] = {
        "kind": (Literal[tuple(KINDS)], Field(description="how the side is run; spec: it is emulated", examples=["spec"])),
        "norm": (norm_section() | Absent, None),
    }
    keys |= {kind: (section | Absent, None) for kind, section in KINDS.items() if section is not None}
    return create_model(
        "Implementation", __base__=ImplementationDocument, __doc__=ImplementationDocument.__doc__, **keys
    )


@dataclass(frozen=True)
class Resolved:
    """A variable's final value and where it came from; `written`: the word that stood for it, if one did."""

    value: Any
    source: str
    written: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeclaredGain:
    """Where a side's gains lie. digest: sha256 of the tensor's bytes."""

    place: TensorPlace
    digest: str


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """One side, read and resolved.

    digest: sha256 of the file's bytes. resolved: every variable, in stage order. declared: the same as it was written,
    with the words that name another variable. gain: None where the battery brings the gains.
    """

    name: str
    kind: str
    path: Path
    digest: str
    preset: str | None
    declared: Mapping[str, Any]
    resolved: Mapping[str, Resolved]
    spec: NormSpec
    gain: DeclaredGain | None


def read_implementation(path: Path, overrides: Mapping[str, str]) -> Implementation:
    """The implementation that a file declares.

    overrides: what `--set` gave for this side, as text by the flag's own name: {"cand.eps": "1e-6"}; the part behind the
    first dot is the variable. Paths in an override are relative to the working directory.

    Raises InputProblem with everything that is wrong, stage by stage: the texts; what they point to; how it all fits.
    """
    ...
