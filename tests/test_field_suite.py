"""Failures that people reported in public: is each rejected, where, and is the cause found?

A case is a folder in fixtures/field: reference.yaml, candidate.yaml, expected.yaml. Run with -s to see the table. The
main causes are then varied, in widths, eps and dtypes, behind sides that declare the reference and run something else.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from rmsaudit import audit, causes
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.loaders import Ran
from rmsaudit.loaders.spec import Declared
from rmsaudit.record import AcceptanceRecord, Environment, Replay, Resolved, SideRecord
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import fitted, resolve

HOME = Path(__file__).parents[1] / "fixtures" / "field"
NAMES = sorted(folder.name for folder in HOME.iterdir() if (folder / "expected.yaml").exists())
CATEGORY_AT_LEAST, CAUSE_AT_LEAST = 0.95, 0.90
FIRST = 3  # findings that a person reads; the cause has to be one of them
ABSTAINS = "unexplained"
RIGHTS = ("verdict_right", "category_right", "cause_right")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was found of a case, beside what had to be. findings: causes with the variable that each is about."""

    name: str
    verdict: str
    categories: list[str]
    findings: list[tuple[str, str | None]]

    @property
    def wanted(self) -> Mapping[str, Any]:
        return expected(self.name)

    @property
    def verdict_right(self) -> bool:
        return self.verdict == self.wanted["verdict"]

    @property
    def category_right(self) -> bool:
        return self.wanted["category"] is None or self.wanted["category"] in self.categories

    @property
    def cause_right(self) -> bool:
        """True where the cause, or one of those that mean the same here, is among the first findings; and where there
        is nothing to be found and nothing was. Who abstains may name no cause beside."""
        cause, about = self.wanted["cause"], self.wanted["variable"]
        if cause is None:
            return not self.findings
        accepted = cause if isinstance(cause, list) else [cause]
        named = {found for found, _ in self.findings if found in causes.names()}
        if ABSTAINS in accepted and not named <= set(accepted):
            return False
        return any(found in accepted and about in (None, variable) for found, variable in self.findings[:FIRST])


def expected(name: str) -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load((HOME / name / "expected.yaml").read_text())
    return read


def outcomes() -> list[Outcome]:
    """Of every case, by two processes that each take every other one."""
    program = Path(__file__).with_name("field_outcomes.py")
    running = [
        subprocess.Popen([sys.executable, program, *NAMES[start::2]], stdout=subprocess.PIPE, text=True)
        for start in range(2)
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    return sorted((Outcome(**json.loads(line)) for out in printed for line in out.splitlines()), key=lambda o: o.name)


def table(found: list[Outcome]) -> Iterator[str]:
    yield f"{'case':<36} {'verdict':<22} category  cause  found"
    for each in found:
        marks = ["yes" if getattr(each, right) else "NO" for right in RIGHTS]
        named = ", ".join(cause for cause, _ in each.findings[:FIRST]) or "-"
        yield f"{each.name:<36} {marks[0]:<4}{each.verdict:<18} {marks[1]:<9} {marks[2]:<6} {named}"


def test_field_suite() -> None:
    found = outcomes()
    assert [each.name for each in found] == NAMES
    wrong = {right: [each.name for each in found if not getattr(each, right)] for right in RIGHTS}
    verdict, category, cause = (1 - len(wrong[right]) / len(found) for right in RIGHTS)
    says = f"{len(found)} cases: verdict {verdict:.1%}, category {category:.1%}, cause {cause:.1%}"
    sys.stdout.write("\n".join(["", *table(found), says, ""]))
    assert not wrong["verdict_right"]
    assert category >= CATEGORY_AT_LEAST, wrong["category_right"]
    assert cause >= CAUSE_AT_LEAST, wrong["cause_right"]


def test_every_case_is_complete() -> None:
    for name in NAMES:
        assert {"verdict", "category", "cause", "variable"} <= set(expected(name)), name
        assert (HOME / name / "reference.yaml").exists(), name
        assert (HOME / name / "candidate.yaml").exists(), name


# --- the same causes with other numbers -------------------------------------------------------------------------------


class Disguised:
    """A side that is declared as one norm and runs another, as foreign code does."""

    def __init__(self, declared: Mapping[str, Any], runs: NormSpec) -> None:
        self.declared, self.spec, self.gain = declared, resolve(declared), None
        self.runs = runs

    def observe(self, case: Case) -> Ran:
        return Ran(emulate(fitted(self.runs, case.width), case))


def party(side: Any) -> audit.Party:
    resolved = {name: Resolved(value=getattr(side.spec, name), source="declared") for name in variables()}
    paper = SideRecord(name="by hand", kind="spec", digest="0" * 64, gain=None, versions={}, resolved=resolved)
    return audit.Party(side=side, describe=lambda: paper)


def compared(words: Mapping[str, Any], changed: Mapping[str, Any], *categories: str) -> AcceptanceRecord:
    """The record of a declared reference and of a candidate that runs it with `changed`, and does not say so."""
    facts = audit.Facts(
        version="0",
        today=date(2026, 1, 1),
        environment=Environment(changes_numbers={}, informative={}),
        replay=Replay(command="", inputs={}),
    )
    plan = audit.Plan(rows=4, categories=categories, behaviours=False)
    words = {**{name: variable.default for name, variable in variables().items()}, **words}
    candidate = Disguised(words, resolve({**words, **changed}))
    sides = party(Declared(words, resolve(words), None)), party(candidate)
    return audit.run(*sides, plan, facts=facts, judgement=audit.Judgement())


SCALES = ("zero", "tiny", "near-eps", "ordinary")
VARIATIONS: list[tuple[str, dict[str, Any], dict[str, Any], tuple[str, ...]]] = [
    # eps-value: every size against ten times as much, over widths and dtypes
    *(
        ("eps-value", {"width": width, "eps": eps, "input_dtype": dtype}, {"eps": 10 * eps}, SCALES)
        for width, eps, dtype in (
            (33, 1e-3, "float32"),
            (64, 1e-5, "bfloat16"),
            (129, 1e-6, "float16"),
            (1000, 1e-8, "float64"),
            (4096, 1e-12, "float32"),
        )
    ),
    *(
        ("eps-placement", {"width": width, "eps": eps, "input_dtype": dtype}, {"eps_placement": to}, SCALES)
        for width, eps, dtype, to in (
            (33, 1e-3, "float32", "outside_sqrt"),
            (65, 1e-5, "bfloat16", "outside_sqrt"),
            (768, 1e-3, "float32", "floor_sum"),
            (64, 1e-3, "float16", "floor_rms"),
            (4096, 1e-12, "float64", "floor_norm"),
            (48, 1e-6, "bfloat16", "none"),
        )
    ),
    *(
        ("gain-offset", {"width": width, "input_dtype": dtype, "gain_offset": 1.0}, {"gain_offset": to}, ("gains",))
        for width, dtype, to in ((33, "float32", 0.0), (96, "bfloat16", 2.0), (4096, "float16", 0.0))
    ),
    *(
        ("cast-point", {"width": width, "input_dtype": dtype}, {"cast_point": "before_gain"}, ("ordinary", "gains"))
        for width, dtype in ((33, "bfloat16"), (512, "float16"), (1024, "bfloat16"))
    ),
    *(
        (
            "statistic-dtype",
            {"width": width, "input_dtype": dtype},
            {"compute_dtype": to},
            ("ordinary", "large", "edge"),
        )
        for width, dtype, to in ((33, "float16", "float16"), (64, "bfloat16", "bfloat16"), (128, "float32", "float16"))
    ),
    *(
        ("centered", {"width": width, "input_dtype": dtype}, {"center": True}, ("offset", "constant", "ordinary"))
        for width, dtype in ((33, "float32"), (256, "bfloat16"), (4096, "float16"))
    ),
    *(
        ("sum-for-mean", {"width": width, "input_dtype": dtype}, {"statistic": "sum_square"}, ("ordinary", "near-eps"))
        for width, dtype in ((33, "float32"), (64, "float64"), (1024, "bfloat16"))
    ),
    *(
        ("groups", {"width": width, "input_dtype": dtype}, {"groups": groups}, ("blocks", "ordinary"))
        for width, dtype, groups in ((36, "float32", 3), (64, "bfloat16", 4), (4096, "float16", 32))
    ),
    *(
        (
            "inverse-rounded",
            {"width": width, "input_dtype": "float32"},
            {"inverse_dtype": to},
            ("ordinary", "exact-sum"),
        )
        for width, to in ((33, "bfloat16"), (512, "float16"))
    ),
    *(
        ("gain-not-loaded", {"width": width, "input_dtype": dtype}, {"gain_applied": False}, ("ordinary", "gains"))
        for width, dtype in ((33, "float64"), (768, "bfloat16"))
    ),
]


WIDE = pytest.param(
    "cast-point", {"width": 4096, "input_dtype": "bfloat16"}, {"cast_point": "before_gain"}, ("ordinary",)
)


@pytest.mark.parametrize(("cause", "words", "changed", "categories"), [*VARIATIONS, WIDE])
def test_other_numbers_have_the_same_cause(
    cause: str, words: dict[str, Any], changed: dict[str, Any], categories: tuple[str, ...]
) -> None:
    record = compared(words, changed, *categories)
    found = [each.cause if each.variable is None else causes.of_variable(each.variable) for each in record.findings]
    assert cause in found[:FIRST], found


@pytest.mark.parametrize("words", [{"width": 33}, {"width": 64, "input_dtype": "bfloat16", "eps": 1e-12}])
def test_a_side_that_runs_what_it_declares_has_no_cause(words: dict[str, Any]) -> None:
    found = compared(words, {"accumulate_order": "lanes:8"}, "ordinary", "near-eps").findings
    assert [finding.claim for finding in found] in ([], ["Rounding can explain what differs."])
