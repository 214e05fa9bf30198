"""The norms of a GGUF file: llama.cpp's names for transformers' modules, and one eps for all of them."""

from collections.abc import Iterator
from math import inf
from typing import Any

from rmsaudit.documents.checkpoints import Checkpoint
from rmsaudit.documents.eps import FoundEps
from rmsaudit.documents.gguf import ARCHITECTURE, EPS_SUFFIX, shortest_decimal
from rmsaudit.documents.problems import printable, quoted
from rmsaudit.documents.sites import Site, Sites
from rmsaudit.documents.sites.architecture import LLAMA, Architecture, Found
from rmsaudit.documents.sites.by_pattern import in_order, looks_like_a_norm, unknown_note
from rmsaudit.documents.sites.configured import Section, is_run, width_beside
from rmsaudit.documents.sites.declaring import Said, is_vector, listed, said_beside, said_by
from rmsaudit.documents.sites.known import BY_GGUF, BY_MODEL_TYPE
from rmsaudit.documents.tensors import TensorPlace
from rmsaudit.errors import InputProblem, Problem

SUFFIX = ".weight"
GROUPS = "group_count"


def sites_of_gguf(checkpoint: Checkpoint) -> Sites:
    """Every RMSNorm of a GGUF file. Raises InputProblem."""
    name = checkpoint.metadata.get(ARCHITECTURE)
    known = BY_GGUF.get(name) if isinstance(name, str) else None
    if name == "mamba" and checkpoint.metadata.get("mamba.ssm.dt_b_c_rms") is True:
        known = BY_MODEL_TYPE["falcon_mamba"]
    if not isinstance(name, str) or known is None:
        return _by_pattern(checkpoint, f"the GGUF architecture {quoted(str(name))} is not known")
    if not known.norms:
        return Sites(sites=(), architecture=name, notes=(known.remark,))
    reading = _Reading(checkpoint, known)
    found = [item for tensor in checkpoint.tensors.values() for item in reading.sites(tensor)]
    found.sort(key=lambda item: known.order(item[0]))
    return Sites(sites=tuple(site for _, site in found), architecture=name, notes=tuple(reading.notes()))


def eps_of_checkpoint(checkpoint: Checkpoint) -> FoundEps:
    """eps of a GGUF file: the shortest decimal that the stored float32 is equal to. Raises InputProblem."""
    key = f"{checkpoint.metadata.get(ARCHITECTURE)}{EPS_SUFFIX}"
    stored = checkpoint.metadata.get(key)
    if stored is None:
        raise _problem(checkpoint, f"gives no eps; looked for {quoted(key)}; convert the model again", "no-eps")
    if not isinstance(stored, float) or not 0 < stored < inf:
        says = f"gives {quoted(key)} as {quoted(f'{stored}')}; eps must be a float above 0"
        raise _problem(checkpoint, says, "out-of-range")
    value = shortest_decimal(stored)
    equal = "" if value == stored else f"; equal to {value!r} in float32"
    return FoundEps(value, printable(f"{checkpoint.path.name}: {key} (float32 {stored!r}{equal})"))


def as_config(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a config.json would say of the layers, in its words; keys that a file does not have are missing.

    Llama 4: llama.cpp gives all sizes but the one of 128 experts its norm on queries and keys, in three of four layers.
    """

    def get(key: str) -> Any:
        return checkpoint.metadata.get(f"{checkpoint.metadata[ARCHITECTURE]}.{key}")

    layers, extra = get("block_count"), get("nextn_predict_layers")
    found = {
        "num_hidden_layers": layers - extra if isinstance(layers, int) and isinstance(extra, int) else layers,
        "num_key_value_heads": get("attention.head_count_kv"),
        "num_kv_shared_layers": get("attention.shared_kv_layers"),
        "use_qk_norm": get("expert_count") != 128,
        "no_rope_layer_interval": 0 if get("attention.sliding_window") == 0 else 4,
        GROUPS: get(f"ssm.{GROUPS}"),
    }
    return {key: value for key, value in found.items() if value is not None}


class _Reading:
    """The sites among a file's tensors."""

    def __init__(self, checkpoint: Checkpoint, known: Architecture) -> None:
        self.known = known
        self.eps = eps_of_checkpoint(checkpoint)
        self.section = Section(checkpoint.path, as_config(checkpoint))
        self.groups_key = f"{checkpoint.metadata[ARCHITECTURE]}.ssm.{GROUPS}"
        self.odd: list[str] = []
        self.beyond: list[str] = []
        self.idle: list[str] = []

    def sites(self, tensor: TensorPlace) -> Iterator[tuple[Found, Site]]:
        """The site that a tensor has the gains of, and those without gains beside it."""
        for found in self.known.by_gguf_neighbour.all(tensor.name):
            norm = self.known.norms[found.index]
            width = width_beside(norm.bare, tensor, self.section, found.numbers[0]) if norm.bare else 0
            if width and self._is_within(found) and is_run(norm, self.section, found.numbers):
                source = printable(f"{tensor.path.name}: {tensor.name}, {list(tensor.shape)}")
                said = said_beside(width, self.eps, norm.preset or self.known.preset, source)
                yield found, self._site(said, found)
        named = self.known.by_gguf_name.find(tensor.name.removesuffix(SUFFIX))
        if named and tensor.name.endswith(SUFFIX) and self._is_audited(tensor, named):
            yield named, self._site(self._said(tensor, named), named)

    def _said(self, tensor: TensorPlace, found: Found) -> Said:
        norm = self.known.norms[found.index]
        said = said_by(tensor, self.eps, norm.preset or self.known.preset, folded=True)
        groups = self.section.get(GROUPS)
        if norm.groups and isinstance(groups, int) and groups > 1:
            said = said.also("groups", groups, printable(f"{tensor.path.name}: {self.groups_key}"))
        return said

    def _site(self, said: Said, found: Found) -> Site:
        norm = self.known.norms[found.index]
        below = norm.path(found)
        return said.site(f"{self.known.root}.{below}" if self.known.root else below, below, norm.note)

    def _is_audited(self, tensor: TensorPlace, found: Found) -> bool:
        """Whether a tensor with a known name is that of a site; where it is not, it is noted."""
        if not self._is_within(found) and tensor.name.startswith("blk."):
            self.beyond.append(tensor.name)
        elif not is_run(self.known.norms[found.index], self.section, found.numbers):
            self.idle.append(tensor.name)
        elif not is_vector(tensor):
            self.odd.append(tensor.name)
        else:
            return True
        return False

    def _is_within(self, found: Found) -> bool:
        """Whether the model itself runs a layer, or the norm is in none."""
        layers = self.section.get("num_hidden_layers")
        return not found.numbers or not isinstance(layers, int) or found.numbers[0] < layers

    def notes(self) -> Iterator[str]:
        """What is left out of the sites, and why."""
        if self.beyond:
            yield f"left out: {listed(self.beyond)}; the layer only predicts further tokens"
        if self.idle:
            yield f"left out: {listed(self.idle)}; their layers do not run them"
        if self.odd:
            yield f"left out: {listed(self.odd)}; gains are a row of numbers"


def _by_pattern(checkpoint: Checkpoint, why: str) -> Sites:
    tensors = checkpoint.tensors
    places = [place for name, place in tensors.items() if looks_like_a_norm(name, place, tensors) and is_vector(place)]
    if not places:
        return Sites(sites=(), architecture=None, notes=(f"{why}, and no tensor is named like a norm's gains",))
    eps = eps_of_checkpoint(checkpoint)
    names = [place.name.rpartition(".")[0] for place in places]
    sites = [said_by(p, eps, LLAMA).site(name, name) for name, p in zip(names, places, strict=True)]
    return Sites(sites=tuple(sorted(sites, key=in_order)), architecture=None, notes=(unknown_note(why),))


def _problem(checkpoint: Checkpoint, says: str, kind: str) -> InputProblem:
    return InputProblem([Problem(path=printable(str(checkpoint.path)), says=says, kind=kind)])
