"""The norms of a model that is not known: tensors that are named and shaped as gains are."""

import re
from collections.abc import Iterator, Mapping

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.config import EPS_KEYS, LAST_RESORT, some_keys
from rmsaudit.documents.eps import CONFIG_NAME, FoundEps
from rmsaudit.documents.problems import printable
from rmsaudit.documents.sites import Disagreement, Site, Sites
from rmsaudit.documents.sites.architecture import LLAMA
from rmsaudit.documents.sites.configured import Section
from rmsaudit.documents.sites.declaring import is_vector, said_by
from rmsaudit.documents.tensors import TensorPlace
from rmsaudit.errors import InputProblem, Problem

_GAINS = re.compile(r"(?:.*[._])?(?:layer|rms)?(?:norm|ln)[a-z0-9_]*\.(?:weight|scale|gamma)", re.IGNORECASE)
_OTHERS = re.compile(r"batch_?norm|group_?norm|instance_?norm", re.IGNORECASE)
_LONGEST_NAME = 300
_BIASES = ("bias", "beta")


def looks_like_a_norm(name: str, tensor: TensorPlace, others: Mapping[str, TensorPlace]) -> bool:
    """Named like a norm's gains, with one axis, and without a bias beside it."""
    if len(tensor.shape) != 1 or len(name) > _LONGEST_NAME or not _GAINS.fullmatch(name) or _OTHERS.search(name):
        return False
    module = name.rpartition(".")[0]
    return not any(f"{module}.{bias}" in others for bias in _BIASES)


def sites_by_pattern(checkpoint: Checkpoint, section: Section, why: str) -> Sites:
    """The sites of a model that is not known. why: a sentence's beginning for the note. Raises InputProblem."""
    places = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if looks_like_a_norm(name, tensor, checkpoint.tensors) and is_vector(tensor)
    }
    sites = [_site(name, tensor, nearest_eps(name, section)) for name, tensor in places.items()]
    notes = (unknown_note(why),) if sites else (f"{why}, and no tensor is named like a norm's gains",)
    return Sites(
        sites=tuple(sorted(sites, key=in_order)),
        architecture=None,
        disagreements=tuple(_disagreements(section)) if sites else (),
        notes=notes,
    )


def unknown_note(why: str) -> str:
    """What the reader of sites found by a pattern must know."""
    return f"{why}: norms were found by their names, and are taken for {LLAMA}; check eps and the gains' convention"


def nearest_eps(name: str, section: Section) -> FoundEps:
    """eps for a norm of that name: from the section that its path speaks of, else from the language model's.

    Raises InputProblem where none of them has any.
    """
    for inside in sorted(_sections(section), key=lambda inside: -_likeness(inside.prefix, name)):
        for key in (*EPS_KEYS, *LAST_RESORT):
            if inside.get(key) is not None:
                source = f"{CONFIG_NAME}: {inside.prefix}{key}, the nearest key"
                return FoundEps(inside.number(key, "a norm"), source)
    if not section.values:
        says = f"says nothing, or is not there, and so there is no eps for {printable(name)}; fetch it"
    else:
        says = f"gives no eps for {printable(name)}; looked for {some_keys()}, there and in its sections; add it"
    raise InputProblem([Problem(path=printable(str(section.path)), says=says, kind="no-eps")])


def _disagreements(section: Section) -> Iterator[Disagreement]:
    """Sections that give eps under several keys, with several values: which one acts is not known."""
    for inside in _sections(section):
        given = {key: inside.get(key) for key in EPS_KEYS if inside.get(key) is not None}
        if len({repr(value) for value in given.values()}) > 1:
            values = printable(" and ".join(f"{inside.prefix}{key} as {value!r}" for key, value in given.items()))
            used = f"{CONFIG_NAME}: {inside.prefix}{next(iter(given))}"
            says = f"{CONFIG_NAME} gives {values}; which of them acts is not known, and {used} is used"
            yield Disagreement(used=used, says=says)


def _sections(section: Section) -> Iterator[Section]:
    """The whole, and each section in it."""
    yield section
    for key, values in section.values.items():
        if isinstance(values, dict):
            yield Section(section.path, values, f"{printable(key)}.")


def _likeness(prefix: str, name: str) -> int:
    """How well a section fits a path: a word of its name in it, then a language model's, then the top, then others."""
    word = prefix.rstrip(".").removesuffix("_config")
    if word and word in name and word != "text":
        return 3
    return 2 if word in ("text", "language", "llm", "thinker") else int(not word)


def _site(name: str, tensor: TensorPlace, eps: FoundEps) -> Site:
    path = name.rpartition(".")[0]
    return said_by(tensor, eps, LLAMA).site(path, path.removeprefix("model."))


def in_order(site: Site) -> list[tuple[int, int, str]]:
    """Numbers in a path by their value, everything else by its letters."""
    return [(0, int(step), "") if step.isdecimal() else (1, 0, step) for step in site.name.split(".")]
