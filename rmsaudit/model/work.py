"""One portion of the work on a model, which any executor can run: plain values in, plain values out.

What depends on the inputs and the words alone is shared by all sites of a portion. Portions are cut by the sites, never
by the number of workers, so that the result does not depend on who ran what.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rmsaudit import battery, gate
from rmsaudit.arrays import Array
from rmsaudit.battery import Setup, Skipped
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.ladder import unequal
from rmsaudit.measure.violations import count_violations
from rmsaudit.oracle import oracle
from rmsaudit.results import Tally
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


@dataclass(eq=False)
class Measured:
    """What a portion gave. tallies: by site, then by category. fed: rows by category, those of one site."""

    tallies: dict[str, dict[str, Tally]] = field(default_factory=dict)
    fed: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    tiers: dict[str, int] = field(default_factory=dict)


def chosen_categories(asked: tuple[str, ...] | None) -> tuple[str, ...]:
    """The categories that sites are fed: those that were asked for, else all but OWN_GAINS."""
    return asked or tuple(name for name in battery.names() if name != OWN_GAINS)


def run(portion: Portion) -> Measured:
    """Feeds the battery to every site of the portion."""
    measured = Measured(tallies={site.name: {} for site in portion.sites})
    for built in battery.build(_setup(portion), portion.categories):
        if isinstance(built, Skipped):
            measured.skipped[built.name] = built.reason
            continue
        category, cases = built
        measured.fed[category.name] = sum(case.x.shape[0] for case in cases)
        for case in cases:
            _run_case(portion, case, measured)
    return measured


def _setup(portion: Portion) -> Setup:
    first = portion.sites[0]
    gain = first.candidate if first.reference is None else first.reference
    return Setup(
        reference=portion.reference, candidate=portion.candidate, rows=portion.rows, seed=portion.seed, gain=gain
    )


def _run_case(portion: Portion, case: Case, measured: Measured) -> None:
    specs = fitted(portion.reference, case.width), fitted(portion.candidate, case.width)
    for site in portion.sites:
        fed = _fed(case, site)
        outputs = emulate(specs[0], fed[0]), emulate(specs[1], fed[1])
        tally = measured.tallies[site.name].setdefault(case.category, Tally(case.category))
        _compare(portion, specs[0], fed[0], outputs, tally, measured.tiers)


def _fed(case: Case, site: SiteGains) -> tuple[Case, Case]:
    """The case as each side gets it, labelled with its site."""
    case = replace(case, label=": ".join(word for word in (site.name, case.label) if word))
    if case.category == OWN_GAINS:
        return case, case
    reference, candidate = (
        case if gain is None else case.with_gain(_at(gain, case.width)) for gain in (site.reference, site.candidate)
    )
    return reference, candidate


def _at(gain: Array, width: int) -> Array:
    import numpy as np

    return gain if gain.size == width else np.resize(gain, width)


def _compare(
    portion: Portion, spec: NormSpec, case: Case, outputs: tuple[Array, Array], tally: Tally, tiers: dict[str, int]
) -> None:
    asked = portion.judged or bool(unequal(*outputs).any())
    answers = None
    if asked:
        answer = oracle(spec, case, dtype=portion.reference.output_dtype)
        for tier, count in vars(answer.tiers).items():
            tiers[tier] = tiers.get(tier, 0) + count
        answers = (answer, answer)
    tally.add(spec, case, outputs, answers)
    row = None if portion.policy is None else portion.policy.row_for(case.category, spec.output_dtype)
    limit = None if row is None else gate.elementwise(row)
    if limit is not None:
        tally.violations = (tally.violations or 0) + count_violations(*outputs, limit)


def merged(all_: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    """The tallies of many sites as one a category."""
    together: dict[str, Tally] = {}
    for tallies in all_:
        for name, tally in tallies.items():
            together.setdefault(name, Tally(name)).merge(tally)
    return together
