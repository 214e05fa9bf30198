"""From a path to a model that can be audited: its checkpoint, its sites, their gains."""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rmsaudit.arrays import Array
    from rmsaudit.documents.checkpoints import Checkpoint
    from rmsaudit.documents.sites import Site, Sites
    from rmsaudit.errors import InputProblem
    from rmsaudit.model.matched import Model
    from rmsaudit.model.sites import SiteSide


def read_model(path: "Path", dtype: str) -> "Model":
    """The model at `path`, every norm computed with inputs and outputs of `dtype`.

    Raises InputProblem with everything that is wrong.
    """
    from rmsaudit.documents.checkpoints.opening import open_checkpoint
    from rmsaudit.documents.problems import printable
    from rmsaudit.documents.sites.find import find_sites
    from rmsaudit.model.matched import Model

    checkpoint = open_checkpoint(path)
    found = find_sites(checkpoint)
    refuse_unreadable(path, found)
    return Model(
        name=printable(checkpoint.path.name),
        format=checkpoint.format,
        architecture=found.architecture,
        sites=_resolved(path, {printable(site.name): _side(site, checkpoint, dtype) for site in found.sites}),
        files=checkpoint.files,
        contradictions=tuple(each.says for each in found.disagreements),
        notes=(*checkpoint.notes, *found.notes),
    )


def refuse_unreadable(path: "Path", found: "Sites") -> None:
    """Raises InputProblem for a checkpoint without any norm, and for gains in a dtype of which no values are read."""
    from rmsaudit.documents.problems import printable
    from rmsaudit.formats import FORMATS

    if not found.sites:
        what = "RMSNorm" if found.architecture is None else f"norm of {printable(found.architecture)}"
        notes = "".join(f" ({note})" for note in found.notes)
        raise _refused(path, {f"has no {what}{notes}; name another checkpoint": []}, "no-norms")
    unreadable: dict[str, list[str]] = {}
    for site in found.sites:
        if site.tensor is not None and site.tensor.dtype not in FORMATS:
            says = f"stores gains as {printable(site.tensor.dtype)}, of which no values are read;"
            unreadable.setdefault(f"{says} store them as one of {', '.join(FORMATS)}", []).append(site.name)
    if unreadable:
        raise _refused(path, unreadable, "gain-dtype")


def _resolved(path: "Path", sites: "Mapping[str, SiteSide]") -> "Mapping[str, SiteSide]":
    """The sites, all of whose words hold together. Raises InputProblem."""
    from math import inf

    from rmsaudit.model.sites import eps_in_use
    from rmsaudit.semantics.resolve import CannotResolve

    refused: dict[str, list[str]] = {}
    for name, site in sites.items():
        try:
            lost = eps_in_use(site.spec) == inf
        except CannotResolve as problem:
            refused.setdefault(f"cannot be computed: {problem}", []).append(name)
            continue
        if lost:
            says = f"has an eps of {site.spec.eps:g}, which {site.spec.eps_dtype} cannot hold; mend it"
            refused.setdefault(says, []).append(name)
    if refused:
        raise _refused(path, refused, "cannot-resolve")
    return sites


def _refused(path: "Path", problems: "Mapping[str, Sequence[str]]", kind: str) -> "InputProblem":
    """One problem for all the sites that have it."""
    from rmsaudit.documents.problems import printable
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.model.names import compact

    return InputProblem(
        Problem(
            path=printable(str(path)),
            says=f"{says} (at {printable(', '.join(compact(names)))})" if names else says,
            kind=kind,
        )
        for says, names in problems.items()
    )


def _side(site: "Site", checkpoint: "Checkpoint", dtype: str) -> "SiteSide":
    from rmsaudit.documents.problems import printable
    from rmsaudit.loaders import tensors
    from rmsaudit.model.sites import SiteSide
    from rmsaudit.semantics import variables

    stored = None if site.tensor is None else tensors.load(site.tensor).reshape(-1)
    gain = None if stored is None else _as_loaded(stored, dtype)
    words: dict[str, Any] = {name: variable.default for name, variable in variables().items()}
    words |= {**_preset(site.preset), **site.declared, "gain_dtype": _word(gain, dtype)}
    words |= {"input_dtype": dtype, "output_dtype": dtype}  # of every norm, whatever its gains promote to
    place = {} if site.tensor is None else {"gain": printable(f"{checkpoint.path.name}: {site.tensor.name}")}
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
