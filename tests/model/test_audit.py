"""The audit of models made by hand."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from rmsaudit import gate
from rmsaudit.audit import Facts, Judgement
from rmsaudit.errors import CouldNotRun
from rmsaudit.model import work
from rmsaudit.model.audit import Plan, run
from rmsaudit.model.matched import Model
from rmsaudit.record import Environment, Replay
from rmsaudit.tolerance import Exact, Policy, Ratio, Ulp, When

FACTS = Facts(version="0", today=date(2026, 11, 29), environment=Environment(), replay=Replay(command=""))
EXACT = Policy(rules=(Exact(rule="exact"),))


def model(**sites):
    return Model(name="by hand", format="huggingface", architecture="llama", sites=sites, files={})


def audit(reference, candidate, policy=EXACT, **plan):
    with ThreadPoolExecutor(1) as executor:
        return run(
            reference,
            candidate,
            Plan(**plan),
            facts=FACTS,
            judgement=Judgement(policy=policy),
            executor=executor,
        )


@pytest.fixture
def gains():
    rng = np.random.default_rng(9)
    return [rng.normal(1, 0.2, 64).astype(np.float32) for _ in range(40)]


def test_sites_that_are_the_same_share_a_row_and_one_run(site, gains):
    sites = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains)}
    record = audit(model(**sites), model(**sites))
    assert record.outcome == "accepted"
    (row,) = record.sites
    assert (row.sites, row.count, row.compared, row.worst) == (("layers.{0-39}.norm",), 40, "same", None)
    assert record.results["ordinary"].elements == 4 * 64  # of one site
    assert "same bits at all 40 norms" in record.summary


def test_one_site_of_many_that_differs_stands_first(site, gains):
    sites = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains)}
    record = audit(model(**sites), model(**sites | {"layers.7.norm": site(gains[7], eps=1e-4)}))
    assert [row.verdict for row in record.sites] == ["rejected", "accepted"]
    assert record.sites[0].sites == ("layers.7.norm",)
    (finding,) = record.findings
    assert (finding.cause, finding.count, finding.of) == ("eps-value", 1, 40)


def test_equal_gains_are_run_once(site, gains, monkeypatch):
    fed = []
    inner = work.run_case
    monkeypatch.setattr(work, "run_case", lambda p, c, m: fed.extend(s.name for s in p.sites) or inner(p, c, m))
    one = {f"layers.{i}.norm": site(gains[0]) for i in range(5)}
    other = {name: replace(side, declared={**side.declared, "eps": 1e-4}) for name, side in one.items()}
    record = audit(model(**one), model(**other), categories=("near-eps",))
    assert set(fed) == {"layers.0.norm"}
    assert (record.sites[0].count, record.sites[0].compared, record.findings[0].count) == (5, "run", 5)


def test_sites_that_differ_in_different_ways_are_told_apart(site, gains):
    one = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains[:4])}
    other = one | {"layers.1.norm": site(gains[1], eps=1e-4), "layers.2.norm": site(gains[2], center=True)}
    record = audit(model(**one), model(**other))
    assert {finding.cause: finding.sites for finding in record.findings} == {
        "eps-value": ("layers.1.norm",),
        "centered": ("layers.2.norm",),
    }


def test_the_numbers_of_the_whole_are_those_of_its_worst_site(site, gains):
    one = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains)}  # more than a portion
    other = {name: replace(side, declared={**side.declared, "eps": 1e-4}) for name, side in one.items()}
    record = audit(model(**one), model(**other), Policy(rules=(Ulp(rule="ulp", max_ulp=1),)))
    alone = [
        audit(model(**{name: one[name]}), model(**{name: other[name]}), Policy(rules=(Ulp(rule="ulp", max_ulp=1),)))
        for name in one
    ]
    for name, result in record.results.items():
        assert result.max_ulp == max(each.results[name].max_ulp for each in alone)
        assert result.max_abs_error == max(each.results[name].max_abs_error for each in alone)
        assert result.violations == sum(each.results[name].violations for each in alone)
        judged = [each.results[name].oracle for each in alone if each.results[name].oracle]
        assert (result.oracle is None) == (not judged)  # the oracle is asked where something differs
        if judged:
            assert result.oracle.candidate_ulp == max(each.candidate_ulp for each in judged)
    worst = record.sites[0].worst
    assert worst.max_ulp == max(each.sites[0].worst.max_ulp for each in alone)
    named = record.results[worst.category].worst[0]
    assert named.case.startswith("layers.")


def test_a_ratio_is_asked_of_every_site(site, gains):
    far = Policy(rules=(Ratio(rule="ratio", ratio=2, floor_ulp=1),))
    one, other = {"norm": site(gains[0])}, {"norm": site(gains[0], eps=1e-4)}
    assert audit(model(**one), model(**other), far).sites[0].verdict == "rejected"
    assert audit(model(**one), model(**one), far).sites[0].verdict == "accepted"


def test_no_common_norm_is_nothing_to_run(site, gains):
    with pytest.raises(CouldNotRun, match=r"no norm of by hand has a counterpart.*names are b where.*has a; .*--map"):
        audit(model(a=site(gains[0])), model(b=site(gains[0][:32])))
    with pytest.raises(CouldNotRun, match=r"where names meet, widths do not \(a: 60 for 64\)"):
        audit(model(a=site(gains[0])), model(a=site(gains[0][:60])))


def test_widths_that_do_not_fit_reject_without_a_run(site, gains):
    record = audit(model(a=site(gains[0]), b=site(gains[1])), model(a=site(gains[0][:60]), b=site(gains[1])))
    assert record.outcome == "rejected"
    assert record.findings[0].cause == "width"
    assert record.broken == ("a: width 60 in the candidate, 64 in the reference",)


def test_a_missing_gain_on_one_side_is_a_finding(site, gains):
    record = audit(model(a=site(gains[0])), model(a=site(None, width=64)))
    assert record.outcome == "rejected"
    assert "gain_applied" in {finding.variable for finding in record.findings}


def test_norms_without_a_shared_name_are_paired_in_order_where_their_widths_agree(site, gains):
    names = ("a", "b", "c")
    one = {name: site(gains[i][: 64 - i]) for i, name in enumerate(names)}
    record = audit(model(**one), model(**{f"val_{name}": side for name, side in one.items()}))
    assert record.outcome == "accepted"
    assert "in the order of both models" in record.candidate.notes[0]
    with pytest.raises(CouldNotRun):
        audit(model(**one), model(**{f"val_{name}": one[name] for name in reversed(names)}))


def test_models_of_two_architectures_are_compared_and_it_is_said(site, gains):
    one = model(a=site(gains[0]))
    notes = [audit(one, replace(one, architecture=word)).candidate.notes for word in ("llama", "qwen3", None)]
    assert notes == [(), ("its architecture is called qwen3, and the reference's llama",), ()]


def test_a_reference_that_is_farther_from_the_exact_result_is_suspected(site, gains):
    one, other = (model(a=site(gains[0], accumulate_dtype=word)) for word in ("bfloat16", "float32"))
    record = audit(one, other, categories=("ordinary",))
    assert record.outcome == "reference_suspect"
    assert "Wherever it is rejected, the reference is farther from the exact result than the candidate." in (
        record.summary
    )
    assert "farther from the exact" not in audit(other, one, categories=("ordinary",)).summary


FORBID = Policy(rules=(Ulp(rule="ulp", max_ulp=1),), nonfinite="forbid")


def test_where_outputs_must_be_finite_each_site_is_run_whose_gains_differ(site, gains):
    """Both sides are the same NaN, so only running that very site shows it."""
    broken = gains[2].copy()
    broken[5] = np.nan
    sites = {f"layers.{i}.norm": site(gain) for i, gain in enumerate((*gains[:2], broken))}
    record = audit(model(**sites), model(**sites), FORBID, categories=("ordinary",))
    assert [(row.sites, row.verdict) for row in record.sites] == [
        (("layers.2.norm",), "rejected"),
        (("layers.{0-1}.norm",), "accepted"),
    ]
    assert record.summary.startswith("1 of 3 norms is rejected, in ordinary: 4 outputs are NaN or infinite")
    loose = audit(model(**sites), model(**sites), categories=("ordinary",))
    assert loose.outcome == "accepted"  # NaN equals NaN
    assert loose.scope.startswith("3 norms, of which 2 were run")  # so that another judgement may still forbid it
    assert gate.judge(loose, FORBID, digest=None, today=FACTS.today).outcome == "rejected"


def test_gains_under_which_outputs_may_overflow_are_run(site, gains):
    """√64 · 2^126 is beyond float32, 8 · 2^124 is not."""
    for exponent, run_ in ((124, 1), (126, 2)):
        sites = {"a": site(gains[0]), "b": site(np.full(64, 2.0**exponent, np.float32))}
        scope = audit(model(**sites), model(**sites), categories=("ordinary",)).scope
        assert scope.startswith(f"2 norms, of which {run_} was run" if run_ == 1 else "2 norms, run beside")


def test_gains_that_are_no_numbers_are_noted(site, gains):
    broken = gains[0].copy()
    broken[0] = np.inf
    record = audit(model(a=site(broken), b=site(gains[1])), model(a=site(gains[0]), b=site(gains[1])))
    assert record.reference.notes == ("gains with NaN or an infinity: a",)
    assert record.candidate.notes == ()
    assert record.sites[0].worst.nonfinite_mismatched > 0


def test_a_rejection_without_any_difference_says_why(site, gains):
    only_bfloat16 = Policy(rules=(Ulp(rule="ulp", max_ulp=1, when=When(output_dtype="bfloat16")),))
    one = {"a": site(gains[0]), "b": site(gains[1])}
    record = audit(model(**one), model(**one), only_bfloat16, categories=("ordinary",))
    assert record.outcome == "rejected"
    assert record.summary == (
        "2 of 2 norms are rejected, in ordinary: no row of the tolerance file covers category ordinary with output"
        " dtype float32."
    )


def test_the_scope_tells_how_many_sites_were_run(site, gains):
    same = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains[:3])}
    other = {name: site(side.gain, eps=1e-4) for name, side in same.items()}
    scopes = [audit(model(**same), model(**each), categories=("ordinary",)).scope for each in (same, other)]
    assert scopes[0].startswith("3 norms, of which 1 was run in 1 category of inputs; at the others both sides are")
    assert scopes[1].startswith("3 norms, run beside their counterparts in 1 category of inputs, computed as")


def test_a_finding_of_many_sites_names_the_one_that_was_taken_apart(site, gains):
    one = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains[:3])}
    other = {name: site(side.gain, eps=1e-4) for name, side in one.items()}
    record = audit(model(**one), model(**other), categories=("near-eps",))
    worst = record.sites[0].worst.site
    assert record.findings[0].evidence.endswith(f" Taken apart at {worst}, the farthest off of 3 sites.")
    alone = audit(model(a=site(gains[0])), model(a=site(gains[0], eps=1e-4)), categories=("near-eps",))
    assert "Taken apart" not in alone.findings[0].evidence


def test_other_values_are_told_under_the_names_of_their_sites(site, gains):
    one = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains[:6])}
    other = {name: site(side.gain * np.float32(1 + 2.0**-6)) for name, side in one.items()}
    record = audit(model(**one), model(**other), categories=("ordinary",))
    (finding,) = record.findings
    assert "(layers.0.norm); other values: 64 of 64 differ" in finding.claim
    assert finding.claim.endswith("(layers.3.norm); and 2 more sites.")
