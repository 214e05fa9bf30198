"""What is known of a model family: which of its modules are RMSNorms, which class they are, and what eps they get."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

LLAMA, GEMMA, GEMMA3N, OLMO2 = "transformers-llama", "transformers-gemma", "transformers-gemma3n", "transformers-olmo2"
T5, NO_GAIN = "transformers-t5", "transformers-llama4-l2-norm"
OFFSETS: Mapping[str, float] = {GEMMA: 1.0}
"""Presets that add something to the stored gains; every other one adds 0."""

_NUMBER = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")


@dataclass(frozen=True)
class Key:
    """Where a class reads eps: a key of its configuration, and what counts where a config.json has no such key.

    also: other names that its configuration class takes for the same. without_section: what counts where not even the
    section is there, for a name such as "text_config.rms_norm_eps".
    """

    name: str
    default: float
    also: tuple[str, ...] = ()
    without_section: float | None = None


@dataclass(frozen=True)
class Groups:
    """In how many equal parts a norm's row falls: keys of the configuration, the first of which counts; the default."""

    names: tuple[str, ...]
    default: int


@dataclass(frozen=True)
class Bare:
    """A norm without gains: its tensor cannot show where it is, and how wide.

    beside: a tensor of the same module, below the root; there is one norm for each. axis: the one of its axes that is
    as long as the norm is wide, or, where `heads` names a key of the configuration, as long as that many norms. gguf:
    that tensor in a GGUF file.
    """

    beside: str
    axis: int = 0
    heads: str | None = None
    gguf: str | None = None


@dataclass(frozen=True)
class Norm:
    """All RMSNorms of one kind in a model.

    at: path of the module below the root of its model, with `{}` for a number: "layers.{}.input_layernorm". gguf: how
    llama.cpp names the same, without ".weight"; None where it has no such tensor. preset: None for the architecture's.
    eps: a key of the configuration; a number that the class was written with; None for the architecture's key. stored:
    the path that files have instead, if it is another. there: whether a layer runs it, by the configuration and the
    layer's number. note: what happens to its input or output beside the norm.
    """

    at: str
    gguf: str | None = None
    preset: str | None = None
    eps: Key | float | None = None
    groups: Groups | None = None
    bare: Bare | None = None
    stored: str | None = None
    there: Callable[[Mapping[str, Any], int], bool] | None = None
    note: str = ""

    def path(self, found: "Found") -> str:
        """`at` with the numbers of one that was found."""
        return self.at.format(*found.numbers)


@dataclass(frozen=True)
class Tower:
    """A model inside a model.

    at: its module's path in the whole. section: where config.json has its settings. model_type: what it is where the
    section does not say. stored: other paths under which files have it. default: eps where config.json has no such
    section, if that differs from what its own class says; fills: and where the section has no such key. flat: without
    that section, the settings are those of the whole.
    """

    at: str
    section: str
    model_type: str
    stored: tuple[str, ...] = ()
    default: float | None = None
    fills: bool = False
    flat: bool = False


@dataclass(frozen=True)
class Architecture:
    """One `model_type` of transformers.

    config: its configuration class. root: path of the base model inside the class with a head; checkpoints of the base
    model alone lack it. stored: other roots in files. gguf: llama.cpp's name for it. also_read: keys in an eps spelling
    that other modules of the model read, so that they contradict nothing. other_norms: modules below the root that are
    named like RMSNorms and are none. remark: what the reader of a table of sites should know.
    """

    model_type: str
    config: str
    norms: tuple[Norm, ...] = ()
    gguf: str | None = None
    preset: str = LLAMA
    eps: Key = Key("rms_norm_eps", 1e-6)
    root: str = "model"
    stored: tuple[str, ...] = ()
    towers: tuple[Tower, ...] = ()
    also_read: tuple[str, ...] = ()
    other_norms: tuple[str, ...] = ()
    remark: str = ""

    @cached_property
    def by_path(self) -> "Lookup":
        """Its norms with gains by module path below the root."""
        return Lookup([norm.at, norm.stored] if norm.bare is None else [] for norm in self.norms)

    @cached_property
    def by_gguf_name(self) -> "Lookup":
        """Its norms by the name in a GGUF file."""
        return Lookup([norm.gguf] for norm in self.norms)

    @cached_property
    def by_gguf_neighbour(self) -> "Lookup":
        """The same in a GGUF file."""
        return Lookup([norm.bare.gguf] if norm.bare else [] for norm in self.norms)

    @cached_property
    def by_neighbour(self) -> "Lookup":
        """Its norms without gains by the tensor that stands beside them; several may stand beside one."""
        return Lookup([norm.bare.beside] if norm.bare else [] for norm in self.norms)

    @cached_property
    def has_bare(self) -> bool:
        """Whether any of its norms has no gains."""
        return any(norm.bare for norm in self.norms)

    @cached_property
    def _runs(self) -> tuple[int, ...]:
        """For each norm, where the run of norms begins that are repeated together, layer by layer."""
        starts: list[int] = []
        for index, norm in enumerate(self.norms):
            layer = norm.at.partition("{}")[:2]
            same = index > 0 and layer == self.norms[index - 1].at.partition("{}")[:2]
            starts.append(starts[-1] if same else index)
        return tuple(starts)

    def order(self, found: "Found") -> tuple[int, tuple[int, ...], int, tuple[int, ...]]:
        """Sorts what was found as a row passes through it: layer by layer, and in a layer as listed."""
        return self._runs[found.index], found.numbers[:1], found.index, found.numbers[1:]


@dataclass(frozen=True)
class Found:
    """The norm of an architecture's list at `index`, with the numbers that stand for its `{}`."""

    index: int
    numbers: tuple[int, ...]


class Lookup:
    """Finds which of some patterns, each in one spelling or several, a name follows; time does not grow with them."""

    def __init__(self, patterns: Iterable[Iterable[str | None]]) -> None:
        self._by_shape: dict[str, list[tuple[int, re.Pattern[str]]]] = {}
        for index, spellings in enumerate(patterns):
            for pattern in filter(None, spellings):
                compiled = re.compile(re.escape(pattern).replace(r"\{\}", r"(\d{1,9})"))
                self._by_shape.setdefault(shape_of(pattern), []).append((index, compiled))
        self._last_words = {shape.rpartition(".")[2] for shape in self._by_shape}

    def find(self, name: str) -> Found | None:
        """The first pattern that fits; None where none does."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[Found]:
        """Every pattern that fits, in their order."""
        last = name.rpartition(".")[2]
        if last not in self._last_words and not last.isdecimal():
            return  # most of a checkpoint's tensors end here
        for index, pattern in self._by_shape.get(shape_of(name), ()):
            if match := pattern.fullmatch(name):
                yield Found(index, tuple(map(int, match.groups())))


def shape_of(path: str) -> str:
    """A module's path with `{}` for every number: what the same module of all layers has in common."""
    return _NUMBER.sub("{}", path)
