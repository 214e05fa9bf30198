"""eps of one norm out of a config.json, as transformers would set it, with its trail."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmsaudit.documents.config import EPS_KEYS, check_eps
from rmsaudit.documents.eps import CONFIG_NAME, FoundEps
from rmsaudit.documents.problems import Refused, printable, quoted
from rmsaudit.documents.sites import Disagreement
from rmsaudit.documents.sites.architecture import Architecture, Bare, Groups, Key, Norm
from rmsaudit.documents.tensors import TensorPlace
from rmsaudit.errors import InputProblem, Problem

TRANSFORMERS = "transformers 5.24"
"""What the defaults and constants were read off."""


@dataclass(frozen=True)
class Section:
    """The settings of one model in a config.json.

    path: the file, for messages. prefix: the section's place in it: "" or "text_config.". absent: what to say of a
    missing key, where that is more than its name. default: the eps that the whole model's class gives such a section.
    """

    path: Path
    values: Mapping[str, Any]
    prefix: str = ""
    absent: str = ""
    default: float | None = None

    def has(self, key: str) -> bool:
        """Whether a key is there, with null or a value; dots lead into sections."""
        return key.rpartition(".")[2] in self._around(key)

    def get(self, key: str) -> Any:
        """The value of a key; None where it is missing."""
        return self._around(key).get(key.rpartition(".")[2])

    def number(self, key: str, config: str) -> float:
        """eps under a key that is there. Raises InputProblem where it is none that `config` could take."""
        value = self.get(key)
        try:
            if value is None:
                says = f"gives {self.prefix}{key} as null, which {config} does not take; write the number that is used"
                raise Refused(says, "not-a-number")
            check_eps(self.prefix + key, value)
        except Refused as refused:
            problem = Problem(path=printable(str(self.path)), says=refused.says, kind=refused.kind)
            raise InputProblem([problem]) from None
        return float(value)

    def _around(self, key: str) -> Mapping[str, Any]:
        values: Any = self.values
        for step in key.split(".")[:-1]:
            values = values.get(step) if isinstance(values, Mapping) else None
        return values if isinstance(values, Mapping) else {}


def eps_of(norm: Norm, architecture: Architecture, section: Section) -> FoundEps:
    """eps of one kind of norm. Raises InputProblem."""
    if isinstance(norm.eps, float):
        source = (
            f"written into the model class of {architecture.model_type}, which reads no key for it ({TRANSFORMERS})"
        )
        return FoundEps(norm.eps, source)
    return _of_key(norm.eps or architecture.eps, architecture, section)


@dataclass(frozen=True)
class FoundGroups:
    """A count of groups, and where it was found."""

    count: int
    source: str


def groups_of(groups: Groups, architecture: Architecture, section: Section) -> FoundGroups:
    """In how many equal parts a norm's row falls."""
    for name in groups.names:
        count = section.get(name)
        if isinstance(count, int) and count > 0:
            return FoundGroups(count, f"{CONFIG_NAME}: {section.prefix}{name}")
    source = f"default of {architecture.config}.{groups.names[-1]} ({TRANSFORMERS})"
    return FoundGroups(groups.default, source)


def width_beside(bare: Bare, tensor: TensorPlace, section: Section, layer: int) -> int:
    """The width of a norm without gains; 0 where it cannot be told."""
    if bare.axis >= len(tensor.shape):
        return 0
    heads = section.get(bare.heads) if bare.heads else 1
    if isinstance(heads, list) and layer < len(heads):
        heads = heads[layer]
    return tensor.shape[bare.axis] // heads if isinstance(heads, int) and heads > 0 else 0


def is_run(norm: Norm, section: Section, numbers: tuple[int, ...]) -> bool:
    """Whether the layer of that number runs a norm which others do."""
    return norm.there is None or not numbers or norm.there(section.values, numbers[0])


def disagreements(architecture: Architecture, section: Section) -> Iterator[Disagreement]:
    """Keys that read like the norms' eps, that the model class does not read, and that say something else."""
    keyed = [norm for norm in architecture.norms if not isinstance(norm.eps, float)]
    read = {name_read(norm.eps or architecture.eps, section) for norm in keyed if not isinstance(norm.eps, float)}
    main = next((norm for norm in reversed(keyed) if norm.eps is None), architecture.norms[-1])
    used = eps_of(main, architecture, section)
    yield from contradictions(section, used, read | {*architecture.also_read}, architecture.model_type)


def contradictions(section: Section, used: FoundEps, read: set[str], model_type: str) -> Iterator[Disagreement]:
    """What the keys of a section say beside `read` ones, where it is not the eps in use."""
    for key in EPS_KEYS:
        value = section.values.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in read and is_number and value != used.value:
            says = f"{CONFIG_NAME} gives {section.prefix}{key} as {value!r}, which {quoted(model_type)} does not read"
            yield Disagreement(used=used.source, says=f"{says}; its norms use {used.value!r}: {used.source}")


def name_read(key: Key, section: Section) -> str:
    """The name that counts where a configuration class takes several for the same key; the others win over it."""
    return next((name for name in key.also if section.has(name)), key.name)


def _of_key(key: Key, architecture: Architecture, section: Section) -> FoundEps:
    name = name_read(key, section)
    if section.has(name):
        return FoundEps(section.number(name, architecture.config), f"{CONFIG_NAME}: {section.prefix}{name}")
    if section.default is not None:
        return FoundEps(section.default, section.absent)
    inside = key.name.rpartition(".")[0]
    if key.without_section is not None and not section.has(inside):
        source = f"default of {architecture.config}.{inside} ({TRANSFORMERS}); {inside} is missing in {CONFIG_NAME}"
        return FoundEps(key.without_section, source)
    missing = section.absent or f"{section.prefix}{name} is missing in {CONFIG_NAME}"
    return FoundEps(key.default, f"default of {architecture.config}.{name} ({TRANSFORMERS}); {missing}")
