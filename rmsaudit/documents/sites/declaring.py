"""What a checkpoint says of one site, and where it says it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from rmsaudit.documents.eps import FoundEps
from rmsaudit.documents.problems import printable, quoted
from rmsaudit.documents.sites import Site
from rmsaudit.documents.sites.architecture import OFFSETS
from rmsaudit.documents.tensors import TensorPlace
from rmsaudit.formats import FORMATS

_SHOWN = 3
FOLDED = "llama.cpp's conversion added 1 to the stored gains"


@dataclass(frozen=True)
class Said:
    """A site before it has a name: its variables, and for each where its value is from."""

    tensor: TensorPlace | None
    preset: str
    eps: FoundEps
    declared: Mapping[str, Any]
    source: Mapping[str, str]

    def also(self, variable: str, value: Any, source: str) -> "Said":
        """The same, with one variable more."""
        return replace(self, declared={**self.declared, variable: value}, source={**self.source, variable: source})

    def site(self, name: str, below: str, note: str = "") -> Site:
        """The site, under its name."""
        return Site(
            name=name,
            tensor=self.tensor,
            preset=self.preset,
            declared=self.declared,
            eps=self.eps,
            source=self.source,
            below=below,
            note=note,
        )


def is_vector(tensor: TensorPlace) -> bool:
    """Whether a tensor can be the gains of one norm: numbers in a row, with other axes of length 1 at most."""
    return prod(tensor.shape) == max(tensor.shape, default=0) > 0


def said_by(tensor: TensorPlace, eps: FoundEps, preset: str, *, folded: bool = False) -> Said:
    """Of a site with gains. folded: what `preset` would add to them is in them already."""
    at = printable(f"{tensor.path.name}: {tensor.name}")
    width = prod(tensor.shape)
    declared: dict[str, Any] = {"width": width, "eps": eps.value}
    source = {"width": f"{at}, {width} elements", "eps": eps.source}
    if tensor.dtype in FORMATS:
        declared["gain_dtype"], source["gain_dtype"] = tensor.dtype, at
    if preset in OFFSETS:
        declared["gain_offset"] = 0.0 if folded else OFFSETS[preset]
        source["gain_offset"] = FOLDED if folded else f"preset {preset}"
    return Said(tensor, preset, eps, declared, source)


def said_beside(width: int, eps: FoundEps, preset: str, source: str) -> Said:
    """Of a site without gains. source: where its width is from."""
    declared = {"width": width, "eps": eps.value, "gain_applied": False}
    sources = {"width": source, "eps": eps.source, "gain_applied": "the model class gives it no gain"}
    return Said(None, preset, eps, declared, sources)


def listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(quoted(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
