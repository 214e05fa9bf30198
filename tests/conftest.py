"""What several test files share: a small record by hand, with one category, to be changed where a test looks."""

from collections.abc import Callable
from typing import Any

import pytest

from rmsaudit.gate import closer_side
from rmsaudit.record import (
    AcceptanceRecord,
    Battery,
    CategoryResult,
    Dtypes,
    DtypesOfBoth,
    Environment,
    NonFinite,
    OracleResult,
    OracleWork,
    Replay,
    Resolved,
    Rung,
    RungErrors,
    SideRecord,
    Tool,
)


@pytest.fixture
def oracle_result() -> Callable[[int, int], OracleResult]:
    """Both sides' distances to the oracle, in ulp."""

    def build(reference_ulp: int, candidate_ulp: int) -> OracleResult:
        return OracleResult(
            reference_ulp=reference_ulp,
            candidate_ulp=candidate_ulp,
            reference_rounded=0.5,
            candidate_rounded=0.5,
            closer=closer_side(reference_ulp, candidate_ulp, 0, 0),
        )

    return build


@pytest.fixture
def category() -> Callable[..., CategoryResult]:
    """A category with one differing element: reference 1, candidate 1 + 2^-7, one bfloat16 ulp away."""

    def build(**changes: Any) -> CategoryResult:
        usual: dict[str, Any] = {
            "verdict": "not_judged",
            "output_dtype": "bfloat16",
            "elements": 64,
            "max_abs_error": 2.0**-7,
            "max_rel_error": 2.0**-7,
            "max_ulp": 1,
            "differing_share": 1 / 64,
            "points": ((1.0, 2.0**-7),),
            "nonfinite": NonFinite(reference=0, candidate=0, mismatched=0),
        }
        return CategoryResult(**{**usual, **changes})

    return build


@pytest.fixture
def rung() -> Callable[..., Rung]:
    """A rung of `eps` that moves near-eps by 5 ulp."""

    def build(variable: str = "eps", alone: dict[str, int] | None = None) -> Rung:
        moved = {"near-eps": 5} if alone is None else alone
        errors = {
            name: RungErrors(max_abs_error=0.1, max_rel_error=0.1, max_ulp=ulp, share=0.5)
            for name, ulp in moved.items()
        }
        return Rung(
            variable=variable,
            from_=1e-5,
            to=1e-6,
            alone=errors,
            cumulative=errors,
            reverted={},
            recreates=(),
            impossible=None,
        )

    return build


@pytest.fixture
def record() -> Callable[..., AcceptanceRecord]:
    """A record around the categories that a test gives."""

    def build(
        results: dict[str, CategoryResult], ladder: tuple[Rung, ...] = (), output: str = "bfloat16"
    ) -> AcceptanceRecord:
        def dtypes(out: str) -> Dtypes:
            return Dtypes(input="bfloat16", gain="bfloat16", compute="float32", accumulate="float32", output=out)

        side = SideRecord(
            name="by hand",
            kind="spec",
            digest="0" * 64,
            gain=None,
            versions={},
            resolved={"eps": Resolved(value=1e-5, source="declared")},
        )
        return AcceptanceRecord(
            tool=Tool(name="rmsaudit", version="0.0.0"),
            outcome="not_judged",
            summary="",
            scope="",
            findings=(),
            dimension=64,
            axes=(-1,),
            dtypes=DtypesOfBoth(reference=dtypes("bfloat16"), candidate=dtypes(output)),
            differing={},
            error_definition={},
            ladder=ladder,
            results=results,
            gate=None,
            reference=side,
            candidate=side,
            battery=Battery(version=1, seed=0, rows=1, categories={}),
            oracle=OracleWork(float64=64, double_double=0, integers=0, by_rule=0),
            environment=Environment(changes_numbers={}, informative={}),
            replay=Replay(command="", inputs={}),
        )

    return build
