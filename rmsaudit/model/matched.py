"""Two models and their norms, side by side: which belongs to which, and what one of them only has."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rmsaudit.arrays import Array
from rmsaudit.ladder import differing
from rmsaudit.model.names import compact
from rmsaudit.model.relation import Relation, digest_of_all, index, relate
from rmsaudit.model.sites import SitePair, SiteSide, over_heads
from rmsaudit.model_record import ModelSide

IN_ORDER = "its norms share no name with the reference's; they were paired in the order of both models, by equal widths"


@dataclass(frozen=True, kw_only=True)
class Model:
    """One side. sites: by name, in the order of the model. contradictions: settings of it that deny each other."""

    name: str
    format: str
    architecture: str | None
    sites: Mapping[str, SiteSide]
    files: Mapping[str, str]
    contradictions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> "Model":
        """The same, its sites in the same order under other names; those that `names` does not have keep their own."""
        return replace(self, sites={names.get(name, name): site for name, site in self.sites.items()})

    def paper(self, *notes: str) -> ModelSide:
        """What the record says of it, with more notes."""
        return ModelSide(
            name=self.name,
            format=self.format,
            architecture=self.architecture,
            norms=len(self.sites),
            files=dict(self.files),
            gains=digest_of_all(site.gain for site in self.sites.values()),
            notes=(*self.notes, *self._nonfinite(), *notes),
        )

    def _nonfinite(self) -> Iterator[str]:
        """A sentence on gains that are no numbers, which make a norm return none."""
        names = [name for name, site in self.sites.items() if site.gain is not None and not _is_finite(site.gain)]
        if names:
            yield f"gains with NaN or an infinity: {', '.join(compact(names))}"


class Matched:
    """The sites of both models, side by side.

    pairs: what can be compared. in_order: no name was shared, and the norms were paired in the order of the models,
    which has the same widths on both sides. alone: names that one side only has. unfit: pairs whose widths have nothing
    to do with each other, with both widths.
    """

    def __init__(self, reference: Model, candidate: Model) -> None:
        self.models = reference, candidate
        self.pairs: list[SitePair] = []
        self.unfit: list[tuple[str, int, int]] = []
        partners = _partners(reference.sites, candidate.sites)
        self.in_order = not partners and _widths(reference) == _widths(candidate)
        if self.in_order:
            partners = dict(zip(reference.sites, candidate.sites, strict=True))
        for name, partner in partners.items():
            self._match(name, reference.sites[name], candidate.sites[partner])
        taken = set(partners.values())
        self.alone = {
            "reference": tuple(name for name in reference.sites if name not in partners),
            "candidate": tuple(name for name in candidate.sites if name not in taken),
        }

    def _match(self, name: str, reference: SiteSide, candidate: SiteSide) -> None:
        widths = reference.spec.width, candidate.spec.width
        if widths[0] == widths[1]:
            self.pairs.append(SitePair(name=name, reference=reference, candidate=candidate))
            return
        both = over_heads(reference, candidate)
        if both is None:
            self.unfit.append((name, *widths))
            return
        note = f"width {widths[1]} where the reference has {widths[0]}"
        self.pairs.append(SitePair(name=name, reference=both[0], candidate=both[1], note=note))

    @property
    def total(self) -> int:
        """Sites of both sides together."""
        return len(self.pairs) + len(self.unfit) + sum(map(len, self.alone.values()))

    @property
    def broken(self) -> tuple[str, ...]:
        """What is wrong before any number, in sentences."""
        lines = [f"{', '.join(compact(names))}: in the {side} only" for side, names in self.alone.items() if names]
        lines += [f"{name}: width {other} in the candidate, {own} in the reference" for name, own, other in self.unfit]
        for side, model in zip(("reference", "candidate"), self.models, strict=True):
            lines += [f"{side}: {says}" for says in model.contradictions]
        return tuple(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the pairs, in sentences about the candidate."""
        reference, candidate = (model.architecture for model in self.models)
        others = reference is not None and candidate is not None and reference != candidate
        other = f"its architecture is called {candidate}, and the reference's {reference}"
        return (*([other] if others else []), *([IN_ORDER] if self.in_order else []))

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """What the candidate's gains are of the reference's, by site."""
        known = index(self.pairs)
        return {pair.name: relate(pair, known) for pair in self.pairs}

    @cached_property
    def kinds(self) -> dict[Any, list[SitePair]]:
        """Pairs that differ in the same way: in the same variables by the same values, and in the same relation."""
        found: dict[Any, list[SitePair]] = {}
        for pair in self.pairs:
            if not pair.is_same:
                found.setdefault(self._kind(pair), []).append(pair)
        return found

    def _kind(self, pair: SitePair) -> Any:
        both = pair.restated
        moved = differing(both.reference.declared, both.candidate.declared)
        relation = self.relations[pair.name]
        says = relation.says if relation.kind == "restated" else relation.kind
        return says, *((each.variable, each.reference, each.candidate) for each in moved)


def _partners(reference: Mapping[str, SiteSide], candidate: Mapping[str, SiteSide]) -> dict[str, str]:
    """The candidate's name of each site of the reference that it has: the same one, else the one alike below the root
    of the model, where only one site of each side is."""
    left = [name for name in candidate if name not in reference]
    below = {path: names for path, names in _by_path(candidate, left).items() if len(names) == 1}
    own = _by_path(reference, (name for name in reference if name not in candidate))
    found = {}
    for name, site in reference.items():
        if name in candidate:
            found[name] = name
        elif len(own.get(site.below, ())) == 1 and site.below in below:
            found[name] = below[site.below][0]
    return found


def _widths(model: Model) -> list[int]:
    return [site.spec.width for site in model.sites.values()]


def _by_path(sites: Mapping[str, SiteSide], names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        if sites[name].below:
            found.setdefault(sites[name].below, []).append(name)
    return found


def _is_finite(gain: Array) -> bool:
    return bool(np.isfinite(gain).all())


def nothing_in_common(matched: Matched) -> str:
    """Why nothing can be compared, and what to do about it."""
    reference, candidate = (model.name for model in matched.models)
    if matched.unfit:
        name, own, other = matched.unfit[0]
        why = f"where names meet, widths do not ({name}: {other} for {own}); check that both are the same model"
    else:
        names = (compact(each.sites)[0] for each in matched.models)
        why = "names are {1} where the reference has {0}; pair them with --map, or check that both are the same model"
        why = why.format(*names)
    return f"no norm of {candidate} has a counterpart in {reference}: {why}"
