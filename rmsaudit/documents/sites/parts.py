"""A model as the parts it consists of: itself, and the models inside it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rmsaudit.documents.eps import CONFIG_NAME
from rmsaudit.documents.sites.architecture import Architecture, Tower
from rmsaudit.documents.sites.configured import TRANSFORMERS, Section
from rmsaudit.documents.sites.known import BY_MODEL_TYPE

LANGUAGE = "text_config"


@dataclass(frozen=True)
class Part:
    """One model of a model.

    at: its module's path in the whole, as transformers has it. prefixes: what its names may begin with in files, each
    with its dot. label: what its names begin with where sites are matched: nothing for a language model.
    """

    architecture: Architecture
    section: Section
    at: str
    prefixes: tuple[str, ...]
    label: str = ""

    def below(self, name: str) -> Iterator[tuple[str, str]]:
        """The name without each prefix that it has, and that prefix."""
        for prefix in self.prefixes:
            if name.startswith(prefix):
                yield name[len(prefix) :], prefix


class UnknownPart(Exception):
    """A model inside a model whose `model_type` is not known."""


def parts_of(architecture: Architecture, section: Section) -> list[Part]:
    """The model itself, then its towers. Raises UnknownPart."""
    roots = tuple(f"{root}." if root else "" for root in (architecture.root, *architecture.stored, ""))
    own = Part(architecture, section, architecture.root, tuple(dict.fromkeys(roots)))
    return [own, *(_of_tower(tower, architecture, section) for tower in architecture.towers)]


def _of_tower(tower: Tower, whole: Architecture, section: Section) -> Part:
    inside = _section_of(tower, whole, section)
    named = inside.values.get("model_type") if inside.prefix else None
    architecture = BY_MODEL_TYPE.get(named if isinstance(named, str) else tower.model_type)
    if architecture is None:
        raise UnknownPart(f"{inside.prefix}model_type is {named!r}")
    prefixes = tuple(f"{stored}." if stored else "" for stored in (tower.at, *tower.stored))
    label = "" if tower.section == LANGUAGE else tower.at.removeprefix("model.") + "."
    return Part(architecture, inside, tower.at, prefixes, label)


def _section_of(tower: Tower, whole: Architecture, section: Section) -> Section:
    prefix, values = f"{tower.section}.", section.values.get(tower.section)
    source = f"default of {whole.config}.{tower.section} ({TRANSFORMERS})"
    if isinstance(values, dict):
        default = tower.default if tower.fills else None
        return Section(section.path, values, prefix, source if tower.fills else "", default)
    if tower.flat:
        return section
    absent = f"{tower.section} is missing in {CONFIG_NAME}"
    return Section(section.path, {}, prefix, f"{source}; {absent}" if tower.default else absent, tower.default)
