"""What is applied decides: conversions that store the same norm otherwise, and those that do not."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.case import Case
from rmsaudit.emulator import emulate
from rmsaudit.model.matched import Matched, Model
from rmsaudit.model.relation import index, relate
from rmsaudit.model.sites import eps_in_use, over_heads

ZEROED = {"gain_offset": 1.0}


def relation(pair, *others):
    return relate(pair, index([pair, *others]))


def test_the_same_gains_are_identical(site, pair, drawn):
    same = pair(site(drawn), site(drawn))
    assert same.is_same
    assert relation(same).says == "identical"


def test_one_that_is_folded_in_is_the_same_norm(site, pair, drawn):
    around_zero = drawn - np.float32(1)
    folded = pair(site(around_zero, **ZEROED), site(around_zero + np.float32(1)))
    assert folded.is_same
    assert relation(folded).says == "equal: +1 is folded in"


@pytest.mark.parametrize(
    ("added", "says"),
    [(0.0, "1 too small: the offset is missing"), (2.0, "1 too large: added twice")],
)
def test_an_offset_that_is_missing_or_added_twice_is_the_variable(site, pair, drawn, added, says):
    around_zero = drawn - np.float32(1)
    wrong = pair(site(around_zero, **ZEROED), site((around_zero + np.float32(added)).astype(np.float32)))
    assert not wrong.is_same
    assert relation(wrong).says == says
    assert wrong.restated.candidate.spec.gain_offset == added


def test_rounded_gains_are_the_variable_and_return_the_same_bits_restated(site, pair, drawn):
    rounded = drawn.astype(ml_dtypes.bfloat16).astype(np.float32)
    wrong = pair(site(drawn), site(rounded))
    assert relation(wrong).says == "rounded to bfloat16"
    x = np.random.default_rng(6).normal(size=(3, 16)).astype(np.float32)
    zeros = np.zeros_like(x)
    outputs = [
        emulate(each.spec, Case(category="", label="", x=x, gain=each.gain, bias=zeros[0], residual=zeros))
        for each in (wrong.candidate, wrong.restated.candidate)
    ]
    assert np.array_equal(*outputs)


def test_gains_of_another_site_are_named(site, pair, drawn):
    other = pair(site(drawn * np.float32(2)), site(drawn * np.float32(2)), "model.layers.1.input_layernorm")
    wrong = pair(site(drawn), site(drawn * np.float32(2)))
    found = relation(wrong, other)
    assert (found.kind, found.site) == ("of another site", "model.layers.1.input_layernorm")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (np.ones_like, "all ones"),
        (lambda gain: gain[::-1].copy(), "reverse order"),
        (lambda gain: np.roll(gain, 1), "moved on by one"),
        (lambda gain: -gain, "sign"),
        (lambda gain: gain * np.float32(1.01), "other values: 16 of 16 differ, by up to 0.01"),
    ],
)
def test_other_gains_are_told_by_what_they_are(site, pair, drawn, change, says):
    found = relation(pair(site(drawn), site(change(drawn))))
    assert found.kind == "other"
    assert says in found.says


def test_gains_on_one_side_only_are_not_the_same(site, pair, drawn):
    wrong = pair(site(drawn), site(None, width=16))
    assert not wrong.is_same


def test_an_eps_that_is_equal_in_its_own_dtype_is_the_same_norm(site, pair, drawn):
    stored = float(np.float32(1e-5))
    assert stored != 1e-5
    assert pair(site(drawn), site(drawn, eps=stored)).is_same
    assert not pair(site(drawn), site(drawn, eps=1.0001e-5)).is_same


def test_one_norm_over_all_heads_becomes_groups_against_one(site, drawn):
    head, wide = site(drawn), site(np.tile(drawn, 4))
    reference, candidate = over_heads(head, wide)
    assert (reference.spec.width, reference.spec.groups) == (64, 4)
    assert (candidate.spec.width, candidate.spec.groups) == (64, 1)
    reference, candidate = over_heads(wide, head)
    assert (reference.spec.groups, candidate.spec.groups) == (1, 4)


def test_widths_that_are_no_multiples_do_not_fit(site, drawn):
    assert over_heads(site(drawn), site(drawn[:10])) is None
    assert over_heads(site(drawn), site(drawn)) is None


def test_sites_meet_below_the_roots_of_their_models(site, drawn):
    """A language model alone, and the same one in a model with eyes."""
    names = ("norm", "layers.0.input_layernorm")
    alone = {f"model.{name}": replace(site(drawn), below=name) for name in names}
    inside = {f"model.language_model.{name}": replace(site(drawn), below=name) for name in names}
    matched = Matched(model(alone), model(inside))
    assert [pair.name for pair in matched.pairs] == list(alone)
    assert not matched.broken


def test_a_path_that_two_sites_share_matches_neither(site, drawn):
    alone = {"model.norm": replace(site(drawn), below="norm")}
    twice = {f"{tower}.norm": replace(site(drawn), below="norm") for tower in ("text", "vision")}
    matched = Matched(model(alone), model(twice))
    assert not matched.pairs
    assert matched.broken == ("model.norm: in the reference only", "text.norm, vision.norm: in the candidate only")


def model(sites):
    return Model(name="by hand", format="huggingface", architecture=None, sites=sites, files={})


def test_a_constant_is_no_rounding_of_gains_that_are_none(site, pair):
    """Near 1, float8_e5m2 has steps of 1/8 below and 1/4 above: all of these round to 1."""
    near = np.linspace(0.95, 1.1, 16, dtype=np.float32)
    assert relation(pair(site(near), site(np.ones_like(near)))).says == "all ones"
    short = near.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert len(set(short.tolist())) > 1
    assert relation(pair(site(near), site(short))).says == "rounded to float8_e4m3fn"


def test_a_constant_of_a_constant_may_be_rounded(site, pair):
    level = np.full(16, 0.983, np.float32)
    short = level.astype(ml_dtypes.bfloat16).astype(np.float32)
    assert relation(pair(site(level), site(short))).says == "rounded to bfloat16"


def test_an_eps_beyond_its_dtype_is_infinite(site):
    assert eps_in_use(site([1.0] * 8, eps=1e300).spec) == np.inf
