"""One portion of the work on a model, which any executor can run: plain values in, plain values out.

What depends on the inputs and the words alone is shared by all sites of a portion. Portions are cut by the sites, never
by the number of workers, so that the result does not depend on who ran what.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rmsaudit import battery, gate
from rmsaudit.arrays import Array, bits
from rmsaudit.battery import Setup, Skipped
from rmsaudit.case import Case
from rmsaudit.emulator import emulate_each
from rmsaudit.measure.distance import Apart, apart, distance
from rmsaudit.measure.limits import Limit
from rmsaudit.measure.measurement import Distance
from rmsaudit.measure.statistics import measure
from rmsaudit.measure.violations import count_violations
from rmsaudit.oracle import Answer, oracle_each
from rmsaudit.results import Tally, finite_range, most_different, ratio_of_element, ratios_of, worst_of
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.resolve import fitted
from rmsaudit.tolerance import Policy

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

    oracle_ulp: the farthest of each side from the oracle; None where that was not asked.
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
    answers = oracle_each(specs[0], case, [own for (own, _), ask in zip(gains, asked, strict=True) if ask])
    near: list[tuple[Distance, Distance] | None] = []
    exact: list[Array | None] = []
    for number, ask in enumerate(asked):
        answer = next(answers) if ask else None
        exact.append(None if answer is None else answer.values)
        near.append(None if answer is None else _near(answer, reference[number], candidate[number]))
        for tier, count in () if answer is None else vars(answer.tiers).items():
            measured.tiers[tier] = measured.tiers.get(tier, 0) + count
    violations = _add_cells(portion, case, (reference, candidate), near, measured)
    together = measured.together.setdefault(case.category, Tally(case.category))
    together.merge(_all_sites(portion, specs[0], case, (reference, candidate), exact))
    together.merge(Tally(case.category, violations=violations))
    for far in near:
        if far is not None:
            together.merge(Tally(case.category, reference=far[0], candidate=far[1]))


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


def _near(answer: Answer, reference: Array, candidate: Array) -> tuple[Distance, Distance]:
    return distance(reference, answer.values), distance(candidate, answer.values)


def _add_cells(
    portion: Portion,
    case: Case,
    outputs: tuple[Array, Array],
    near: Sequence[tuple[Distance, Distance] | None],
    measured: Measured,
) -> int | None:
    """Adds the case to the cells of all sites. Gives back how many elements of all are beyond the limit, if any is
    asked."""
    row = None if portion.policy is None else portion.policy.row_for(case.category, portion.reference.output_dtype)
    limit = None if row is None else gate.elementwise(row)
    total = 0
    for site, one, other, far in zip(portion.sites, *outputs, near, strict=True):
        found = apart(one, other)
        cell = Cell(
            apart=found,
            elements=one.size,
            violations=None if limit is None else _violations(found, one, other, limit),
            nonfinite=int(np.count_nonzero(~(np.isfinite(one) & np.isfinite(other)))),
            oracle_ulp=None if far is None else (far[0].max_ulp, far[1].max_ulp),
        )
        cells = measured.cells[site.name]
        before = cells.get(case.category)
        cells[case.category] = cell if before is None else before.joined(cell)
        total += cell.violations or 0
    return None if limit is None else total


def _violations(found: Apart, reference: Array, candidate: Array, limit: Limit) -> int:
    """Counted only where something differs; under `exact`, a sign of zero is something."""
    if not found.differing and limit.rule != "exact":
        return 0
    return count_violations(reference, candidate, limit)


def _all_sites(
    portion: Portion, spec: NormSpec, case: Case, outputs: tuple[Array, Array], exact: Sequence[Array | None]
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
        tally.named[each.place] = worst_of(replace(each, row=row, case=name), case, exact[number], spread)
    return tally


def merged(all_: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """The tallies of many portions as one a category."""
    together: dict[str, Tally] = {}
    for tallies in all_:
        for name, tally in tallies.items():
            together.setdefault(name, Tally(name)).merge(tally)
    return together
