"""Every rule with its twins: two inputs one step apart, one passes, one fails."""

from datetime import date
from math import nextafter

import pytest

from rmsaudit.gate import closer_side, judge
from rmsaudit.record import NonFinite, SmallestPassing
from rmsaudit.tolerance import Either, Exact, Max, Policy, Ratio, Sum, Ulp, Waiver

TODAY = date(2026, 11, 29)
ONE_ULP = 2.0**-7  # of bfloat16 at 1


def outcome(record, policy):
    return judge(record, policy, digest="d", today=TODAY).outcome


def policy(*rules, **more):
    return Policy(rules=rules, **more)


def amounts(kind, atol, rtol):
    return {"sum": Sum, "either": Either, "max": Max}[kind](rule=kind, atol=atol, rtol=rtol)


BELOW, HALF = nextafter(ONE_ULP, 0), ONE_ULP / 2
TWINS = [
    pytest.param(amounts("sum", 0.0, ONE_ULP), amounts("sum", 0.0, BELOW), id="sum-rtol"),
    pytest.param(amounts("sum", ONE_ULP, 0.0), amounts("sum", BELOW, 0.0), id="sum-atol"),
    pytest.param(amounts("sum", HALF, HALF), amounts("sum", HALF, nextafter(HALF, 0)), id="sum-of-both"),
    pytest.param(amounts("either", 0.0, ONE_ULP), amounts("either", 0.0, BELOW), id="either-rtol"),
    pytest.param(amounts("either", ONE_ULP, 0.0), amounts("either", HALF, HALF), id="either-is-not-sum"),
    pytest.param(amounts("max", 0.0, ONE_ULP), amounts("max", 0.0, BELOW), id="max"),
    pytest.param(Ulp(rule="ulp", max_ulp=1), Ulp(rule="ulp", max_ulp=0), id="ulp"),
]


@pytest.mark.parametrize(("passing", "failing"), TWINS)
def test_a_limit_and_the_next_smaller_one(passing, failing, record, category):
    one = record({"ordinary": category()})
    assert outcome(one, policy(passing)) == "accepted"
    assert outcome(one, policy(failing)) == "rejected"


def test_exact_and_its_twins(record, category):
    same = category(max_ulp=0, max_abs_error=0.0, max_rel_error=0.0, differing_share=0.0, points=())
    exact = policy(Exact(rule="exact"))
    assert outcome(record({"ordinary": same}), exact) == "accepted"
    assert outcome(record({"ordinary": category()}), exact) == "rejected"
    assert outcome(record({"ordinary": same.model_copy(update={"signed_zero": 1})}), exact) == "rejected"


def test_ratio_and_its_twins(record, category, oracle_result):
    rule = policy(Ratio(rule="ratio", ratio=2.0, floor_ulp=1))
    assert outcome(record({"ordinary": category(oracle=oracle_result(3, 6))}), rule) == "accepted"
    assert outcome(record({"ordinary": category(oracle=oracle_result(3, 7))}), rule) == "rejected"
    # an exact reference counts as floor_ulp
    assert outcome(record({"ordinary": category(oracle=oracle_result(0, 2))}), rule) == "accepted"
    assert outcome(record({"ordinary": category(oracle=oracle_result(0, 3))}), rule) == "rejected"
    assert outcome(record({"ordinary": category(oracle=None)}), rule) == "rejected"


def test_one_rejected_category_rejects_all(record, category):
    both = record({"ordinary": category(), "tiny": category(max_ulp=2)})
    assert outcome(both, policy(Ulp(rule="ulp", max_ulp=1))) == "rejected"
    assert outcome(both, policy(Ulp(rule="ulp", max_ulp=2))) == "accepted"


def test_non_finite_values_are_judged_before_numbers(record, category):
    loose = Sum(rule="sum", atol=1e30, rtol=1.0)
    mismatched = category(nonfinite=NonFinite(reference=0, candidate=1, mismatched=1))
    assert outcome(record({"ordinary": mismatched}), policy(loose)) == "rejected"
    matching = category(nonfinite=NonFinite(reference=1, candidate=1, mismatched=0))
    assert outcome(record({"ordinary": matching}), policy(loose)) == "accepted"
    assert outcome(record({"ordinary": matching}), policy(loose, nonfinite="forbid")) == "rejected"
    assert outcome(record({"nonfinite": matching}), policy(loose, nonfinite="forbid")) == "accepted"


def test_another_output_dtype_is_not_a_pass_unless_the_file_says_so(record, category):
    loose = Ulp(rule="ulp", max_ulp=1)
    mixed = record({"ordinary": category()}, output="float32")
    assert outcome(mixed, policy(loose)) == "rejected"
    assert outcome(mixed, policy(loose, output_dtypes="any")) == "accepted"


def test_nothing_compared_is_not_a_pass(record, category):
    rule = policy(Ulp(rule="ulp", max_ulp=1))
    assert outcome(record({}), rule) == "nothing_compared"
    assert outcome(record({}), None) == "nothing_compared"
    empty = category(elements=0, points=(), max_ulp=0, differing_share=0.0)
    assert outcome(record({"ordinary": empty}), rule) == "nothing_compared"
    assert outcome(record({"ordinary": empty, "tiny": category()}), rule) == "rejected"


def test_a_cell_that_no_row_covers_is_not_a_pass(record, category):
    only_float32 = policy(Ulp(rule="ulp", max_ulp=9, when={"output_dtype": "float32"}))
    judged = judge(record({"ordinary": category()}), only_float32, digest="d", today=TODAY)
    assert judged.outcome == "rejected"
    assert "no row" in judged.results["ordinary"].because


def test_the_most_specific_row_judges(record, category):
    rows = policy(
        Ulp(rule="ulp", max_ulp=0),
        Ulp(rule="ulp", max_ulp=1, when={"output_dtype": "bfloat16"}),
        Ulp(rule="ulp", max_ulp=0, when={"output_dtype": "bfloat16", "category": "tiny"}),
    )
    assert outcome(record({"ordinary": category()}), rows) == "accepted"
    assert outcome(record({"tiny": category()}), rows) == "rejected"


def test_without_a_tolerance_nothing_is_judged(record, category):
    judged = judge(record({"ordinary": category()}), None, digest=None, today=TODAY)
    assert judged.outcome == "not_judged"
    assert judged.results["ordinary"].verdict == "not_judged"
    assert judged.gate is None


def test_a_case_that_could_not_run_is_rejected_also_without_a_tolerance(record, category):
    assert judge(record({"tiny": category()}), None, digest=None, today=TODAY).outcome == "not_judged"
    failed = record({"tiny": category(), "edge": category(failures=("candidate: it died",))})
    judged = judge(failed, None, digest=None, today=TODAY)
    assert judged.outcome == "rejected"
    assert judged.results["edge"].verdict == "rejected"
    assert judged.results["tiny"].verdict == "not_judged"


def test_a_side_that_failed_somewhere_is_rejected_there(record, category):
    failed = category(failures=("candidate, width 33: it raised",))
    judged = judge(record({"ordinary": failed}), policy(Ulp(rule="ulp", max_ulp=9)), digest="d", today=TODAY)
    assert judged.outcome == "rejected"
    assert "it raised" in judged.results["ordinary"].because


def test_the_reference_is_suspect_when_it_is_farther_from_the_oracle_wherever_it_fails(record, category, oracle_result):
    rule = policy(Ulp(rule="ulp", max_ulp=1))
    far = category(max_ulp=900, oracle=oracle_result(900, 0))
    assert outcome(record({"edge": far}), rule) == "reference_suspect"
    other = category(max_ulp=900, oracle=oracle_result(0, 900))
    assert outcome(record({"edge": other}), rule) == "rejected"
    assert outcome(record({"edge": far, "tiny": other}), rule) == "rejected"


@pytest.mark.parametrize(
    ("ulps", "lost", "closer"),
    [
        ((4, 1), (0, 0), "candidate"),
        ((3, 1), (0, 0), "alike"),
        ((0, 3), (0, 0), "alike"),
        ((0, 4), (0, 0), "reference"),
        ((0, 0), (1, 0), "candidate"),
        ((9, 9), (0, 2), "reference"),
    ],
)
def test_closer_means_four_times_or_more(ulps, lost, closer):
    assert closer_side(*ulps, *lost) == closer


def test_margin_and_zero_limit(record, category):
    def judged(limit):
        return judge(record({"ordinary": category(max_ulp=3)}), policy(limit), digest="d", today=TODAY).results[
            "ordinary"
        ]

    assert judged(Ulp(rule="ulp", max_ulp=2)).margin == 1.5
    assert judged(Ulp(rule="ulp", max_ulp=0)).margin is None
    assert judged(Sum(rule="sum", atol=0.0, rtol=2 * ONE_ULP)).margin == 0.5


WAIVER = {
    "category": "near-eps",
    "variable": "eps",
    "reason": "ticket 12",
    "owner": "inference",
    "expires": date(2026, 11, 29),
}


def test_a_waiver_excuses_until_its_day(record, category, rung):
    over = record({"near-eps": category(max_ulp=5)}, ladder=(rung("eps"),))
    rule = Ulp(rule="ulp", max_ulp=1)
    assert outcome(over, policy(rule)) == "rejected"
    assert outcome(over, policy(rule, waivers=(Waiver(**WAIVER),))) == "accepted_with_waiver"
    expired = Waiver(**{**WAIVER, "expires": date(2026, 11, 28)})
    judged = judge(over, policy(rule, waivers=(expired,)), digest="d", today=TODAY)
    assert judged.outcome == "rejected"
    assert "expired" in judged.gate.notes[0]


def test_a_waiver_excuses_only_its_variable_and_category(record, category, rung):
    rule = Ulp(rule="ulp", max_ulp=1)
    waived = policy(rule, waivers=(Waiver(**WAIVER),))
    small = rung("cast_point", {"near-eps": 1})
    large = rung("cast_point", {"near-eps": 2})
    over = category(max_ulp=5)
    assert outcome(record({"near-eps": over}, ladder=(rung("eps"), small)), waived) == "accepted_with_waiver"
    assert outcome(record({"near-eps": over}, ladder=(rung("eps"), large)), waived) == "rejected"
    assert outcome(record({"near-eps": over}, ladder=(small,)), waived) == "rejected"
    assert outcome(record({"tiny": over}, ladder=(rung("eps", {"tiny": 5}),)), waived) == "rejected"


def test_a_waiver_does_not_excuse_what_failed_to_run(record, category, rung):
    failed = category(max_ulp=5, failures=("candidate: died",))
    waived = policy(Ulp(rule="ulp", max_ulp=1), waivers=(Waiver(**WAIVER),))
    assert outcome(record({"near-eps": failed}, ladder=(rung("eps"),)), waived) == "rejected"


def test_raising_a_limit_never_turns_a_pass_into_a_fail(record, category):
    one = record({"ordinary": category(smallest_passing=SmallestPassing(max_ulp=1))})
    verdicts = [outcome(one, policy(Ulp(rule="ulp", max_ulp=n))) == "accepted" for n in range(5)]
    assert verdicts == sorted(verdicts)
