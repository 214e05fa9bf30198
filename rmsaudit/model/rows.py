"""From many judged sites to the few rows of the record's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rmsaudit import gate
from rmsaudit.arrays import hex_of
from rmsaudit.model.names import compact
from rmsaudit.model.relation import Relation, by_how_much
from rmsaudit.model.sites import SitePair, SiteSide, eps_in_use
from rmsaudit.model.work import Cell
from rmsaudit.model_record import SiteEps, SiteRow, SiteWorst
from rmsaudit.tolerance import Policy, Ratio


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """A pair and what became of it. cells: by category, its own or those of the site that stands for it.

    rejected: why, by category; None where nothing was judged. same: whether both sides are one function.
    """

    pair: SitePair
    relation: Relation
    cells: Mapping[str, Cell]
    rejected: Mapping[str, str] | None
    same: bool

    @property
    def verdict(self) -> Literal["rejected", "accepted", "not_judged"]:
        if self.rejected is None:
            return "not_judged"
        return "rejected" if self.rejected else "accepted"

    @property
    def worst(self) -> tuple[str, Cell] | None:
        """The category that is farthest off; None where no element differs."""
        off = [(name, cell) for name, cell in self.cells.items() if cell.apart.differing]
        return max(off, key=lambda item: _how_far(item[1]), default=None)


def _how_far(cell: Cell) -> tuple[int, int, int]:
    return cell.apart.mismatched, cell.apart.max_ulp, cell.apart.differing


def rejections(cells: Mapping[str, Cell], policy: Policy | None, dtype: str) -> dict[str, str] | None:
    """Why each category of a site is rejected; None without a policy. dtype: of the outputs."""
    if policy is None:
        return None
    reasons = {name: _rejection(name, cell, policy, dtype) for name, cell in cells.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _rejection(name: str, cell: Cell, policy: Policy, dtype: str) -> str | None:
    """As `gate.judge` says of a whole category."""
    if cell.apart.mismatched:
        return f"{cell.apart.mismatched} outputs are NaN or infinite on one side only, or differently"
    if policy.nonfinite == "forbid" and name != gate.NONFINITE_BY_DESIGN and cell.nonfinite:
        return f"{cell.nonfinite} outputs are NaN or infinite, and the tolerance forbids them"
    limit = policy.row_for(name, dtype)
    if limit is None:
        return f"no row of the tolerance file covers category {name} with output dtype {dtype}"
    if isinstance(limit, Ratio):
        return None if _within_ratio(cell, limit) else "the candidate is farther from the oracle than the rule allows"
    if not cell.violations:
        return None
    return f"{cell.violations} of {cell.elements} elements are beyond the limit, by up to {cell.apart.max_ulp} ulp"


def _within_ratio(cell: Cell, limit: Ratio) -> bool:
    """The same outputs are equally far from anything; what was not measured otherwise is no pass."""
    if cell.oracle_ulp is None:
        return not cell.apart.differing
    return gate.within_ratio(limit, *cell.oracle_ulp)


def rows_of(sites: Sequence[Judged]) -> list[SiteRow]:
    """One row for sites that are alike, those that fail first, then by distance."""
    alike: dict[Any, list[Judged]] = {}
    for each in sites:
        alike.setdefault(_key(each), []).append(each)
    rows = [_row(group) for group in alike.values()]
    return sorted(rows, key=lambda row: (row.verdict != "rejected", *_distance(row.worst)))


def _distance(worst: SiteWorst | None) -> tuple[int, int]:
    """Sorts the farthest first."""
    return (1, 1) if worst is None else (-worst.nonfinite_mismatched, -worst.max_ulp)


def _key(site: Judged) -> Any:
    pair = site.pair
    return (
        pair.reference.spec.width, pair.reference.spec.groups, pair.candidate.spec.groups, site.verdict,
        pair.reference.stored, pair.candidate.stored, *_eps_values(pair), _words(site), site.same,
    )  # fmt: skip


def _words(site: Judged) -> str:
    """The relation; sites that carry the gains of other ones are alike, and so are those with other values."""
    if site.relation.kind == "of another site":
        return site.relation.kind
    return site.relation.says.partition(":")[0] if site.relation.kind == "other" else site.relation.says


def _row(group: Sequence[Judged]) -> SiteRow:
    first = group[0]
    farthest = max(group, key=lambda each: _how_far(each.worst[1]) if each.worst else (-1, -1, -1))
    says = first.relation.says if len(group) == 1 else _words(first)
    says += by_how_much(each.relation for each in group)
    return SiteRow(
        sites=compact(each.pair.name for each in group),
        count=len(group),
        verdict=first.verdict,
        because=_because(farthest),
        width=first.pair.reference.spec.width,
        groups=first.pair.reference.spec.groups if first.pair.reference.spec.groups != 1 else None,
        stored=(first.pair.reference.stored, first.pair.candidate.stored),
        eps=_eps([each.pair for each in group]),
        gains=f"{says} ({first.pair.note})" if first.pair.note else says,
        compared="same" if first.same else "run",
        worst=_worst(farthest),
        rejected_in=tuple(dict.fromkeys(name for each in group for name in each.rejected or ())),
    )


def _because(site: Judged) -> str | None:
    """The reason of the category that is farthest off, or else the first one."""
    if not site.rejected:
        return None
    category = site.worst[0] if site.worst and site.worst[0] in site.rejected else next(iter(site.rejected))
    return f"{category}: {site.rejected[category]}"


def _worst(site: Judged) -> SiteWorst | None:
    if site.worst is None:
        return None
    category, cell = site.worst
    return SiteWorst(
        site=site.pair.name,
        category=category,
        max_abs_error=cell.apart.max_abs_error,
        max_rel_error=cell.apart.max_rel_error,
        max_ulp=cell.apart.max_ulp,
        nonfinite_mismatched=cell.apart.mismatched,
    )


def _eps_values(pair: SitePair) -> tuple[float, float, str | None, str | None]:
    """eps of both sides, and in hex as they act."""
    specs = pair.reference.spec, pair.candidate.spec
    reference, candidate = (hex_of(float(eps_in_use(spec))) for spec in specs)
    return specs[0].eps, specs[1].eps, reference, candidate


def _eps(pairs: Sequence[SitePair]) -> SiteEps:
    """That of sites with the same values; hex where the two sides differ."""
    reference, candidate, *hexes = _eps_values(pairs[0])
    differ = hexes[0] != hexes[1]
    return SiteEps(
        reference=reference,
        candidate=candidate,
        reference_hex=hexes[0] if differ else None,
        candidate_hex=hexes[1] if differ else None,
        reference_source=_sources([pair.reference for pair in pairs]),
        candidate_source=_sources([pair.candidate for pair in pairs]),
    )


def _sources(sides: Sequence[SiteSide]) -> str | None:
    """Where eps was found; the first of several places, and how many more there are."""
    places = list(dict.fromkeys(side.source["eps"] for side in sides if "eps" in side.source))
    if len(places) <= 1:
        return places[0] if places else None
    return f"{places[0]}; and {len(places) - 1} places alike"
