"""One portion of the work on a model, which any executor can run: plain values in, plain values out.

What depends on the inputs and the words alone is shared by all sites of a portion. Portions are cut by the sites, never
by the number of workers, so that the result does not depend on who ran what.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rmsaudit import battery, gate
from rmsaudit.arrays import Array, bits
from rmsaudit.battery import Setup, Skipped
from rmsaudit.case import Case
from rmsaudit.emulator import emulate_each
from rmsaudit.measure.distance import Apart, apart, distance
from rmsaudit.measure.limits import Limit
from rmsaudit.measure.statistics import measure
from rmsaudit.measure.violations import count_violations
from rmsaudit.oracle import oracle_each
from rmsaudit.results import Tally, finite_range, most_different, ratio_of_element, ratios_of, worst_of
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted
from rmsaudit.tolerance import Policy, Ratio

OWN_GAINS = "gains"
"""The category that brings gains of its own. A model has its gains, so it is left out unless it is asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteGains:
    """A site's name and the gains [width] of both sides as stored; None for a side without any."""

    name: str
    reference: Array | None
    candidate: Array | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Portion:
    """Sites with the same two specs. judged: whether the oracle is asked although both sides agree."""

    reference: NormSpec
    candidate: NormSpec
    sites: tuple[SiteGains, ...]
    rows: int
    seed: int
    categories: tuple[str, ...]
    judged: bool
    policy: Policy | None

    @property
    def names(self) -> tuple[str, ...]:
        """Of its sites."""
        return tuple(site.name for site in self.sites)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One site in one category. violations: elements beyond the limit; None where no limit is asked of elements.

    nonfinite: counted where the policy forbids them. oracle_ulp: the farthest of each side from the oracle; None where
    no rule asks for it.
    """

    apart: Apart
    elements: int
    violations: int | None
    nonfinite: int
    oracle_ulp: tuple[int, int] | None

    def joined(self, other: "Cell") -> "Cell":
        """Both together."""
        one, two = self.apart, other.apart
        return Cell(
            apart=Apart(
                differing=one.differing + two.differing,
                mismatched=one.mismatched + two.mismatched,
                max_ulp=max(one.max_ulp, two.max_ulp),
                max_abs_error=max(one.max_abs_error, two.max_abs_error),
                max_rel_error=max(one.max_rel_error, two.max_rel_error),
            ),
            elements=self.elements + other.elements,
            violations=None if self.violations is None else self.violations + (other.violations or 0),
            nonfinite=self.nonfinite + other.nonfinite,
            oracle_ulp=_larger(self.oracle_ulp, other.oracle_ulp),
        )


def _larger(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    if one is None or other is None:
        return one or other
    return max(one[0], other[0]), max(one[1], other[1])


@dataclass(eq=False)
class Measured:
    """What a portion gave. together: over its sites, by category. cells: by site, then by category.

    fed: rows by category, those of one site.
    """

    together: dict[str, Tally] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    fed: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    tiers: dict[str, int] = field(default_factory=dict)


def chosen_categories(asked: tuple[str, ...] | None) -> tuple[str, ...]:
    """The categories that sites are fed: those that were asked for, else all but OWN_GAINS."""
    return asked or tuple(name for name in battery.names() if name != OWN_GAINS)


def run(portion: Portion) -> Measured:
    """Feeds the battery to every site of the portion."""
    measured = Measured(cells={site.name: {} for site in portion.sites})
    for built in battery.build(_setup(portion), portion.categories):
        if isinstance(built, Skipped):
            measured.skipped[built.name] = built.reason
            continue
        category, cases = built
        measured.fed[category.name] = sum(case.x.shape[0] for case in cases)
        for case in cases:
            run_case(portion, case, measured)
    return measured


def _setup(portion: Portion) -> Setup:
    first = portion.sites[0]
    gain = first.candidate if first.reference is None else first.reference
    return Setup(
        reference=portion.reference, candidate=portion.candidate, rows=portion.rows, seed=portion.seed, gain=gain
    )


def run_case(portion: Portion, case: Case, measured: Measured) -> None:
    """Both sides on one case under the gains of every site; what they return is [sites, rows, width]."""
    specs = fitted(portion.reference, case.width), fitted(portion.candidate, case.width)
    gains = [_fed(case, site) for site in portion.sites]
    outputs = tuple(emulate_each(spec, case, each) for spec, each in zip(specs, zip(*gains, strict=True), strict=True))
    reference, candidate = outputs
    asked = [portion.judged or _differ(one, other) for one, other in zip(reference, candidate, strict=True)]
    exact = dict.fromkeys(np.flatnonzero(asked).tolist(), np.empty(0))
    for number, answer in zip(exact, oracle_each(specs[0], case, [gains[n][0] for n in exact]), strict=True):
        exact[number] = answer.values
        for tier, count in vars(answer.tiers).items():
            measured.tiers[tier] = measured.tiers.get(tier, 0) + count
    violations = _add_cells(portion, case, (reference, candidate), exact, measured)
    added = _all_sites(portion, specs[0], case, (reference, candidate), exact)
    added.violations = violations
    if exact:
        truth = np.concatenate(list(exact.values()))
        added.reference, added.candidate = (
            distance(side[list(exact)].reshape(truth.shape), truth) for side in (reference, candidate)
        )
    measured.together.setdefault(case.category, Tally(case.category)).merge(added)


def _fed(case: Case, site: SiteGains) -> tuple[Array, Array]:
    """The gains of both sides for this case."""
    if case.category == OWN_GAINS:
        return case.gain, case.gain
    reference, candidate = (
        case.gain if gain is None else _at(gain, case.width) for gain in (site.reference, site.candidate)
    )
    return reference, candidate


def _at(gain: Array, width: int) -> Array:
    return gain if gain.size == width else np.resize(gain, width)


def _differ(one: Array, other: Array) -> bool:
    return not np.array_equal(bits(one), bits(other))


def _add_cells(
    portion: Portion, case: Case, outputs: tuple[Array, Array], exact: Mapping[int, Array], measured: Measured
) -> int | None:
    """Adds the case to the cells of all sites. Gives back how many elements of all are beyond the limit, if any is
    asked. exact: the oracle's values by the site's number."""
    policy = portion.policy
    row = None if policy is None else policy.row_for(case.category, portion.reference.output_dtype)
    limit = None if row is None else gate.elementwise(row)
    total = 0
    for number, (site, one, other) in enumerate(zip(portion.sites, *outputs, strict=True)):
        found = apart(one, other)
        cell = Cell(
            apart=found,
            elements=one.size,
            violations=None if limit is None else _violations(found, one, other, limit),
            nonfinite=_nonfinite(one, other) if policy is not None and policy.nonfinite == "forbid" else 0,
            oracle_ulp=_far(exact[number], one, other) if isinstance(row, Ratio) and number in exact else None,
        )
        cells = measured.cells[site.name]
        before = cells.get(case.category)
        cells[case.category] = cell if before is None else before.joined(cell)
        total += cell.violations or 0
    return None if limit is None else total


def _nonfinite(one: Array, other: Array) -> int:
    return int(np.count_nonzero(~(np.isfinite(one) & np.isfinite(other))))


def _far(exact: Array, one: Array, other: Array) -> tuple[int, int]:
    return distance(one, exact).max_ulp, distance(other, exact).max_ulp


def _violations(found: Apart, reference: Array, candidate: Array, limit: Limit) -> int:
    """Counted only where something differs; under `exact`, a sign of zero is something."""
    if not found.differing and limit.rule != "exact":
        return 0
    return count_violations(reference, candidate, limit)


def _all_sites(
    portion: Portion, spec: NormSpec, case: Case, outputs: tuple[Array, Array], exact: Mapping[int, Array]
) -> Tally:
    """The case over all sites at once. An element's row then tells its site as well."""
    label = f"{portion.sites[0].name}: {case.label}"  # no other portion begins with this site
    found = measure(*(each.reshape(-1, case.width) for each in outputs), case=label)
    ratios = ratios_of(spec, case)
    spread = ratio_of_element(ratios, spec, case)
    tally = Tally(case.category, measurement=found, ratios=finite_range(ratios))
    for each in most_different(found):
        number, row = divmod(each.row, case.x.shape[0])
        name = ": ".join(word for word in (portion.sites[number].name, case.label) if word)
        tally.named[each.place] = worst_of(replace(each, row=row, case=name), case, exact.get(number), spread)
    return tally


def merged(all_: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """The tallies of many portions as one a category."""
    together: dict[str, Tally] = {}
    for tallies in all_:
        for name, tally in tallies.items():
            together.setdefault(name, Tally(name)).merge(tally)
    return together
