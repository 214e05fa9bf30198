"""Whole readings of declared norms. What live torch makes of the same questions: tests/frameworks/test_inversion.py."""

from dataclasses import replace

import numpy as np
import pytest

from rmsaudit.arrays import dtype_of, round_to
from rmsaudit.emulator import emulate_arrays
from rmsaudit.inversion import CannotAsk, NotThisFamily, Observed, Reading, explainable, read
from rmsaudit.semantics.resolve import resolve

DTYPES = ("float32", "float16", "bfloat16")


def reading(run, dtype="float32", **asked):
    found = read(run, input_dtype=dtype, gain_dtype=dtype, **asked)
    assert isinstance(found, Reading), found
    return found


# --- eps -------------------------------------------------------------------------------------------------------------

PLACEMENTS = ("inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm")
LEAST_DIGITS = {"float32": 5, "float16": 4, "bfloat16": 4}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_random_eps_are_read_and_never_excluded(box, dtype, placement):
    rng = np.random.default_rng(PLACEMENTS.index(placement))
    # float16's smallest rows have an rms of 5e-9 at width 256, so a floor or a summand below that is out of its reach.
    least = -7 if dtype == "float16" and placement not in ("inside_sqrt", "inside_sum") else -12
    for exponent in rng.uniform(least, -1, 2):
        eps = float(10**exponent)
        found = reading(box(dtype, eps=eps, eps_placement=placement), dtype)
        placed = found.eps.placed(placement)
        assert {p.placement for p in found.eps.standing} - {"floor_sum"} == {placement}
        assert placed.contains(eps)
        assert placed.digits >= LEAST_DIGITS[dtype], (eps, placed)
        assert found.statistic_precision == "float32"


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_eps(box, dtype):
    found = reading(box(dtype, eps_placement="none"), dtype)
    assert not found.eps.acts
    assert found.eps.placed("none")
    assert found.structure.zero_row == "NaN"
    assert any(note.startswith("eps: none needs to act") for note in found.not_observable)
    assert next(found.variants())["eps_placement"] == "none"


def test_an_eps_below_what_float16_holds_is_not_observable_and_not_denied(box):
    found = reading(box("float16", eps=1e-10, eps_placement="floor_rms"), "float16")
    assert not found.eps.acts
    assert found.eps.placed("floor_rms").contains(1e-10)
    assert any("rms 2^-27.5, the smallest that were asked about (float16)" in note for note in found.not_observable)


def test_the_number_that_was_written(box):
    assert str(reading(box(eps=1e-5)).number(reading(box(eps=1e-5)).likeliest)) == "1e-05"
    found = reading(box("float16", eps=1e-6, eps_dtype="float16"), "float16")
    assert str(found.number(found.likeliest)) == "1e-06 rounded to float16"
    found = reading(box("bfloat16", eps=None, compute_dtype="float32"), "bfloat16")
    assert found.number(found.likeliest).story == "machine epsilon of float32"
    found = reading(box(eps=3e-6**0.5, eps_placement="floor_rms"))
    assert found.number(found.likeliest).story == "the root of 3e-06"


def test_one_width_leaves_the_mean_and_the_sum_and_says_so(box):
    found = reading(box(eps=1e-6), widths=(256,))
    assert {placed.placement for placed in found.eps.standing} == {"inside_sqrt", "inside_sum"}
    assert any("one width cannot tell" in note for note in found.not_observable)
    assert found.likeliest.placement == "inside_sqrt"  # 1e-6 is a shorter number than 0.000256


def test_a_second_width_that_the_box_refuses_is_noted(box):
    run = box(eps=1e-6)

    def only_256(x, gain, eps):
        if x.shape[-1] != 256:
            raise CannotAsk("it was built for 256")
        return run(x, gain, eps)

    found = reading(only_256)
    assert found.widths == (256,)
    assert "width 64: it was built for 256" in found.not_observable


def test_a_width_of_a_few_elements_is_refused(box):
    with pytest.raises(ValueError, match="width 4 has too few elements"):
        read(box(), input_dtype="float32", gain_dtype="float32", widths=(64, 4))


# --- what becomes of an eps that is asked for ------------------------------------------------------------------------


def test_an_eps_that_is_used(box):
    argument = reading(box("bfloat16"), "bfloat16", asked=(1e-5, 1e-8, 1e-12)).argument
    assert argument.use == "used"


def test_a_hidden_minimum(box):
    """As MIGraphX has it for float16: a smaller eps becomes 1e-7."""
    for dtype in DTYPES:
        argument = reading(box(dtype, eps_min=1e-7), dtype, asked=(1e-5, 1e-12)).argument
        assert (argument.use, str(argument.value)) == ("minimum", "1e-07"), dtype


def test_an_eps_that_is_ignored(box):
    run = box(eps=1e-5)
    argument = reading(lambda x, gain, _: run(x, gain, None), asked=(1e-6, 1e-3)).argument
    assert (argument.use, str(argument.value)) == ("ignored", "1e-05")
    argument = reading(box(eps_placement="none"), asked=(1e-6, 1e-3)).argument
    assert (argument.use, argument.value) == ("ignored", None)


def test_an_eps_that_is_rounded(box):
    argument = reading(box("float16", eps_dtype="float16"), "float16", asked=(1e-6, 3e-5)).argument
    assert (argument.use, argument.dtype) == ("rounded", "float16")


def test_an_eps_that_is_changed(box):
    run = box()
    argument = reading(lambda x, gain, eps: run(x, gain, 3 * eps), asked=(1e-6, 1e-4)).argument
    assert argument.use == "changed"


def test_an_eps_that_these_rows_cannot_show(box):
    argument = reading(box("float16", eps_placement="floor_rms"), "float16", asked=(1e-12, 1e-11)).argument
    assert argument.use == "not observable"


# --- the rest of a declaration ---------------------------------------------------------------------------------------

OTHERS = {
    "centred": {"center": True},
    "groups": {"groups": 4},
    "partial": {"statistic_width": 0.25},
    "variance": {"statistic": "variance"},
    "sum": {"statistic": "sum_square", "eps_placement": "floor_rms"},
    "scaled by √n": {"post_scale": "sqrt_width"},
    "offset": {"gain_offset": 1.0},
    "offset in 16 bits": {"gain_offset": 1.0, "gain_offset_dtype": "gain"},
    "no gain": {"gain_applied": False},
    "cast first": {"cast_point": "before_gain"},
    "product first": {"association": "(x*g)*i"},
    "eps of the sum": {"eps_placement": "inside_sum", "eps": 2.56e-4},
    "sequential": {"accumulate_order": "sequential", "inverse": "rsqrt"},
    "relative to the largest": {"prescale": "max_abs", "eps": 1e-3},
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", OTHERS)
def test_what_was_read_re_creates_the_box_up_to_rounding(spec, box, make_case, dtype, kind):
    """The declaration that is read, run on rows that it was not read from, against the box."""
    words = OTHERS[kind]
    found = reading(box(dtype, **words), dtype)
    known = {"width": 64, "input_dtype": dtype, "gain_dtype": dtype}
    case = make_case(dtype, 64, 5)
    true = Observed(spec(dtype, **words), run_spec(spec(dtype, **words), case))
    verdicts = []
    for variant in found.variants():
        declared = resolve({**known, **variant})
        verdicts.append(explainable(case, true, Observed(declared, run_spec(declared, case))))
    assert not any(verdict.not_explainable for verdict in verdicts), found
    if "center" not in words and words.get("statistic") != "variance":
        assert verdicts[0].explainable + verdicts[0].equal > 48


def run_spec(declared, case):
    return emulate_arrays(declared, case.x, case.gain, case.bias, case.residual)


def test_elements_left_out_of_the_sum_but_not_of_the_count(make_case):
    """Σ over 63 of 64 elements, divided by 64: not a mean of either, and still one declaration."""

    def run(x, gain, eps):
        squares = (x[:, :-1].astype(np.float64) ** 2).sum(axis=-1, keepdims=True) / x.shape[-1]
        return (x * gain / np.sqrt(squares + (1e-4 if eps is None else eps))).astype(np.float32)

    found = reading(run, widths=(64,))
    assert (found.divisor.over, sum(found.structure.counted)) == ("all", 63)
    case = make_case("float32", 64, 6)
    declared = resolve({"width": 64, **next(found.variants())})
    np.testing.assert_allclose(run_spec(declared, case), run(case.x, case.gain, None), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_statistic_in_16_bits_is_named_and_its_eps_kept(box, dtype):
    words = {"compute_dtype": dtype, "accumulate_dtype": "float32", "eps": 2e-4}
    found = reading(box(dtype, **words), dtype)
    assert found.statistic_precision == dtype
    assert found.eps.placed("inside_sqrt").contains(2e-4)
    assert found.structure.cast_point == "before_gain"  # in 16 bits nothing is ever held unrounded


def test_float64(box):
    found = reading(box("float64", compute_dtype="float64", eps=1.23456789e-6), "float64")
    assert found.statistic_precision == "float64"
    assert found.eps.placed("inside_sqrt").contains(1.23456789e-6)
    assert found.eps.placed("inside_sqrt").digits > 12
    assert str(found.number(found.likeliest)) == "1.23456789e-06"


def test_another_output_dtype_than_declared_is_noted(box):
    found = reading(box("bfloat16", output_dtype="float32"), "bfloat16", output_dtype="bfloat16")
    assert "output_dtype: it is float32; bfloat16 was declared" in found.not_observable


def test_inputs_that_are_flushed_are_noted_and_not_held_against_it(box):
    run = box("float16", eps=1e-5)

    def flushing(x, gain, eps):
        return run(np.where(np.abs(x) < 2.0**-14, dtype_of("float16").type(0), x), gain, eps)

    found = reading(flushing, "float16")
    assert found.eps.placed("inside_sqrt").contains(1e-5)
    assert any("subnormal float16 inputs come out as zeros" in note for note in found.not_observable)


# --- abstention ------------------------------------------------------------------------------------------------------


def softmax(x, gain, _):
    e = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True).astype(np.float64))
    return e / e.sum(axis=-1, keepdims=True) * gain


def learned_exponent(power):
    def run(x, gain, _):
        ms = (x.astype(np.float64) ** 2).mean(axis=-1, keepdims=True)
        return x / (ms + 1e-6) ** power * gain

    return run


def random_outputs(x, gain, _):
    return np.random.default_rng(0).standard_normal(x.shape) * (np.abs(x) > 0) * gain


def layer_norm_with_bias(x, gain, _):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(centred.var(axis=-1, keepdims=True) + 1e-5) * gain + np.linspace(-0.1, 0.1, x.shape[-1])


def rms(x, gain, _):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * gain


def quantised(x, gain, eps):
    y = rms(x, gain, eps)
    step = np.maximum(np.abs(y).max(axis=-1, keepdims=True), 1e-30) / 127
    return np.rint(y / step) * step


def noisy(x, gain, eps):
    return rms(x, gain, eps) * (1 + 0.01 * np.random.default_rng().standard_normal(x.shape))


def same_noise_each_time(x, gain, eps):
    return rms(x, gain, eps) * (1 + 0.02 * np.random.default_rng(1).standard_normal(x.shape))


def over_rows(x, gain, _):
    return x / np.sqrt((x**2).mean(axis=0, keepdims=True) + 1e-6) * gain


def mean_of_magnitudes(x, gain, _):
    return x / (np.abs(x).mean(axis=-1, keepdims=True) + 1e-6) * gain


def by_the_largest(x, gain, _):
    return x / (np.abs(x).max(axis=-1, keepdims=True) + 1e-6) * gain


def two_roots(x, gain, _):
    return x / ((x**2).mean(axis=-1, keepdims=True) + 1e-6) ** 0.25 * gain


def gated(x, gain, eps):
    return rms(x, gain, eps) / (1 + np.exp(-x))


def capped(x, gain, eps):
    return 3 * np.tanh(rms(x, gain, eps) / 3)


def identity(x, gain, _):
    return x * gain


def fourth_power(x, gain, _):
    return x / ((x**4).mean(axis=-1, keepdims=True) + 1e-9) ** 0.25 * gain


DECOYS = {
    softmax: "a row of zeros gives",
    learned_exponent(0.45): "no eps at any placement",
    learned_exponent(0.499): "follows rms^-0.99",
    random_outputs: "",
    layer_norm_with_bias: "a row of zeros gives",
    quantised: "not x times one factor",
    noisy: "two calls with the same input differ",
    same_noise_each_time: "not x times one factor",
    over_rows: "scaling row 0 alone changes",
    mean_of_magnitudes: "neither the factor of a mean square",
    by_the_largest: "neither the factor of a mean square",
    two_roots: "neither the factor of a mean square",
    gated: "not x times one factor",
    capped: "not x times one factor",
    identity: "nothing is normalised",
    fourth_power: "neither the factor of a mean square",
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("decoy", DECOYS, ids=lambda decoy: decoy.__name__)
def test_what_is_no_rms_norm_is_not_called_one(decoy, dtype):
    def run(x, gain, eps):
        return round_to(decoy(x.astype(np.float64), gain.astype(np.float64), eps), dtype)

    found = read(run, input_dtype=dtype, gain_dtype=dtype)
    assert isinstance(found, NotThisFamily), found
    assert DECOYS[decoy] in found.says


def test_the_same_arithmetic_without_the_disguise_is_read():
    """The twin: `rms`, of which most decoys are made, is recognised."""
    found = reading(lambda x, gain, _: round_to(rms(x.astype(np.float64), gain.astype(np.float64), None), "float32"))
    assert found.eps.placed("inside_sqrt").contains(1e-6)


def test_a_running_sum_in_16_bits_is_not_denied_to_be_an_rms_norm(box):
    """bfloat16 stops adding; the rows contradict, and the words leave that possibility open."""
    run = box("bfloat16", compute_dtype="bfloat16", accumulate_order="sequential", width=1024)
    found = read(run, input_dtype="bfloat16", gain_dtype="bfloat16", widths=(1024,))
    assert isinstance(found, NotThisFamily)
    assert "unless their squares are added up in 16 bits" in found.says or "neither the factor" in found.says


def test_replacing_eps_alone_changes_what_is_read(spec, box):
    """A reading is of the box and not of what the test wrote: another eps, another number."""
    assert reading(box(eps=2e-6)).likeliest.contains(2e-6)
    assert not reading(box(eps=2e-6)).likeliest.contains(replace(spec(eps=1e-6)).eps)
