"""Every norm of a checkpoint: where its gains lie, what it computes, and which eps it really uses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rmsaudit.documents.eps import FoundEps
from rmsaudit.documents.tensors import TensorPlace


@dataclass(frozen=True, kw_only=True)
class Site:
    """One norm of a model.

    name: its module's path as transformers spells it, whichever format it was read from
    ("model.layers.0.input_layernorm"); the file's own name where the architecture is unknown. tensor: its gains; None
    where it has none. preset: the words it starts from. declared: those words with what the checkpoint says of this
    site: width, eps, groups, gain_dtype, and gain_offset as this file stores its gains (0 where 1 is folded in). A site
    over heads (q_norm) has the width of one head. source: where each of the latter came from. below: its path below the
    root of its model, which is the same in a model with a head and without, in a language model alone and in one with
    eyes: sites of two checkpoints are matched by it. note: what happens to its input or output beside the norm, if
    anything: a gate.
    """

    name: str
    tensor: TensorPlace | None
    preset: str
    declared: Mapping[str, Any]
    eps: FoundEps
    source: Mapping[str, str]
    below: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """Fields of one configuration that state different values of the same thing; `used`: the one that acts."""

    used: str
    says: str


@dataclass(frozen=True, kw_only=True)
class Sites:
    """All norms of a checkpoint, in the order of the model.

    architecture: its `model_type` or GGUF architecture; None where it is not known, and names were found by a pattern.
    """

    sites: tuple[Site, ...]
    architecture: str | None
    disagreements: tuple[Disagreement, ...] = ()
    notes: tuple[str, ...] = ()
