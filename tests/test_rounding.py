"""Four words for a difference, and the row that proves it; what a bound is worth is tested in tests/inversion."""

import re
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from rmsaudit import audit
from rmsaudit.arrays import Array, round_to
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.kept_rows import kept
from rmsaudit.loaders import Ran
from rmsaudit.loaders.spec import Declared
from rmsaudit.record import AcceptanceRecord, Environment, Replay, Resolved, SideRecord
from rmsaudit.rounding import Question
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import fitted, resolve
from rmsaudit.tolerance import Policy, Ulp

WIDTH = 64


def new_case(category: str = "ordinary", *, rows: int = 16, scale: float = 1.0, word: str = "float32") -> Case:
    rng = np.random.default_rng(3)
    x = round_to(rng.standard_normal((rows, WIDTH)) * scale, word)
    gain = round_to(1 + rng.random(WIDTH), word)
    return Case(category=category, label="", x=x, gain=gain, bias=gain * 0, residual=x * 0)


def asked(case: Case, candidate: Array, *, unknown: bool = False, **words: Any) -> Question:
    spec = resolve({"width": WIDTH, "input_dtype": "float32"})
    return Question(
        spec,
        resolve({"width": WIDTH, **words}),
        any_order=(False, unknown),
        kept=[kept(case, emulate(spec, case), candidate)],
    )


def output(case: Case, **words: Any) -> Array:
    return emulate(resolve({"width": WIDTH, **words}), case)


def test_nothing_differs() -> None:
    case = new_case()
    assert asked(case, output(case)).finding() is None


def test_an_order_and_a_root_are_roundings() -> None:
    case, words = new_case(), {"accumulate_order": "sequential", "inverse": "rsqrt"}
    found = asked(case, output(case, **words), **words).finding()
    assert found is not None
    assert found.claim == "Rounding can explain what differs."
    assert re.match(r"Explainable by rounding: ordinary \(up to 0\.\d+ of what rounding can reach\)\.", found.evidence)
    assert found.seen_in == ("ordinary",)


def test_of_code_no_order_is_known() -> None:
    case = new_case()
    found = asked(case, output(case, accumulate_order="lanes:8"), unknown=True).finding()
    assert found is not None
    assert found.claim == "Rounding can explain what differs."
    assert "in any order of the sum" in found.evidence


@pytest.mark.parametrize("word", ["float32", "bfloat16"])
def test_another_eps_is_no_rounding(word: str) -> None:
    """In bfloat16 rows of the size of eps alone tell two eps of 1e-6 and 1e-5 apart."""
    case, words = new_case("near-eps", scale=1e-3, word=word), {"input_dtype": word, "eps": 1e-5}
    spec = resolve({"width": WIDTH, "input_dtype": word})
    question = Question(
        spec,
        resolve({"width": WIDTH, **words}),
        any_order=(False, False),
        kept=[kept(case, emulate(spec, case), output(case, **words))],
    )
    found = question.finding()
    assert found is not None
    assert found.claim == "Rounding cannot explain what differs."
    assert found.evidence.startswith("Not explainable by rounding: near-eps (near-eps, row ")
    numbers = re.search(r"column \d+: (\S+) apart, and rounding on both sides reaches (\S+?)\)", found.evidence)
    assert numbers is not None
    assert float(numbers[1]) > float(numbers[2]) > 0


def test_the_row_is_counted_in_its_case() -> None:
    case = new_case()
    candidate = output(case, inverse="rsqrt")
    candidate[11, 5] *= np.float32(1.01)
    found = asked(case, candidate).finding()
    assert found is not None
    assert "(ordinary, row 11, column 5: " in found.evidence


def test_a_row_off_by_one_small_factor_is_proven_by_two_intervals() -> None:
    """A quarter of a bfloat16 ulp: each element is within its own last rounding, and not all 64 of them under one
    factor."""
    case = new_case(word="bfloat16")
    spec = resolve({"width": WIDTH, "input_dtype": "bfloat16"})
    exact = replace(spec, output_dtype="float32", gain_product_dtype="float32")
    candidate = round_to(emulate(exact, case) * np.float32(1 + 2.0**-9), "bfloat16")
    question = Question(spec, spec, any_order=(False, False), kept=[kept(case, emulate(spec, case), candidate)])
    found = question.finding()
    assert found is not None
    (told,) = re.findall(r"its factor is within \[(.*?), (.*?)\] by .* within \[(.*?), (.*?)\] by", found.evidence)
    ours, theirs = sorted((tuple(map(float, told[:2])), tuple(map(float, told[2:]))))
    assert ours[0] <= ours[1] < theirs[0] <= theirs[1]


def test_a_row_beyond_float32_shows_nothing() -> None:
    case = new_case("large", scale=1e19)
    found = asked(case, output(case, compute_dtype="float64")).finding()
    assert found is not None
    assert found.claim == "Whether rounding explains what differs is not observable with these inputs."
    assert "Not observable: large (a square may leave float32)." in found.evidence


def test_a_zero_of_another_sign_is_a_difference() -> None:
    case = new_case()
    case.x[:, 0] = 0
    candidate = output(case)
    candidate[:, 0] = -0.0
    found = asked(case, candidate).finding()
    assert found is not None
    assert found.claim == "Rounding can explain what differs."


# --- in a record ------------------------------------------------------------------------------------------------------


class Foreign:
    """A side that is declared as one norm and runs another, as code does."""

    def __init__(self, words: dict[str, Any], runs: NormSpec) -> None:
        self.declared, self.spec, self.gain, self.runs = words, resolve(words), None, runs

    def observe(self, case: Case) -> Ran:
        return Ran(emulate(fitted(self.runs, case.width), case))


def record(candidate: dict[str, Any], *, foreign: bool, max_ulp: int) -> AcceptanceRecord:
    defaults = {name: variable.default for name, variable in variables().items()}
    reference = {**defaults, "width": WIDTH}
    declared = reference if foreign else {**reference, **candidate}
    runs = resolve({**reference, **candidate})
    sides = (
        Declared(reference, resolve(reference), None),
        (Foreign(declared, runs) if foreign else Declared(declared, runs, None)),
    )
    papers = [
        SideRecord(
            name="by hand", kind="spec", digest="0" * 64, gain=None, versions={},
            resolved={name: Resolved(value=getattr(side.spec, name), source="declared") for name in variables()},
        )
        for side in sides
    ]  # fmt: skip
    first, second = (
        audit.Party(side=side, describe=lambda paper=paper: paper) for side, paper in zip(sides, papers, strict=True)
    )
    facts = audit.Facts(
        version="0", today=date(2026, 1, 1), environment=Environment(changes_numbers={}, informative={}),
        replay=Replay(command="", inputs={}),
    )  # fmt: skip
    policy = Policy(rules=(Ulp(rule="ulp", max_ulp=max_ulp, reason="for a test"),))
    plan = audit.Plan(rows=4, categories=("ordinary", "near-eps"), behaviours=False)
    return audit.run(first, second, plan, facts=facts, judgement=audit.Judgement(policy=policy, digest="0" * 64))


@pytest.mark.parametrize(
    ("changed", "foreign", "max_ulp", "told"),
    [
        ({"accumulate_order": "lanes:8"}, True, 64, "Rounding can explain what differs."),
        ({"eps": 1e-5}, True, 1, "Rounding cannot explain what differs."),
        ({"eps": 1.001e-6}, False, 10**6, "Rounding cannot explain what differs."),  # accepted, and no rounding
        ({"eps": 1e-5}, False, 1, None),  # rejected, and the ladder has told all there is
        ({}, True, 1, None),
    ],
)
def test_when_a_record_says_it(changed: dict[str, Any], foreign: bool, max_ulp: int, told: str | None) -> None:
    found = [
        each.claim for each in record(changed, foreign=foreign, max_ulp=max_ulp).findings if each.cause == "rounding"
    ]
    assert found == ([told] if told else [])
