"""The explainer: causes are recovered where they are, and none is told where there is none."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from rmsaudit.arrays import round_to
from rmsaudit.emulator import emulate
from rmsaudit.evidence import Evidence, Gathering
from rmsaudit.explain import Effort, explain, rank
from rmsaudit.semantics.resolve import fitted, resolve


def _script(name):
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


composites = _script("composites")
rewrites = _script("rewrites")
DEFAULTS, evidence, fed, presets, recovered = (
    getattr(composites, name) for name in ("DEFAULTS", "evidence", "fed", "presets", "recovered")
)

LLAMA = {**DEFAULTS, "width": 128, "input_dtype": "bfloat16", "eps": 1e-5, "cast_point": "before_gain"}
SINGLE = {**DEFAULTS, "width": 128, "eps": 1e-5}
QUICK = Effort(elements=10_000_000)
AUDITED = Effort(elements=20_000_000)  # the least that an audit spends


def black_box(words, box) -> Evidence:
    """What the explainer sees of `words` as the reference and a numpy function box(x, gain) as the candidate."""
    spec = resolve(words)
    gathering = Gathering(spec.width)
    with np.errstate(all="ignore"):
        for case in fed(spec, spec):
            gathering.add(case, emulate(fitted(spec, case.width), case), box(case.x, case.gain))
    return gathering.evidence()


def rms_norm(x, gain, *, eps=1e-5, total=None, root=np.sqrt, half="bfloat16"):
    """The reference's formula in float32, with the sum of squares done by `total`."""
    wide = x.astype(np.float32)
    squares = wide * wide
    summed = squares.sum(axis=-1, keepdims=True) if total is None else total(squares)
    mean = np.float32(summed / np.float32(x.shape[-1]))
    normalised = wide * (np.float32(1) / root(mean + np.float32(eps)))
    return round_to(round_to(normalised, half).astype(np.float32) * gain.astype(np.float32), half)


# --- single changes, by hand -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"eps": 1e-6},
        {"eps": 3.7e-7},
        {"eps_placement": "outside_sqrt"},
        {"eps_placement": "floor_rms", "eps": 1e-4},
        {"eps_placement": "none"},
        {"cast_point": "after_gain"},
        {"gain_offset": 1.0},
        {"gain_applied": False},
        {"center": True},
        {"groups": 4},
        {"axes": (-2,)},
        {"statistic_width": 127},
        {"statistic": "sum_square"},
        {"post_scale": 0.0625},
        {"compute_dtype": "float16"},
        {"square_dtype": "float16"},
        {"mean_dtype": "bfloat16"},
        {"input_clamp": 100.0},
        {"inverse_dtype": "bfloat16"},
        {"prescale": "max_abs"},
        {"output_clamp": 2.5},
        {"output_dtype": "float32"},
        {"subnormals": "flush"},
        {"rounding": "toward_zero"},
    ],
    ids=lambda change: "-".join(f"{name}={value}" for name, value in change.items()),
)
def test_a_change_is_recovered_exactly_with_its_number(change):
    found = explain(LLAMA, evidence(LLAMA, {**LLAMA, **change}), effort=QUICK).found
    assert found is not None
    assert found.match.word == "bit-equal"
    assert dict(found.changes) == change or change in found.same


@pytest.mark.parametrize("width", [128, 2048])
@pytest.mark.parametrize(
    "changes",
    [
        {"eps": 1e-6, "cast_point": "after_gain"},
        {"center": True, "gain_offset": 1.0},
        {"center": True, "input_clamp": 1000.0},
        {"prescale": "max_abs", "eps": 4e-4},
        {"statistic_width": 127, "input_clamp": 1000.0},
        {"axes": (-2,), "inverse_dtype": "float16"},
        {"post_scale": 0.5, "output_clamp": 2.0},
    ],
    ids=lambda changes: "-".join(map(str, changes)) if isinstance(changes, dict) else str(changes),
)
def test_two_changes_that_hide_each_other_are_recovered(width, changes):
    words = {**LLAMA, "width": width}
    found = explain(words, evidence(words, {**words, **changes}), effort=AUDITED).found
    assert found is not None
    assert found.match.word == "bit-equal"
    told = [dict(found.changes), *map(dict, found.same)]
    assert changes in told


def test_a_change_that_one_row_of_the_battery_shows_is_not_overlooked():
    half = {**LLAMA, "input_dtype": "float16", "gain_dtype": "float16"}
    clamped = {**half, "input_clamp": 65504.0}  # only infinite inputs become finite
    found = explain(half, evidence(half, clamped), effort=QUICK).found
    assert found is not None
    assert {"input_clamp": 65504.0} in [dict(found.changes), *map(dict, found.same)]


def test_a_change_that_these_inputs_cannot_show_is_not_claimed():
    gains_of_one_dtype = {**SINGLE, "gain_cast": "float32"}  # float32 gains are float32 already
    found = explain(SINGLE, evidence(SINGLE, gains_of_one_dtype), effort=QUICK)
    assert found.nothing_to_explain
    assert found.unchanged.word == "bit-equal"


def test_the_word_for_a_difference_of_order_is_rounding_and_no_cause_is_named():
    sequential = {**SINGLE, "accumulate_order": "sequential"}
    found = explain(SINGLE, evidence(SINGLE, sequential), effort=QUICK)
    assert found.unchanged.word == "explainable by rounding"
    assert found.found is None
    twin = explain(SINGLE, evidence(SINGLE, {**sequential, "eps": 2e-5}), effort=QUICK)  # must not be waved through
    assert twin.found is not None
    assert dict(twin.found.changes) == {"eps": 2e-5}


def test_alone_says_how_much_one_of_two_changes_does():
    both = {"eps": 1e-3, "cast_point": "after_gain"}
    seen = evidence(LLAMA, {**LLAMA, **both})
    found = explain(LLAMA, seen, effort=QUICK)
    shares = [found.alone({name: value}).match.share for name, value in both.items()]
    assert all(0.05 < share < 0.95 for share in shares)
    assert found.alone(both).match.share == 1.0
    assert "near-eps" in found.alone({"eps": 1e-3}).seen_in[:3]


def test_gains_that_are_applied_twice_are_told():
    def box(x, gain):
        squared = round_to(gain.astype(np.float64) ** 2, "bfloat16")  # folded into the stored gains, say
        return rms_norm(x, squared)

    found = explain(LLAMA, black_box(LLAMA, box), effort=QUICK).found
    assert found is not None
    assert dict(found.changes) == {"gain_values": "applied twice"}


def test_presets_are_ranked_with_the_equal_ones_first():
    words = {
        **DEFAULTS,
        **presets()["torch-rms-norm"],
        "width": 128,
        "input_dtype": "bfloat16",
        "gain_dtype": "bfloat16",
    }
    near = rank(words, evidence(words, words), presets())
    equal = {each.name for each in near if each.word == "bit-equal"}
    assert "torch-rms-norm" in equal
    assert "transformers-llama" not in equal
    assert [each.word is None for each in near] == sorted(each.word is None for each in near)


def test_evidence_of_many_rows_stays_small():
    spec = resolve(SINGLE)
    gathering = Gathering(spec.width)
    for case in fed(spec, spec, rows=200):
        output = emulate(fitted(spec, case.width), case)
        gathering.add(case, output, output)
    seen = gathering.evidence()
    assert max(case.rows for case in seen.cases) == 64
    assert all(case.whole == (case.rows < 64) for case in seen.cases)
    assert all(case.whole for case in seen.fed((-2,)))


# --- composites ------------------------------------------------------------------------------------------------------


COMPOSITES, OF_THEM = 8, 7  # `python tests/composites.py 500` is the long way


def test_composites_are_recovered():
    wrong = [number for number in range(COMPOSITES) if not recovered(composites.draw(f"quick/{number}", True))]
    assert COMPOSITES - len(wrong) >= OF_THEM, wrong


# --- equivalent rewrites: no false cause -----------------------------------------------------------------------------


def in_chunks(size):
    def total(squares):
        parts = [squares[:, at : at + size].sum(axis=-1, keepdims=True) for at in range(0, squares.shape[-1], size)]
        found = np.zeros_like(parts[0])
        for part in parts:
            found = found + part
        return found

    return total


def shuffled(seed):
    def total(squares):
        order = np.random.default_rng(seed).permutation(squares.shape[-1])
        return np.add.accumulate(squares[:, order], axis=-1)[:, -1:]

    return total


def in_float64(squares):
    return squares.astype(np.float64).sum(axis=-1, keepdims=True).astype(np.float32)


def reductions():
    yield from (in_chunks(size) for size in (3, 5, 8, 16, 24, 31, 64, 100))
    yield from (shuffled(seed) for seed in range(22))
    yield in_float64


@pytest.mark.parametrize("half", ["bfloat16", "float32"])
def test_equivalent_rewrites_give_no_cause(half):
    words = LLAMA if half == "bfloat16" else SINGLE
    told = []
    for total in reductions():
        found = explain(words, black_box(words, lambda x, gain, t=total: rms_norm(x, gain, total=t, half=half)))
        if not found.nothing_to_explain:
            told.append((found.found and found.found.changes, found.unchanged))
    assert not told


REWRITES = 12  # `python tests/rewrites.py 500` is the long way


def test_presets_with_another_reduction_give_no_cause_but_the_reduction():
    named = {}
    for number in range(REWRITES):
        rewrite = rewrites.draw(f"quick/{number}")
        found = explain(rewrite.words, rewrites.evidence(rewrite), starts=presets, effort=QUICK)
        if rewrites.false_causes(found) or not (found.nothing_to_explain or found.found):
            named[rewrite.label] = rewrites.false_causes(found)
    assert not named


def test_what_is_written_out_is_the_preset_bit_for_bit_under_the_same_reduction():
    def total(squares):  # the first half plus the second half, again and again, as the presets declare it
        while (size := squares.shape[-1]) > 1:
            half = size // 2
            added = squares[:, :half] + squares[:, half : 2 * half]
            squares = added if size == 2 * half else np.concatenate([added, squares[:, -1:]], axis=-1)
        return squares

    compared = 0
    for known in presets().values():
        spec = resolve({**DEFAULTS, **known, "width": 96, "input_dtype": "bfloat16", "gain_dtype": "bfloat16"})
        if not rewrites.is_written_out(spec) or spec.accumulate_order != "pairwise":
            continue
        compared += 1
        for case in (case for case in fed(spec, spec, rows=2) if case.width == spec.width):
            with np.errstate(all="ignore"):
                one = rewrites.norm(spec, case.x, case.gain, total=total)
            two = emulate(spec, case)
            assert one.dtype == two.dtype
            assert np.array_equal(one.astype(np.float64), two.astype(np.float64), equal_nan=True)
    assert compared > 20


# --- decoys: nothing is claimed that is not true ---------------------------------------------------------------------


def softmax(x, gain):
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=-1, keepdims=True))
    return round_to(e / e.sum(axis=-1, keepdims=True) * gain.astype(np.float64), "bfloat16")


def noise(x, gain):
    return round_to(np.random.default_rng(x.shape[-1]).normal(size=x.shape), "bfloat16")


def other_exponent(x, gain):
    wide = np.abs(x.astype(np.float64))
    return round_to(x.astype(np.float64) / (np.mean(wide**3, axis=-1, keepdims=True) + 1e-5) ** (1 / 3), "bfloat16")


def quantised(x, gain):
    y = rms_norm(x, gain).astype(np.float64)
    step = np.abs(y).max(axis=-1, keepdims=True) / 127
    return round_to(np.rint(y / step) * step, "bfloat16")


def noisy(x, gain):
    y = rms_norm(x, gain).astype(np.float64)
    return round_to(y * (1 + 0.05 * np.random.default_rng(x.shape[-1]).normal(size=x.shape)), "bfloat16")


def batch_norm(x, gain):
    wide = x.astype(np.float64)
    return round_to((wide - wide.mean()) / (wide.std() + 1e-5) * gain.astype(np.float64), "bfloat16")


def largest(x, gain):
    wide = x.astype(np.float64)
    return round_to(wide / (np.abs(wide).max(axis=-1, keepdims=True) + 1e-5) * gain.astype(np.float64), "bfloat16")


def absolute(x, gain):
    wide = x.astype(np.float64)
    return round_to(wide / (np.abs(wide).mean(axis=-1, keepdims=True) + 1e-5) * gain.astype(np.float64), "bfloat16")


def root_twice(x, gain):
    wide = x.astype(np.float64)
    ms = np.mean(wide * wide, axis=-1, keepdims=True)
    return round_to(wide / (np.sqrt(np.sqrt(ms)) + 1e-5) * gain.astype(np.float64), "bfloat16")


def tanh(x, gain):
    return round_to(np.tanh(x.astype(np.float64)) * gain.astype(np.float64), "bfloat16")


def zeros(x, gain):
    return np.zeros_like(x)


def identity(x, gain):
    return x.copy()


@pytest.mark.parametrize(
    "decoy",
    [
        softmax,
        noise,
        other_exponent,
        quantised,
        noisy,
        batch_norm,
        largest,
        absolute,
        root_twice,
        tanh,
        zeros,
        identity,
    ],
)
def test_decoys_are_left_unexplained(decoy):
    found = explain(LLAMA, black_box(LLAMA, decoy), starts=presets, effort=Effort(elements=3_000_000))
    assert not found.nothing_to_explain
    assert found.found is None
    assert found.partial is None


def test_an_approximate_inverse_is_no_rounding_and_gets_no_cause():
    def rough(values):
        return (np.sqrt(values.astype(np.float64)) * (1 + 2.5e-4)).astype(np.float32)

    found = explain(SINGLE, black_box(SINGLE, lambda x, g: rms_norm(x, g, root=rough, half="float32")), effort=QUICK)
    assert found.unchanged.word is None
    assert found.found is None or set(found.found.changes) == {"post_scale"}  # 1/(1 + 2.5e-4) is what it is
