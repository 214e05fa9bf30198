"""What is wrong with two models before any number: findings and rows of the table that need no run."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rmsaudit.model.explained import with_sites
from rmsaudit.model.names import compact
from rmsaudit.model_record import SiteEps, SiteFinding, SiteRow
from rmsaudit.record import Finding, Pair

if TYPE_CHECKING:
    from rmsaudit.model.matched import Matched


def findings(matched: "Matched") -> list[SiteFinding]:
    """Findings that need no number: sites of one side only, widths that do not fit, settings that deny each other."""
    found = [_alone(side, names, matched) for side, names in matched.alone.items() if names]
    found += [_unfit(name, own, other, matched) for name, own, other in matched.unfit]
    for side, model in zip(("reference", "candidate"), matched.models, strict=True):
        found += [_contradiction(side, model.name, says, list(model.sites), matched) for says in model.contradictions]
    return found


def _alone(side: str, names: Sequence[str], matched: "Matched") -> SiteFinding:
    other = "candidate" if side == "reference" else "reference"
    return with_sites(
        Finding(
            cause="site-missing",
            claim=f"The {other} has no gains for {len(names)} norm{'s' * (len(names) > 1)} of the {side}.",
            evidence=f"No tensor of the {other} maps to {', '.join(compact(names))}.",
            explains=0.0,
            declared_at=Pair(**{side: matched.models[side == "candidate"].name}),
            next_step="Look for the tensors under another name and give it with --map, or convert the model again: a"
            " runtime that does not find them may fill in ones.",
        ),
        names,
        matched.total,
    )


def _unfit(name: str, own: int, other: int, matched: "Matched") -> SiteFinding:
    return with_sites(
        Finding(
            cause="width",
            variable="width",
            reference_value=own,
            candidate_value=other,
            claim=f"The candidate's gains have {other} elements where the reference's have {own}.",
            evidence="Neither width is a multiple of the other, so no input fits both, and nothing was run.",
            explains=0.0,
            declared_at=Pair(reference=matched.models[0].name, candidate=matched.models[1].name),
            next_step="Check what this tensor is in the candidate: another norm, or one that was padded or cut.",
        ),
        [name],
        matched.total,
    )


def _contradiction(side: str, model: str, says: str, names: Sequence[str], matched: "Matched") -> SiteFinding:
    return with_sites(
        Finding(
            cause="settings-disagree",
            variable="eps",
            claim=f"The {side}'s settings contradict each other: {says}.",
            evidence="A runtime that reads the other field computes with the other value.",
            explains=0.0,
            declared_at=Pair(**{side: model}),
            next_step="Find out which of them the model was trained and evaluated with, and leave only that one.",
        ),
        names,
        matched.total,
    )


def rows(matched: "Matched") -> Iterable[SiteRow]:
    """Rows of the table for what could not be compared."""
    for side, names in matched.alone.items():
        sites = matched.models[side == "candidate"].sites
        if names:
            first = sites[names[0]]
            stored = (first.stored, None) if side == "reference" else (None, first.stored)
            yield SiteRow(
                sites=compact(names), count=len(names), verdict="unpaired", because=f"in the {side} only",
                width=first.spec.width, stored=stored, eps=SiteEps(), gains="on one side only", compared="not_run",
            )  # fmt: skip
    for name, own, other in matched.unfit:
        yield SiteRow(
            sites=(name,), count=1, verdict="unpaired", because=f"width {other} in the candidate",
            width=own, stored=(None, None), eps=SiteEps(), gains=f"of another width: {other} for {own}",
            compared="not_run",
        )  # fmt: skip
