"""From a path to a model that can be audited: its checkpoint, its sites, their gains."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rmsaudit.arrays import Array
    from rmsaudit.documents.checkpoints import Checkpoint
    from rmsaudit.documents.sites import Site
    from rmsaudit.model.audit import Model
    from rmsaudit.model.sites import SiteSide


def read_model(path: "Path", dtype: str, names: "Mapping[str, str]") -> "Model":
    """The model at `path`, every norm computed with inputs and outputs of `dtype`.

    names: what a site is called instead of its own name. Raises InputProblem with everything that is wrong.
    """
    from rmsaudit.documents.checkpoints.opening import open_checkpoint
    from rmsaudit.documents.sites.find import find_sites
    from rmsaudit.model.audit import Model

    checkpoint = open_checkpoint(path)
    found = find_sites(checkpoint)
    return Model(
        name=checkpoint.path.name,
        format=checkpoint.format,
        architecture=found.architecture,
        sites={names.get(site.name, site.name): _side(site, checkpoint, dtype) for site in found.sites},
        files=checkpoint.files,
        contradictions=tuple(each.says for each in found.disagreements),
        notes=(*checkpoint.notes, *found.notes),
    )


def _side(site: "Site", checkpoint: "Checkpoint", dtype: str) -> "SiteSide":
    from rmsaudit.loaders import tensors
    from rmsaudit.model.sites import SiteSide
    from rmsaudit.semantics import variables

    stored = None if site.tensor is None else tensors.load(site.tensor).reshape(-1)
    gain = None if stored is None else _as_loaded(stored, dtype)
    words: dict[str, Any] = {name: variable.default for name, variable in variables().items()}
    words |= {**_preset(site.preset), **site.declared, "input_dtype": dtype, "gain_dtype": _word(gain, dtype)}
    place = {} if site.tensor is None else {"gain": f"{checkpoint.path.name}: {site.tensor.name}"}
    return SiteSide(
        declared=words,
        gain=gain,
        stored=None if site.tensor is None else site.tensor.dtype,
        source={**site.source, "eps": site.eps.source, **place},
        below=site.below,
    )


@cache
def _preset(name: str) -> "Mapping[str, Any]":
    from rmsaudit.documents.preset import read_preset

    return read_preset(name).values


def _as_loaded(gain: "Array", dtype: str) -> "Array":
    """The gains in the dtype that the model is loaded in, where that holds their values; else as they are stored."""
    from rmsaudit.arrays import round_to
    from rmsaudit.model.sites import equal

    loaded = round_to(gain, dtype)
    return loaded if equal(loaded, gain) else gain


def _word(gain: "Array | None", dtype: str) -> str:
    from rmsaudit.arrays import word_of

    return dtype if gain is None else word_of(gain)
