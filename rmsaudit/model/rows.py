"""From many judged sites to the few rows of the record's table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rmsaudit.arrays import hex_of
from rmsaudit.model.names import compact
from rmsaudit.model.relation import Relation
from rmsaudit.model.sites import SitePair, eps_in_use
from rmsaudit.model_record import SiteEps, SiteRow, SiteWorst
from rmsaudit.record import CategoryResult


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """A pair and what became of it. cells: by category, its own or those of the site that stands for it.

    ran: whether it was fed itself. same: whether both sides are one function.
    """

    pair: SitePair
    relation: Relation
    cells: dict[str, CategoryResult]
    ran: bool
    same: bool

    @property
    def rejected_in(self) -> tuple[str, ...]:
        """The categories that were rejected."""
        return tuple(name for name, cell in self.cells.items() if cell.verdict == "rejected")

    @property
    def verdict(self) -> Any:
        """rejected where a category is; not_judged where none was judged."""
        if self.rejected_in:
            return "rejected"
        return "not_judged" if any(cell.verdict == "not_judged" for cell in self.cells.values()) else "accepted"

    @property
    def worst(self) -> tuple[str, CategoryResult] | None:
        """The category that is farthest off; None where no bit differs."""
        off = [(name, cell) for name, cell in self.cells.items() if cell.differing_share or cell.signed_zero]
        return max(off, key=lambda item: _how_far(item[1]), default=None)


def _how_far(cell: CategoryResult) -> tuple[int, int, float]:
    return cell.nonfinite.mismatched, cell.max_ulp, cell.differing_share


def rows_of(sites: Sequence[Judged]) -> list[SiteRow]:
    """One row for sites that are alike, those that fail first, then by distance."""
    alike: dict[Any, list[Judged]] = {}
    for each in sites:
        alike.setdefault(_key(each), []).append(each)
    rows = [_row(group) for group in alike.values()]
    return sorted(rows, key=lambda row: (row.verdict != "rejected", -(row.worst.max_ulp if row.worst else -1)))


def _key(site: Judged) -> Any:
    pair = site.pair
    return (
        pair.reference.spec.width, pair.reference.spec.groups, pair.candidate.spec.groups, site.verdict,
        pair.reference.stored, pair.candidate.stored, _eps(pair), _words(site), site.same,
    )  # fmt: skip


def _words(site: Judged) -> str:
    """The relation; sites that carry those of another one are alike, and so are those with other values."""
    return site.relation.says if site.relation.kind in ("same", "restated") else site.relation.kind


def _row(group: Sequence[Judged]) -> SiteRow:
    first = group[0]
    farthest = max(group, key=lambda each: _how_far(each.worst[1]) if each.worst else (-1, -1, 0.0))
    says = first.relation.says if len(group) == 1 else _words(first)
    return SiteRow(
        sites=compact(each.pair.name for each in group),
        count=len(group),
        verdict=first.verdict,
        because=next((cell.because for cell in farthest.cells.values() if cell.because), None),
        width=first.pair.reference.spec.width,
        groups=first.pair.reference.spec.groups if first.pair.reference.spec.groups != 1 else None,
        stored=(first.pair.reference.stored, first.pair.candidate.stored),
        eps=_eps(first.pair),
        gains=f"{says} ({first.pair.note})" if first.pair.note else says,
        compared="same" if first.same else "run",
        worst=_worst(farthest),
        rejected_in=first.rejected_in if len(group) == 1 else _all_rejected(group),
    )


def _all_rejected(group: Sequence[Judged]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in group for name in each.rejected_in))


def _worst(site: Judged) -> SiteWorst | None:
    if site.worst is None:
        return None
    category, cell = site.worst
    return SiteWorst(
        site=site.pair.name,
        category=category,
        max_abs_error=cell.max_abs_error,
        max_rel_error=cell.max_rel_error,
        max_ulp=cell.max_ulp,
        nonfinite_mismatched=cell.nonfinite.mismatched,
    )


def _eps(pair: SitePair) -> SiteEps:
    specs = pair.reference.spec, pair.candidate.spec
    used = [hex_of(float(eps_in_use(spec))) for spec in specs]
    differ = used[0] != used[1]
    return SiteEps(
        reference=specs[0].eps,
        candidate=specs[1].eps,
        reference_hex=used[0] if differ else None,
        candidate_hex=used[1] if differ else None,
        reference_source=pair.reference.source.get("eps"),
        candidate_source=pair.candidate.source.get("eps"),
    )
