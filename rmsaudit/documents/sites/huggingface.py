"""The norms of a model as transformers saves it: a config.json, and tensors named by module."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.eps import CONFIG_NAME
from rmsaudit.documents.problems import quoted
from rmsaudit.documents.sites import Disagreement, Site, Sites
from rmsaudit.documents.sites.architecture import Found
from rmsaudit.documents.sites.by_pattern import looks_like_a_norm, sites_by_pattern
from rmsaudit.documents.sites.configured import (
    Section,
    contradictions,
    disagreements,
    eps_of,
    groups_of,
    is_run,
    width_beside,
)
from rmsaudit.documents.sites.declaring import is_vector, listed, said_beside, said_by
from rmsaudit.documents.sites.known import BY_MODEL_TYPE
from rmsaudit.documents.sites.parts import Part, UnknownPart, parts_of
from rmsaudit.documents.tensors import TensorPlace

SUFFIX = ".weight"


def sites_of_model(checkpoint: Checkpoint) -> Sites:
    """Every RMSNorm of a checkpoint whose settings are a config.json. Raises InputProblem."""
    model_type = checkpoint.config.get("model_type")
    section = Section(config_path(checkpoint), checkpoint.config)
    architecture = BY_MODEL_TYPE.get(model_type) if isinstance(model_type, str) else None
    if architecture is None:
        why = f"the model_type {quoted(str(model_type))} is not known" if model_type else "there is no model_type"
        return sites_by_pattern(checkpoint, section, why)
    try:
        parts = parts_of(architecture, section)
    except UnknownPart as unknown:
        return sites_by_pattern(checkpoint, section, f"{unknown}, which is not known")
    reading = _Reading(checkpoint.tensors, parts)
    reading.read()
    notes = [architecture.remark] if architecture.remark else reading.leftovers()
    return Sites(
        sites=reading.sites(),
        architecture=architecture.model_type,
        disagreements=tuple(_disagreements(parts)),
        notes=(*reading.notes(), *notes),
    )


def config_path(checkpoint: Checkpoint) -> Path:
    """Where the config.json of a checkpoint is, or would be."""
    inside = checkpoint.format == "huggingface" and checkpoint.path.suffix != ".json"
    return (checkpoint.path if inside else checkpoint.path.parent) / CONFIG_NAME


@dataclass(frozen=True)
class _Place:
    """A norm that was found: which one of which part, and under which name."""

    part: int
    found: Found
    below: str
    prefix: str

    def name(self, part: Part) -> str:
        """The module's path in the class with a head; without one, where the file has the names of a model without."""
        headless = not self.prefix and not self.part and not part.architecture.towers
        return self.below if headless or not part.at else f"{part.at}.{self.below}"


class _Reading:
    """The sites among a checkpoint's tensors, and what is odd about these."""

    def __init__(self, tensors: Mapping[str, TensorPlace], parts: list[Part]) -> None:
        self.tensors = tensors
        self.parts = parts
        self.found: list[tuple[_Place, Site]] = []
        self.beyond: dict[int, int] = {}
        self.odd: list[str] = []
        self.again: list[str] = []
        self.idle: list[str] = []
        self.names: set[str] = set()

    def read(self) -> None:
        """Looks at every tensor once."""
        for name, tensor in self.tensors.items():
            for number, part in enumerate(self.parts):
                self._beside(name, tensor, number, part)
            if name.endswith(SUFFIX):
                self._gains(name, tensor)

    def sites(self) -> tuple[Site, ...]:
        """In the order of the model."""

        def order(item: tuple[_Place, Site]) -> Any:
            return item[0].part, self.parts[item[0].part].architecture.order(item[0].found)

        return tuple(site for _, site in sorted(self.found, key=order))

    def notes(self) -> list[str]:
        """What is left out of the sites, and why."""
        notes = []
        if self.beyond:
            layers = listed([str(layer) for layer in sorted(self.beyond)])
            count = sum(self.beyond.values())
            says = f"left out: {count} norm{'s' * (count > 1)} in layers beyond the model's last: {layers}"
            notes.append(f"{says}; it does not run them (they predict further tokens)")
        if self.idle:
            notes.append(f"left out: {listed(self.idle)}; their layers do not run them")
        if self.again:
            notes.append(f"left out: {listed(self.again)}; another tensor has the same norm's gains under another name")
        if self.odd:
            notes.append(f"left out: {listed(self.odd)}; gains are a row of numbers")
        return notes

    def leftovers(self) -> list[str]:
        """Tensors that a reader would take for gains, and that are not known to be."""
        known = {site.tensor.name for _, site in self.found if site.tensor} | {*self.odd, *self.again, *self.idle}
        left = [
            name
            for name, tensor in self.tensors.items()
            if name not in known and looks_like_a_norm(name, tensor, self.tensors) and not self._is_explained(name)
        ]
        if not left:
            return []
        return [f"not audited: {listed(left)}; the name is like a norm's, and this model is not known to have it there"]

    def _gains(self, name: str, tensor: TensorPlace) -> None:
        place = self._place(name.removesuffix(SUFFIX))
        if place is None or self._beyond_last(place):
            return
        if not is_vector(tensor):
            self.odd.append(name)
            return
        part = self.parts[place.part]
        norm = part.architecture.norms[place.found.index]
        if not is_run(norm, part.section, place.found.numbers):
            self.idle.append(name)
            return
        path = place.name(part)
        if path in self.names:
            self.again.append(name)
            return
        self.names.add(path)
        preset, eps = norm.preset or part.architecture.preset, eps_of(norm, part.architecture, part.section)
        said = said_by(tensor, eps, preset)
        if norm.groups and (groups := groups_of(norm.groups, part.architecture, part.section)).count > 1:
            said = said.also("groups", groups.count, groups.source)
        self.found.append((place, said.site(path, part.label + place.below, norm.note)))

    def _place(self, name: str) -> _Place | None:
        for number, part in enumerate(self.parts):
            for below, prefix in part.below(name):
                if found := part.architecture.by_path.find(below):
                    return _Place(number, found, part.architecture.norms[found.index].path(found), prefix)
        return None

    def _beside(self, name: str, tensor: TensorPlace, number: int, part: Part) -> None:
        """The norms without gains that stand beside a tensor."""
        if not part.architecture.has_bare:
            return
        for below, prefix in part.below(name):
            for found in part.architecture.by_neighbour.all(below):
                norm = part.architecture.norms[found.index]
                assert norm.bare
                place = _Place(number, found, norm.path(found), prefix)
                width = width_beside(norm.bare, tensor, part.section, found.numbers[0] if found.numbers else 0)
                if not width or self._beyond_last(place) or not is_run(norm, part.section, found.numbers):
                    continue
                eps = eps_of(norm, part.architecture, part.section)
                source = f"{tensor.path.name}: {name}, {list(tensor.shape)}"
                said = said_beside(width, eps, norm.preset or part.architecture.preset, source)
                self.found.append((place, said.site(place.name(part), part.label + place.below, norm.note)))

    def _beyond_last(self, place: _Place) -> bool:
        """Whether a norm belongs to a layer that the model does not have; it is counted then."""
        part = self.parts[place.part]
        layers = part.section.get("num_hidden_layers")
        at = part.architecture.norms[place.found.index].at
        if not at.startswith("layers.{}") or not isinstance(layers, int) or place.found.numbers[0] < layers:
            return False
        layer = place.found.numbers[0]
        self.beyond[layer] = self.beyond.get(layer, 0) + 1
        return True

    def _is_explained(self, name: str) -> bool:
        """Whether a tensor is known to be no gain of a norm that is run."""
        others = (
            below == f"{other}{SUFFIX}"
            for part in self.parts
            for below, _ in part.below(name)
            for other in part.architecture.other_norms
        )
        steps = name.split(".")
        numbers = (b for a, b in pairwise(steps) if a == "layers" and b.isdecimal() and len(b) < 10)
        return any(others) or any(int(number) in self.beyond for number in numbers)


def _disagreements(parts: list[Part]) -> Iterator[Disagreement]:
    whole, *inside = parts
    if not inside and whole.architecture.norms:
        yield from disagreements(whole.architecture, whole.section)
    for part in inside:
        yield from disagreements(part.architecture, part.section)
        if not part.label and part.section is not whole.section:
            used = eps_of(part.architecture.norms[-1], part.architecture, part.section)
            yield from contradictions(whole.section, used, set(), whole.architecture.model_type)
