"""The audit: two sides and a battery in, one acceptance record out.

A function of its arguments: no clock, no environment, no printing. What it needs to know of those is handed in.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from rmsaudit import battery, findings, gain_findings, gate, kept_rows
from rmsaudit.arrays import Array, hex_of, round_to, word_of
from rmsaudit.battery import Category, Setup, Skipped
from rmsaudit.belief import BeliefTally
from rmsaudit.case import Case
from rmsaudit.errors import CouldNotRun
from rmsaudit.evidence import Gathering
from rmsaudit.ladder import GAIN, Climb, Ladder, differing, plan
from rmsaudit.loaders import Failed, Ran, Side, only_width
from rmsaudit.loaders.spec import Declared
from rmsaudit.measure import limits
from rmsaudit.measure.violations import count_violations
from rmsaudit.oracle import Answer, oracle
from rmsaudit.record import (
    AcceptanceRecord,
    Battery,
    BatteryCategory,
    Behaviour,
    CategoryResult,
    Difference,
    Dtypes,
    DtypesOfBoth,
    Environment,
    Finding,
    OracleWork,
    Pair,
    Replay,
    Rung,
    SideName,
    SideRecord,
    Tool,
)
from rmsaudit.results import Tally
from rmsaudit.semantics import NormSpec
from rmsaudit.semantics.eps import effective
from rmsaudit.semantics.resolve import fitted
from rmsaudit.summary import scope_of, summarise
from rmsaudit.tolerance import Policy

if TYPE_CHECKING:
    from rmsaudit.explain import Starts

ERROR_DEFINITION = {
    "d": "candidate - reference, elementwise, in float64 on the exact values",
    "max_abs_error": "max |d| over the finite elements",
    "max_rel_error": "max |d| / |reference| where the reference is not 0; the others are counted as zero_reference",
    "ulp": "steps along the ordered values of the output dtype (the coarser one, where they differ)",
    "oracle": "the exact result of the reference's formula on the same inputs, rounded once to the output dtype",
    "q_over_eps": "mean square of the row / the mean square at which the reference's eps acts as strongly as the row",
}


@dataclass(frozen=True, kw_only=True)
class Party:
    """One side, ready to run. describe: asked once, after everything ran, for what the record says of it."""

    side: Side
    describe: Callable[[], SideRecord]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which inputs, and whether the ladder is climbed. categories: None for all of them.

    behaviours: whether sides that run code are also asked how they behave beside their numbers. explain: whether a side
    that does not compute what it declares is explained.
    """

    rows: int = 16
    seed: int = 0
    categories: tuple[str, ...] | None = None
    ladder: bool = True
    behaviours: bool = True
    explain: bool = True


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the audit may not look up itself."""

    version: str
    today: date
    environment: Environment
    replay: Replay


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The policy to judge by, with the digest of its file."""

    policy: Policy | None = None
    digest: str | None = None


Notify = Callable[[str], None]
Papers = tuple[SideRecord, SideRecord]
EFFORT = 12
LEAST_EFFORT, NARROW_EFFORT, NARROW = 20_000_000, 100_000_000, 1024
"""How many elements a search may emulate: EFFORT times those that were compared, and at least LEAST_EFFORT, or
NARROW_EFFORT at widths up to NARROW, where they cost little: with a fifth of it, 11 of 50 composites stayed open."""
SETTINGS = ("engine", "optimization", "threads", "device", "arrays")
SIDES: tuple[SideName, SideName] = ("reference", "candidate")


def run(
    reference: Party,
    candidate: Party,
    chosen: Plan,
    *,
    facts: Facts,
    judgement: Judgement,
    notify: Notify = lambda _: None,
    presets: "Callable[[], Starts]" = dict,
) -> AcceptanceRecord:
    """The record of comparing `candidate` with `reference`.

    notify: called with the name of each category before it runs. presets: declared words by name, which an explanation
    may begin from; asked for when one is searched. Raises CouldNotRun where the widths differ.
    """
    if reference.side.spec.width != candidate.side.spec.width:
        widths = f"{reference.side.spec.width} and {candidate.side.spec.width}"
        raise CouldNotRun(f"the two sides have different widths ({widths}); nothing can be compared")
    work = _Work(reference, candidate, chosen, judgement, presets)
    for built in battery.build(work.setup, chosen.categories):
        if isinstance(built, Skipped):
            work.skip(built)
            continue
        category, cases = built
        notify(category.name)
        work.run_category(category, cases)
    if chosen.behaviours:
        work.look_at_behaviours(notify)
    record = _record(work, facts)
    judged = gate.judge(record, judgement.policy, digest=judgement.digest, today=facts.today)
    judged = _with_rounding(work, judged)
    return judged.model_copy(update={"summary": summarise(judged)})


@dataclass(frozen=True, eq=False)
class Gains:
    """The gains [width] that each side brings; None for the battery's own."""

    reference: Array | None
    candidate: Array | None

    @cached_property
    def differ(self) -> bool:
        """True where both sides bring gains, and not the same ones."""
        if self.reference is None or self.candidate is None:
            return False
        wide = self.reference.astype(np.float64), self.candidate.astype(np.float64)
        return not np.array_equal(*wide, equal_nan=True)

    def for_candidate(self, case: Case) -> Case:
        """The same input under the candidate's own gains, where both sides bring different ones."""
        if not self.differ or self.candidate is None or case.category == "gains":
            return case
        return case.with_gain(np.resize(self.candidate, case.width))


def setup_of(specs: tuple[NormSpec, NormSpec], gains: Gains, chosen: Plan, *, only_width: str | None = None) -> Setup:
    """What the battery is built for. only_width: why no other width than the declared one can be fed, if so."""
    gain = gains.candidate if gains.reference is None else gains.reference
    return Setup(
        reference=specs[0],
        candidate=specs[1],
        rows=chosen.rows,
        seed=chosen.seed,
        gain=gain,
        only_width=only_width,
    )


@dataclass
class _Work:
    """One audit on its way: what has been seen so far."""

    reference: Party
    candidate: Party
    chosen: Plan
    judgement: Judgement
    presets: "Callable[[], Starts]"
    results: dict[str, CategoryResult] = field(default_factory=dict)
    fed: dict[str, BatteryCategory] = field(default_factory=dict)
    tiers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OracleWork.model_fields, 0))
    ran: set[str] = field(default_factory=set)
    elements: int = 0
    returned: dict[str, str] = field(default_factory=dict)  # the output dtype of a side that does not keep to its own
    behaved: dict[str, dict[str, Behaviour]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sides = self.reference.side, self.candidate.side
        self.specs = sides[0].spec, sides[1].spec
        self.gains = Gains(*(side.gain for side in sides))
        self.gains_differ = self.gains.differ
        self.rungs = (
            plan(self.reference.side.declared, self.candidate.side.declared, gains_differ=self.gains_differ)
            if self.chosen.ladder
            else ()
        )
        self.ladder = Ladder(self.rungs)
        self.beliefs = {
            name: BeliefTally(party.side.spec)
            for name, party in (("reference", self.reference), ("candidate", self.candidate))
            if not isinstance(party.side, Declared)
        }
        self.kept: list[kept_rows.Kept] = []
        self.gathering = Gathering(self.specs[0].width) if self.chosen.explain and self.beliefs else None
        self.setup = setup_of(self.specs, self.gains, self.chosen, only_width=only_width(sides))

    def skip(self, skipped: Skipped) -> None:
        """Notes a category, or the part of one that has just run, that could not be built."""
        before = self.fed.get(skipped.name, BatteryCategory())
        reasons = [reason for reason in (before.skipped, skipped.reason) if reason]
        self.fed[skipped.name] = before.model_copy(update={"skipped": "; ".join(reasons)})

    def run_category(self, category: Category, cases: Iterable[Case]) -> None:
        tally = Tally(category.name)
        digests = []
        rows = 0
        for case in cases:
            digests.append(case.digest())
            rows += case.x.shape[0]
            self._run_case(tally, case)
        self.fed[category.name] = BatteryCategory(rows=rows, digest=_joined(digests), reveals=category.reveals)
        self.results[category.name] = tally.result(self.specs[0].output_dtype)

    def look_at_behaviours(self, notify: Notify) -> None:
        """Asks each side that runs code, unless the battery has shown that it cannot be run."""
        from rmsaudit import behaviours

        for name in self.beliefs:
            if self.results and name not in self.ran:
                continue
            notify(f"behaviour of the {name}")
            side = (self.reference if name == "reference" else self.candidate).side
            self.behaved[name] = {
                behaviour: Behaviour(verdict=seen.verdict, says=seen.says)
                for behaviour, seen in behaviours.look_at(side, seed=self.chosen.seed)
            }

    def _run_case(self, tally: Tally, case: Case) -> None:
        outputs = []
        for name, party, fed in (
            ("reference", self.reference, case),
            ("candidate", self.candidate, self.gains.for_candidate(case)),
        ):
            seen = party.side.observe(fed)
            match seen:
                case Ran(output):
                    self.ran.add(name)
                    outputs.append(output)
                    if word_of(output) != party.side.spec.output_dtype:
                        self.returned[name] = word_of(output)
                    if name in self.beliefs:
                        self.beliefs[name].add(fed, output)
                case Failed(says):
                    tally.failures.append(f"{name}, {case.label or case.category}: {says}")
        if len(outputs) == 2:
            self._compare(tally, case, (outputs[0], outputs[1]))

    def _compare(self, tally: Tally, case: Case, outputs: tuple[Array, Array]) -> None:
        spec = fitted(self.specs[0], case.width)
        tally.add(spec, case, outputs, self._answers(spec, case, outputs))
        self.elements += case.x.size
        if self.gathering is not None:
            self.gathering.add(self.gains.for_candidate(case), *outputs)
        if self.chosen.explain and self.gains.for_candidate(case) is case:
            self.kept.append(kept_rows.kept(case, *outputs))
        if self.rungs:
            self.ladder.climb(case, self.gains.for_candidate(case).gain, *outputs)
        limit = self._limit(case.category, tally)
        if limit is not None:
            tally.violations = (tally.violations or 0) + count_violations(*outputs, limit)

    def ask(self, case: Case) -> tuple[Array, Array] | None:
        """What both sides return for one more input, or None where one of them fails."""
        first, second = self.reference.side.observe(case), self.candidate.side.observe(self.gains.for_candidate(case))
        return (first.output, second.output) if isinstance(first, Ran) and isinstance(second, Ran) else None

    def _limit(self, category: str, tally: Tally) -> limits.Limit | None:
        """What is asked of each element of the category, where anything is."""
        if self.judgement.policy is None or tally.measurement is None:
            return None
        row = self.judgement.policy.row_for(category, tally.measurement.unit)
        return None if row is None else gate.elementwise(row)

    def _answers(self, spec: NormSpec, case: Case, outputs: tuple[Array, Array]) -> tuple[Answer, Answer]:
        """The oracle in the output dtype of each side; worked out once where they are the same."""
        words = [word_of(output) for output in outputs]
        first = self._answer(spec, case, words[0])
        return first, first if words[0] == words[1] else self._answer(spec, case, words[1])

    def _answer(self, spec: NormSpec, case: Case, dtype: str) -> Answer:
        answer = oracle(spec, case, dtype=dtype)
        for tier in self.tiers:
            self.tiers[tier] += getattr(answer.tiers, tier)
        return answer


def _joined(digests: list[str]) -> str:
    """One digest for the cases of a category, in order."""
    import hashlib

    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


# --- putting the record together -------------------------------------------------------------------------------------


def _record(work: _Work, facts: Facts) -> AcceptanceRecord:
    spec = work.specs[0]
    papers = _described(work, "reference", work.reference), _described(work, "candidate", work.candidate)
    rungs, found = _ladder_and_findings(work, papers)
    return AcceptanceRecord(
        tool=Tool(name="rmsaudit", version=facts.version),
        outcome="not_judged" if _both_ran(work) else "could_not_run",
        summary="",
        scope=scope_of(len(work.results), papers[0].kind, papers[1].kind),
        findings=found,
        dimension=spec.width,
        axes=spec.axes,
        dtypes=DtypesOfBoth(
            reference=_dtypes(work.specs[0], work.returned.get("reference")),
            candidate=_dtypes(work.specs[1], work.returned.get("candidate")),
        ),
        differing=_differences(work, papers),
        error_definition=ERROR_DEFINITION,
        ladder=rungs,
        results=work.results,
        gate=None,
        reference=papers[0],
        candidate=papers[1],
        battery=Battery(version=battery.VERSION, seed=work.chosen.seed, rows=work.chosen.rows, categories=work.fed),
        oracle=OracleWork(**work.tiers),
        environment=facts.environment,
        replay=facts.replay,
    )


def _with_rounding(work: _Work, judged: AcceptanceRecord) -> AcceptanceRecord:
    """With whether rounding explains what differs; of two declared sides, where they are accepted all the same."""
    if not work.chosen.explain or not (work.beliefs or judged.outcome.startswith("accepted")):
        return judged
    from rmsaudit.rounding import Question

    any_order = "reference" in work.beliefs, "candidate" in work.beliefs
    found = Question(*work.specs, any_order=any_order, kept=work.kept).finding()
    return judged if found is None else judged.model_copy(update={"findings": (*judged.findings, found)})


def _both_ran(work: _Work) -> bool:
    return not work.results or work.ran == {"reference", "candidate"}


def _dtypes(spec: NormSpec, returned: str | None) -> Dtypes:
    return Dtypes(
        input=spec.input_dtype,
        gain=spec.gain_dtype,
        compute=spec.compute_dtype,
        accumulate=spec.accumulate_dtype,
        output=returned or spec.output_dtype,
    )


def _described(work: _Work, name: str, party: Party) -> SideRecord:
    paper = party.describe()
    if name not in work.beliefs:
        return paper
    seen = {"belief": work.beliefs[name].result(), "behaviours": work.behaved.get(name, {})}
    return paper.model_copy(update=seen)


def _differences(work: _Work, papers: Papers) -> dict[str, Difference]:
    found = {
        each.variable: Difference(reference=each.reference, candidate=each.candidate, follows=each.follows)
        for each in differing(work.reference.side.declared, work.candidate.side.declared)
    }
    if "eps" in found or "eps_dtype" in found:
        with np.errstate(over="ignore"):  # an eps beyond its dtype acts as infinity, and is recorded so
            used = [hex_of(float(round_to(np.asarray(effective(s)), s.eps_dtype))) for s in work.specs]
        name = "eps" if "eps" in found else "eps_dtype"
        found[name] = found[name].model_copy(update={"reference_hex": used[0], "candidate_hex": used[1]})
    found |= _other_settings(papers)
    if work.gains_differ:
        names = [paper.gain.digest[:12] if paper.gain else "the side's own" for paper in papers]
        found[GAIN] = Difference(reference=names[0], candidate=names[1])
    return found


def _other_settings(papers: Papers) -> dict[str, Difference]:
    """Settings of a kind that are no variable of the formula and can change bits: an optimization level, threads."""
    sections = [paper.section for paper in papers]
    return {
        name: Difference(reference=sections[0][name], candidate=sections[1][name])
        for name in SETTINGS
        if all(name in section for section in sections) and sections[0][name] != sections[1][name]
    }


def _ladder_and_findings(work: _Work, papers: Papers) -> tuple[tuple[Rung, ...], tuple[Finding, ...]]:
    rungs: list[Rung] = []
    found: list[Finding] = []
    for planned in work.rungs:
        climbs = {name: work.ladder.climbs.get((planned.variable, name), Climb()) for name in work.results}
        climbed = findings.rung(planned, climbs, first=not rungs)
        rungs.append(climbed)
        one = findings.finding(climbed, climbs, _declared_at(papers, planned.variable))
        if one is not None:
            found.append(one)
    found.sort(key=lambda f: (-_largest_ulp(f, rungs), -f.explains))
    found = gain_findings.with_gains(found, work.gains.reference, work.gains.candidate)
    sides = findings.of_the_side("reference", papers[0]) + findings.of_the_side("candidate", papers[1])
    causes = _explained(work, papers)
    told = {each.cause for each in causes}
    return tuple(rungs), (*causes, *sides, *(each for each in found if each.cause not in told))


def _explained(work: _Work, papers: Papers) -> list[Finding]:
    """What explains a side that does not compute what it declares, and gains that look shifted already."""
    shifted = [
        each
        for name, paper, gain, spec in zip(
            SIDES, papers, (work.gains.reference, work.gains.candidate), work.specs, strict=True
        )
        for each in gain_findings.looks_shifted(name, paper, gain, spec.gain_offset)
    ]
    if work.gathering is None or not work.gathering.parts:
        return shifted
    from rmsaudit import explained
    from rmsaudit.explain import Effort

    parties = work.reference, work.candidate
    reference, candidate = (
        explained.Observed(
            name=name,
            words=party.side.declared,
            paper=paper,
            broken=paper.belief is not None and paper.belief.holds == "broken",
            ask=work.ask if work.chosen.behaviours else None,
        )
        for name, party, paper in zip(SIDES, parties, papers, strict=True)
    )
    least = NARROW_EFFORT if work.specs[0].width <= NARROW else LEAST_EFFORT
    effort = Effort(elements=max(least, EFFORT * work.elements))
    return explained.findings(reference, candidate, work.gathering.evidence(), work.presets, effort) + shifted


def _largest_ulp(finding: Finding, rungs: list[Rung]) -> int:
    rung = next(rung for rung in rungs if rung.variable == finding.variable)
    return max((errors.max_ulp for errors in rung.alone.values()), default=0)


def _declared_at(papers: Papers, variable: str) -> Pair:
    """Where each value stands: `file:line:column`, or the words for another source."""

    def source(paper: SideRecord) -> str | None:
        if variable == GAIN:
            return paper.gain.tensor if paper.gain else None
        return paper.resolved[variable].source.removeprefix("declared at ")

    return Pair(reference=source(papers[0]), candidate=source(papers[1]))
