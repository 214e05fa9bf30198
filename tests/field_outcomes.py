"""Runs cases of fixtures/field and prints what was found, a line of JSON each: `field_outcomes.py NAME...`.

A program of its own, so that the suite can use two processors. Nothing in it looks at what a name means.
"""

import json
import sys
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from rmsaudit import audit, causes
from rmsaudit.cli._sides import look_into, parties
from rmsaudit.documents.implementation import Implementation, read_implementation
from rmsaudit.documents.tolerance import read_tolerance
from rmsaudit.errors import InputProblem
from rmsaudit.record import AcceptanceRecord, Environment, Finding, Replay

HOME = Path(__file__).parents[1] / "fixtures" / "field"
ROWS = 4  # every category still has each kind of its rows somewhere; few, because there are many cases
FACTS = audit.Facts(
    version="0",
    today=date(2026, 1, 1),
    environment=Environment(changes_numbers={}, informative={}),
    replay=Replay(command="", inputs={}),
)


def outcome(home: Path) -> dict[str, Any]:
    """verdict: the outcome, or `refused`. categories: rejected, or else differing. findings: causes and variables."""
    try:
        sides = [read_implementation(home / f"{side}.yaml", {}, look_into) for side in ("reference", "candidate")]
    except InputProblem as refused:
        return _refused([problem.kind for problem in refused.problems])
    if sides[0].spec.width != sides[1].spec.width:
        return _refused(["width-mismatch"])
    record = _record(home, sides)
    return {
        "verdict": record.outcome,
        "categories": _where(record),
        "findings": [(_cause(finding), finding.variable) for finding in record.findings],
    }


def _refused(kinds: list[str]) -> dict[str, Any]:
    return {"verdict": "refused", "categories": [], "findings": [(kind, None) for kind in kinds]}


def _record(home: Path, sides: list[Implementation]) -> AcceptanceRecord:
    own = home / "tolerance.yaml"
    policy = read_tolerance(own if own.exists() else HOME / "tolerance.yaml").policy
    only = yaml.safe_load((home / "expected.yaml").read_text()).get("only")
    with ExitStack() as stack:
        reference, candidate = parties(sides, True, stack)
        plan = audit.Plan(rows=ROWS, categories=None if only is None else tuple(only))
        judgement = audit.Judgement(policy=policy, digest="0" * 64)
        return audit.run(reference, candidate, plan, facts=FACTS, judgement=judgement)


def _where(record: AcceptanceRecord) -> list[str]:
    rejected = [name for name, result in record.results.items() if result.verdict == "rejected"]
    return rejected or [name for name, result in record.results.items() if result.differing_share]


def _cause(finding: Finding) -> str:
    """The cause that a change of the finding's variable is, whichever of its variables it was found by."""
    return finding.cause if finding.variable is None else causes.of_variable(finding.variable)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write(json.dumps({"name": name, **outcome(HOME / name)}) + "\n")
