"""The whole audit, with numbers that can be checked by hand."""

from datetime import date
from math import sqrt

import numpy as np
import pytest

from rmsaudit.attenuation import attenuation, ratio_for_loss
from rmsaudit.audit import Facts, Judgement, Party, Plan, run
from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.errors import CouldNotRun
from rmsaudit.loaders import Failed, Ran
from rmsaudit.loaders.spec import Declared
from rmsaudit.oracle import oracle
from rmsaudit.record import Environment, Replay, Resolved, SideRecord
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import resolve
from rmsaudit.tolerance import Policy, Sum, Ulp

FACTS = Facts(version="0", today=date(2026, 11, 29), environment=Environment(), replay=Replay(command=""))
ONE_ULP = Judgement(policy=Policy(rules=(Ulp(rule="ulp", max_ulp=1),)), digest="d")


def party(gain=None, side=Declared, **words):
    declared = {name: words.get(name, v.default) for name, v in variables().items()}
    spec = resolve(declared)
    paper = SideRecord(
        name="by hand",
        kind="spec",
        digest="0",
        resolved={name: Resolved(value=getattr(spec, name), source="default") for name in variables()},
    )
    return Party(side=side(declared=declared, spec=spec, gain=gain), describe=lambda: paper)


def audit(reference, candidate, *categories, judgement=ONE_ULP, **plan):
    chosen = Plan(categories=categories or None, rows=8, **plan)
    return run(reference, candidate, chosen, facts=FACTS, judgement=judgement)


LLAMA = {"width": 64, "input_dtype": "bfloat16", "eps": 1e-5, "cast_point": "before_gain"}


def test_the_same_side_twice_is_accepted_without_findings():
    record = audit(party(**LLAMA), party(**LLAMA))
    assert record.outcome == "accepted"
    assert not record.findings
    assert not record.differing
    assert all(result.differing_share == 0 for result in record.results.values())
    assert "same bits" in record.summary


def test_an_eps_ten_times_too_small_is_found_where_it_acts_and_set_back():
    record = audit(party(**LLAMA), party(**{**LLAMA, "eps": 1e-6}))
    assert record.outcome == "rejected"
    (finding,) = record.findings
    assert finding.cause == "eps-value"
    assert finding.explains == 1.0
    assert finding.residual_max_ulp == 0
    assert record.results["near-eps"].verdict == "rejected"
    assert record.results["zero"].verdict == "accepted"
    assert record.differing["eps"].reference_hex == "0x1.4f8b58p-17"  # float32(1e-5)
    assert "setting eps back is enough to pass" in record.summary


def test_a_hidden_difference_is_a_finding_also_when_the_gate_passes():
    loose = Judgement(policy=Policy(rules=(Sum(rule="sum", atol=10.0, rtol=1.0),)), digest="d")
    record = audit(party(**LLAMA), party(**{**LLAMA, "eps": 1e-6}), judgement=loose)
    assert record.outcome == "accepted"
    assert [finding.cause for finding in record.findings] == ["eps-value", "rounding"]
    assert record.findings[-1].claim == "Rounding cannot explain what differs."


def test_without_a_policy_nothing_is_judged():
    record = audit(party(**LLAMA), party(**{**LLAMA, "eps": 1e-6}), judgement=Judgement())
    assert record.outcome == "not_judged"
    assert record.results["near-eps"].smallest_passing.max_ulp == record.results["near-eps"].max_ulp > 1


def test_a_record_is_a_function_of_its_arguments():
    one, other = (audit(party(**LLAMA), party(**{**LLAMA, "eps": 1e-6})) for _ in range(2))
    assert one == other


def test_one_category_alone_gives_the_numbers_it_has_among_all():
    sides = party(**LLAMA), party(**{**LLAMA, "eps": 1e-6})
    everything = audit(*sides)
    alone = audit(*sides, "near-eps")
    assert list(alone.results) == ["near-eps"]
    assert alone.results["near-eps"] == everything.results["near-eps"]


def test_a_category_that_cannot_be_built_is_named_with_its_reason():
    none = party(width=64, eps_placement="none")
    record = audit(none, none, "near-eps", "ordinary")
    assert record.battery.categories["near-eps"].skipped
    assert "near-eps" not in record.results


def test_only_skipped_categories_is_nothing_compared():
    none = party(width=64, eps_placement="none")
    assert audit(none, none, "near-eps").outcome == "nothing_compared"


def test_widths_that_differ_cannot_be_compared():
    with pytest.raises(CouldNotRun, match="64 and 32"):
        audit(party(width=64), party(width=32))


class Broken(Declared):
    """A side that fails on every case, or only on some."""

    def observe(self, case):  # noqa: ARG002
        return Failed("it raised ValueError: no")


class BrokenOnTiny(Declared):
    def observe(self, case):
        return Failed("it died") if case.category == "tiny" else Ran(emulate(self.spec, case))


def test_a_side_that_never_runs_is_could_not_run_and_still_a_record():
    record = audit(party(**LLAMA), party(side=Broken, **LLAMA), "ordinary", "zero")
    assert record.outcome == "could_not_run"
    assert "no" in record.results["ordinary"].failures[0]


def test_a_side_that_fails_once_is_rejected_there_and_the_rest_goes_on():
    record = audit(party(**LLAMA), party(side=BrokenOnTiny, **LLAMA), "tiny", "ordinary")
    assert record.outcome == "rejected"
    assert record.results["tiny"].verdict == "rejected"
    assert record.results["ordinary"].verdict == "accepted"


def test_gains_that_differ_are_named():
    gain = np.linspace(0.5, 2, 64, dtype=np.float32)
    record = audit(party(width=64, gain=gain), party(width=64, gain=gain * np.float32(1.5)), "ordinary")
    (finding,) = record.findings
    assert finding.cause == "gain-values"
    assert "gain_values" in record.differing


def test_a_reference_that_overflows_is_suspect_and_the_oracle_says_so():
    """float16 computed in float16: 256² = 65536 is over 65504, so the row comes out as 0 where 1 is exact."""
    half = {"width": 64, "input_dtype": "float16", "compute_dtype": "float16"}
    record = audit(party(**half), party(**{**half, "compute_dtype": "float32"}), "large", "edge")
    assert record.outcome == "reference_suspect"
    assert all(
        result.oracle.closer == "candidate" for result in record.results.values() if result.verdict == "rejected"
    )


def test_two_wrong_sides_are_said_to_be_wrong_although_they_agree():
    """float32 rows near 3e38 overflow on the direct path: both sides give 0, the exact answer is 1."""
    record = audit(party(width=64, eps=1e-6), party(width=64, eps=1e-6), "edge")
    assert record.outcome == "accepted"
    assert record.results["edge"].oracle.far == ("reference", "candidate")
    assert "both sides are far from the exact result in edge" in record.summary


# --- the law, in numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "kept"), [(0.01, 0.099504), (0.1, 0.301511), (1, 0.707107), (10, 0.953463), (100, 0.995037)]
)
def test_attenuation(ratio, kept):
    assert round(attenuation(ratio), 6) == kept


def test_the_one_percent_bound():
    assert round(ratio_for_loss(0.01), 10) == 49.2512562814
    assert attenuation(ratio_for_loss(0.01)) == pytest.approx(0.99, rel=1e-15)  # two roundings of a square root


def one_case(*rows, dtype=np.float64):
    x = np.array(rows, dtype=dtype)
    gain = np.ones(x.shape[1], dtype=dtype)
    return Case(category="by-hand", label="", x=x, gain=gain, bias=gain * 0, residual=x * 0)


def exact(case, **words):
    return oracle(resolve({"width": case.width, **words}), case).values


DOUBLE = {"input_dtype": "float64", "compute_dtype": "float64"}


def test_small_rows_by_hand():
    case = one_case((1e-3, 1e-3))
    # float64(1e-3) is 2e-17 (relative) above 1/1000, so the last digit is not that of 1/√2
    assert exact(case, eps=1e-6, **DOUBLE)[0] == pytest.approx([1 / sqrt(2)] * 2, rel=1e-15)
    assert exact(case, eps=1e-4, **DOUBLE)[0] == pytest.approx([1 / sqrt(101)] * 2, rel=1e-15)
    assert round(float(exact(case, eps=1e-6, eps_placement="outside_sqrt", **DOUBLE)[0, 0]), 6) == 0.999001


def test_zeros_give_zeros():
    assert exact(one_case((0.0, 0.0)), **DOUBLE).tolist() == [[0.0, 0.0]]


def test_rows_whose_squares_overflow():
    case = one_case((1e200, -1e200))
    assert exact(case, **DOUBLE).tolist() == [[1.0, -1.0]]
    assert emulate(resolve({"width": 2, **DOUBLE}), case).tolist() == [[0.0, -0.0]]  # the direct float64 order
    half = one_case((256.0, 256.0), dtype=np.float16)
    words = {"input_dtype": "float16", "compute_dtype": "float16"}
    assert exact(half, **words).tolist() == [[1.0, 1.0]]
    assert emulate(resolve({"width": 2, **words}), half).tolist() == [[0.0, 0.0]]
    single = one_case((3e38, 3e38), dtype=np.float32)
    assert exact(single).tolist() == [[1.0, 1.0]]
    assert emulate(resolve({"width": 2}), single).tolist() == [[0.0, 0.0]]


def test_scaling_the_row_is_dividing_eps_by_its_square():
    row = (3.0, -1.0, 0.5, 2.0)
    scaled = one_case(tuple(v * 2**10 for v in row))
    assert exact(scaled, eps=2.0**-10, **DOUBLE).tolist() == exact(one_case(row), eps=2.0**-30, **DOUBLE).tolist()


def test_a_uniform_shift_moves_an_rms_norm_and_leaves_a_layer_norm_alone():
    row, shifted = one_case((1.0, 2.0, 3.0, 6.0)), one_case((9.0, 10.0, 11.0, 14.0))
    assert exact(row, center=True, **DOUBLE).tolist() == exact(shifted, center=True, **DOUBLE).tolist()
    assert exact(row, **DOUBLE).tolist() != exact(shifted, **DOUBLE).tolist()
