"""The audit of a whole model: the sites of both sides in, one record out.

A function of its arguments, as `rmsaudit.audit`: no clock, no environment, no printing. The work goes through whatever
executor is handed in, and the record does not depend on which one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmsaudit import battery, gate
from rmsaudit.audit import ERROR_DEFINITION, Facts, Judgement
from rmsaudit.categories import REAL_ROWS
from rmsaudit.errors import CouldNotRun, InputProblem, Problem
from rmsaudit.formats import FORMATS
from rmsaudit.model import explained, structure, weighing, work
from rmsaudit.model.executing import results_of
from rmsaudit.model.matched import Matched, Model, nothing_in_common
from rmsaudit.model.relation import digest
from rmsaudit.model.rows import Judged, rejections, rows_of
from rmsaudit.model.sites import SitePair, SiteSide
from rmsaudit.model.work import Cell, Measured, Portion, SiteGains
from rmsaudit.model_record import ModelRecord, RealRowsRecord, SiteFinding
from rmsaudit.model_summary import scope_of, summarise
from rmsaudit.record import Battery, BatteryCategory, CategoryResult, OracleWork, Tool
from rmsaudit.results import Tally

if TYPE_CHECKING:
    from rmsaudit.documents.tensors import TensorPlace

SITES_PER_PORTION = 32
MOST_TOLD = 3  # tensors in one message


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which inputs. dtype: of the inputs and outputs of every norm. categories: None for all but `gains`,
    whose place the gains of the model take.
    """

    dtype: str = "float32"
    rows: int = 4
    seed: int = 0
    categories: tuple[str, ...] | None = None


Notify = Callable[[str], None]


def run(
    reference: Model,
    candidate: Model,
    chosen: Plan,
    *,
    facts: Facts,
    judgement: Judgement,
    executor: Executor,
    notify: Notify = lambda _: None,
    real_rows: "Mapping[str, TensorPlace] | None" = None,
) -> ModelRecord:
    """The record of comparing every norm of `candidate` with its counterpart in `reference`.

    real_rows: tensors of them, by the path of the norm that they entered.
    Raises CouldNotRun where no norm is found on both sides, InputProblem where no tensor of rows fits one.
    """
    matched = Matched(reference, candidate)
    if not matched.pairs:
        raise CouldNotRun(nothing_in_common(matched))
    seen = _Seen(matched, chosen, judgement)
    rows = None if real_rows is None else seen.rows_of_sites(real_rows)
    seen.run(executor, notify)
    weighed = None if rows is None else seen.weigh(rows, executor, notify)
    found = [*structure.findings(matched), *seen.findings(executor, notify)]
    record = ModelRecord(
        tool=Tool(name="rmsaudit", version=facts.version),
        outcome="not_judged",
        summary="",
        scope=scope_of(len(matched.pairs), len(set(seen.runs_as.values())), len(seen.results)),
        findings=tuple(found),
        broken=matched.broken,
        dtype=chosen.dtype,
        sites=(*structure.rows(matched), *rows_of(seen.judged())),
        real_rows=weighed,
        error_definition=ERROR_DEFINITION,
        results=seen.results,
        gate=None,
        reference=reference.paper(),
        candidate=candidate.paper(*matched.notes),
        battery=Battery(version=battery.VERSION, seed=chosen.seed, rows=chosen.rows, categories=seen.fed),
        oracle=OracleWork(**seen.tiers),
        environment=facts.environment,
        replay=facts.replay,
    )
    judged = gate.judge(record, judgement.policy, digest=judgement.digest, today=facts.today)
    return judged.model_copy(update={"summary": summarise(judged)})


def _keeps_finite(site: SiteSide) -> bool:
    """Whether the gains make no output infinite or NaN: a normalised element is at most √width."""
    largest = float(np.max(np.abs(site.applied.astype(np.float64)), initial=0.0))
    return largest * sqrt(site.spec.width) < FORMATS[site.spec.output_dtype].max


def _gains_of(pair: SitePair, *, every: bool) -> tuple[str, ...]:
    """What tells one pair's gains from another's; nothing where both sides are one function on finite outputs, unless
    `every`."""
    if pair.is_same and not every and _keeps_finite(pair.reference):
        return ()
    return tuple("none" if side.gain is None else digest(side.gain) for side in (pair.reference, pair.candidate))


class _Rows(NamedTuple):
    """What is done with a file of real rows; passed_over: its tensors that are no rows of a site, and why."""

    tasks: list[weighing.Task]
    passed_over: list[str]


@dataclass
class _Seen:
    """What has been measured so far."""

    matched: Matched
    chosen: Plan
    judgement: Judgement
    together: list[dict[str, Tally]] = field(default_factory=list)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    fed: dict[str, BatteryCategory] = field(default_factory=dict)
    tiers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OracleWork.model_fields, 0))
    runs_as: dict[str, str] = field(default_factory=dict)  # a site: the one that is run for it, often itself

    def run(self, executor: Executor, notify: Notify) -> None:
        portions = list(self._portions())
        done = 0
        total = sum(len(portion.sites) for portion in portions)
        for portion, measured in zip(portions, results_of(executor, work.run, portions), strict=True):
            done += len(portion.sites)
            notify(f"site {done} of {total}")
            self._add(measured)

    def _portions(self) -> Iterator[Portion]:
        """The work, cut by the sites alone. Sites with the same words and gains on both sides are run once; of those
        whose two sides are the same, one of each spec. Where outputs may not be infinite, each of them is run,
        and always one whose gains may make them so: equal sides hide it."""
        policy = self.judgement.policy
        every = policy is not None and policy.nonfinite == "forbid"
        by_specs: dict[Any, list[SitePair]] = {}
        first_of: dict[Any, str] = {}
        for pair in self.matched.pairs:
            both = pair.restated
            specs = both.reference.spec, both.candidate.spec
            runs = first_of.setdefault((specs, _gains_of(both, every=every)), pair.name)
            self.runs_as[pair.name] = runs
            if runs != pair.name:
                continue
            if pair.is_same:
                yield self._portion(specs, [both], judged=True)
            else:
                by_specs.setdefault(specs, []).append(both)
        for specs, pairs in by_specs.items():
            for start in range(0, len(pairs), SITES_PER_PORTION):
                yield self._portion(specs, pairs[start : start + SITES_PER_PORTION], judged=False)

    def _portion(self, specs: tuple[Any, Any], pairs: Sequence[SitePair], *, judged: bool) -> Portion:
        return Portion(
            reference=specs[0],
            candidate=specs[1],
            sites=tuple(SiteGains(name=p.name, reference=p.reference.gain, candidate=p.candidate.gain) for p in pairs),
            rows=self.chosen.rows,
            seed=self.chosen.seed,
            categories=work.chosen_categories(self.chosen.categories),
            judged=judged,
            policy=self.judgement.policy,
        )

    def _add(self, measured: Measured) -> None:
        self.together.append(measured.together)
        for site, cells in measured.cells.items():
            self.cells.setdefault(site, {}).update(cells)
        for name, rows in measured.fed.items():
            reveals = battery.describe(name).reveals if name in battery.names() else ()
            before = self.fed.get(name, BatteryCategory(reveals=reveals))
            self.fed[name] = before.model_copy(update={"rows": before.rows + rows})
        for name, reason in measured.skipped.items():
            before = self.fed.get(name, BatteryCategory())
            self.fed[name] = before.model_copy(update={"skipped": reason})
        for tier, count in measured.tiers.items():
            self.tiers[tier] += count

    def rows_of_sites(self, rows: "Mapping[str, TensorPlace]") -> "_Rows":
        """Raises InputProblem where there is none."""
        tasks, passed_over = [], []
        for name, place in rows.items():
            reason = self._unfit(name, place)
            if reason is not None:
                passed_over.append(f"{name} {reason}")
                continue
            pair = self.by_name[name].restated
            portion = self._portion((pair.reference.spec, pair.candidate.spec), [pair], judged=False)
            tasks.append(weighing.Task(portion=portion, place=place, compared=not pair.is_same))
        if rows and not tasks:
            path = str(next(iter(rows.values())).path)
            more = f"; and {len(passed_over) - MOST_TOLD} more" if len(passed_over) > MOST_TOLD else ""
            says = f"holds no rows of a norm: {'; '.join(passed_over[:MOST_TOLD])}{more}"
            raise InputProblem([Problem(path=path, says=says, kind="no-rows")])
        return _Rows(tasks, passed_over)

    def _unfit(self, name: str, place: "TensorPlace") -> str | None:
        if name not in self.by_name:
            return "is the path of no norm of both models"
        return weighing.unfit(place, self.by_name[name].restated.reference.spec.width)

    def weigh(self, rows: "_Rows", executor: Executor, notify: Notify) -> RealRowsRecord:
        """Real rows at the sites that have some."""
        weighed = {}
        for task, found in zip(rows.tasks, results_of(executor, weighing.run, rows.tasks), strict=True):
            notify(f"rows of {task.name}")
            weighed[task.name] = found
            self._add(found.measured)
        return weighing.recorded(weighed, self._change_of_eps(weighed), self.chosen.dtype, rows.passed_over)

    def _change_of_eps(self, names: Iterable[str]) -> str:
        """What is done to eps at these sites, in words."""
        pairs = (self.by_name[name].restated for name in names)
        changes = {(p.reference.spec.eps, p.candidate.spec.eps) for p in pairs if not p.is_same}
        if len(changes) != 1:
            return "the change of eps"
        ((reference, candidate),) = changes
        return f"eps {candidate:g} for {reference:g}"

    @cached_property
    def by_name(self) -> dict[str, SitePair]:
        return {pair.name: pair for pair in self.matched.pairs}

    @cached_property
    def results(self) -> dict[str, CategoryResult]:
        """Each category over all sites that were run."""
        together = work.merged(self.together)
        return {name: tally.result(self.chosen.dtype) for name, tally in together.items()}

    def judged(self) -> list[Judged]:
        """Every pair with its cells, judged where there is a policy."""
        judged = []
        for pair in self.matched.pairs:
            cells = self._cells_of(pair.name)
            judged.append(
                Judged(
                    pair=pair,
                    relation=self.matched.relations[pair.name],
                    cells=cells,
                    rejected=rejections(cells, self.judgement.policy, self.chosen.dtype),
                    same=pair.is_same,
                )
            )
        return judged

    def _cells_of(self, name: str) -> dict[str, Cell]:
        """Those of the site that was run for it, and of its own real rows."""
        by_battery = {
            category: cell for category, cell in self.cells[self.runs_as[name]].items() if category != REAL_ROWS
        }
        return by_battery | self.cells.get(name, {})

    def findings(self, executor: Executor, notify: Notify) -> list[SiteFinding]:
        """One finding for each way in which sites differ, by a ladder on the site that is farthest off in that way."""
        kinds = list(self.matched.kinds.values())
        if not kinds:
            return []
        notify("what differs, one variable at a time")
        asked = [
            explained.Question(
                pair=max(pairs, key=lambda pair: self._distance(pair.name)).restated,
                sites=len(pairs),
                rows=self.chosen.rows,
                seed=self.chosen.seed,
                categories=work.chosen_categories(self.chosen.categories),
            )
            for pairs in kinds
        ]
        answers = results_of(executor, explained.answer, asked)
        return explained.gathered(list(zip(kinds, answers, strict=True)), self.matched)

    def _distance(self, name: str) -> tuple[int, int]:
        cells = self._cells_of(name).values()
        return max(cell.apart.mismatched for cell in cells), max(cell.apart.max_ulp for cell in cells)
