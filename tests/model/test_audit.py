"""The audit of models made by hand."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from rmsaudit.audit import Facts, Judgement
from rmsaudit.errors import CouldNotRun
from rmsaudit.model import work
from rmsaudit.model.audit import Model, Plan, run
from rmsaudit.record import Environment, Replay
from rmsaudit.tolerance import Exact, Policy, Ratio, Ulp

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
    one = {f"layers.{i}.norm": site(gain) for i, gain in enumerate(gains[:20])}  # more than a portion
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
    with pytest.raises(CouldNotRun, match="no norm of by hand has a counterpart"):
        audit(model(a=site(gains[0])), model(b=site(gains[0][:32])))


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
