"""The ladder against single emulations: every rung is what it says, and the last one is the candidate."""

import random

import numpy as np
import pytest

from rmsaudit import battery
from rmsaudit.battery import Setup
from rmsaudit.emulator import emulate
from rmsaudit.ladder import GAIN, Ladder, differing, plan, unequal
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import CannotResolve, resolve

LLAMA = {"width": 64, "eps": 1e-5, "input_dtype": "bfloat16", "cast_point": "before_gain"}
FUSED = {**LLAMA, "eps": 1e-6, "cast_point": "after_gain"}


def declared(**words):
    return {name: words.get(name, v.default) for name, v in variables().items()}


def cases(reference, candidate, *names):
    setup = Setup(reference=resolve(reference), candidate=resolve(candidate), rows=4)
    return [case for _, built in battery.build(setup, names) for case in built]


def test_rungs_are_the_differing_words_in_stage_order():
    rungs = plan(declared(**LLAMA), declared(**FUSED), gains_differ=False)
    assert [rung.variable for rung in rungs] == ["eps", "cast_point"]
    assert (rungs[0].from_, rungs[0].to) == (1e-5, 1e-6)


def test_what_merely_follows_is_no_rung_and_says_whom_it_follows():
    half = declared(width=64, input_dtype="bfloat16")
    wide = {**half, "compute_dtype": "float64"}
    assert [rung.variable for rung in plan(half, wide, gains_differ=False)] == ["compute_dtype"]
    followers = {d.variable: d.follows for d in differing(half, wide)}
    assert followers["compute_dtype"] is None
    assert followers["accumulate_dtype"] == followers["statistic_dtype"] == "compute_dtype"


def test_alone_cumulative_and_reverted_are_the_specs_they_say():
    first, second = plan(declared(**LLAMA), declared(**FUSED), gains_differ=False)
    assert first.alone.spec == resolve(declared(**{**LLAMA, "eps": 1e-6}))
    assert first.reverted.spec == resolve(declared(**{**FUSED, "eps": 1e-5}))
    assert second.alone.spec == resolve(declared(**{**LLAMA, "cast_point": "after_gain"}))
    assert second.cumulative.spec == resolve(declared(**FUSED))


CHOICES = {
    "eps": [1e-6, 1e-5, 1e-3],
    "eps_placement": ["inside_sqrt", "outside_sqrt", "floor_rms", "none"],
    "cast_point": ["before_gain", "after_gain"],
    "compute_dtype": ["float32", "input", "float64"],
    "accumulate_dtype": ["compute", "float32", "float64"],
    "accumulate_order": ["pairwise", "sequential", "lanes:8"],
    "association": ["(x*i)*g", "(x*g)*i", "x*(i*g)"],
    "gain_offset": [0.0, 1.0],
    "inverse": ["rsqrt", "reciprocal_of_sqrt", "divide_by_sqrt"],
    "output_dtype": ["input", "float32", "product"],
    "center": [False, True],
}


@pytest.mark.parametrize("seed", range(40))
def test_the_last_cumulative_rung_is_the_candidate(seed):
    draw = random.Random(seed)

    def side():
        while True:
            words = {name: draw.choice(values) for name, values in CHOICES.items()}
            try:
                resolve(found := declared(width=64, input_dtype="bfloat16", **words))
            except CannotResolve:
                continue
            return found

    reference, candidate = side(), side()
    rungs = plan(reference, candidate, gains_differ=False)
    if rungs:
        assert rungs[-1].cumulative.spec == resolve(candidate)
    else:
        assert resolve(reference) == resolve(candidate)


def test_a_change_that_cannot_stand_alone_says_why():
    gain_first = declared(width=64, association="(x*g)*i")
    cast = declared(width=64, cast_point="before_gain")
    by_name = {rung.variable: rung for rung in plan(gain_first, cast, gains_differ=False)}
    assert by_name["cast_point"].alone is None
    assert "association" in by_name["cast_point"].impossible
    assert by_name["association"].alone is not None


def test_numbers_of_a_rung_are_those_of_its_own_emulation():
    reference, candidate = declared(**LLAMA), declared(**FUSED)
    ladder = Ladder(plan(reference, candidate, gains_differ=False))
    case = cases(reference, candidate, "near-eps")[0]
    outputs = [emulate(resolve(words), case) for words in (reference, candidate)]
    ladder.climb(case, case.gain, *outputs)
    alone = emulate(resolve({**reference, "eps": 1e-6}), case)
    climb = ladder.climbs["eps", "near-eps"]
    assert climb.alone.differing == np.count_nonzero(alone.astype(float) != outputs[0].astype(float))
    assert climb.differing == np.count_nonzero(outputs[1].astype(float) != outputs[0].astype(float))
    assert climb.left == np.count_nonzero(outputs[1].astype(float) != alone.astype(float))


def test_gains_that_differ_are_the_last_rung():
    same = declared(width=64)
    (only,) = plan(same, same, gains_differ=True)
    assert only.variable == GAIN
    case = cases(same, same, "ordinary")[0]
    ladder = Ladder((only,))
    doubled = case.gain * 2
    outputs = emulate(resolve(same), case), emulate(resolve(same), case.with_gain(doubled))
    ladder.climb(case, doubled, *outputs)
    climb = ladder.climbs[GAIN, "ordinary"]
    assert climb.left == 0
    assert climb.reverted.differing == 0
    assert climb.alone.max_rel_error == 1.0  # exactly twice


def test_unequal_counts_bits_within_a_dtype_and_values_across():
    zero, nan = np.array([0.0, -0.0, np.nan], np.float32), np.array([-0.0, -0.0, np.nan], np.float32)
    assert unequal(zero, nan).tolist() == [True, False, False]
    assert unequal(zero, zero.astype(np.float64)).tolist() == [False, False, False]
