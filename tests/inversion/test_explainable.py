from dataclasses import replace

import numpy as np
import pytest

from rmsaudit.arrays import bits, round_to
from rmsaudit.emulator import emulate
from rmsaudit.inversion import Observed, explainable
from rmsaudit.inversion.explainable import FORMULA, ElementWitness, RowWitness
from rmsaudit.semantics import variables
from rmsaudit.semantics.resolve import CannotResolve, resolve


def observed(spec, case):
    return Observed(spec, emulate(spec, case))


def rows_at(rms, dtype, width, count=8, seed=0):
    drawn = np.random.default_rng(seed).standard_normal((count, width))
    return round_to(drawn * rms / np.sqrt((drawn**2).mean(axis=-1, keepdims=True)), dtype)


# --- no false alarm --------------------------------------------------------------------------------------------------


def pair_of_one_formula(rng):
    """Two specs that compute the same function in dtypes, orders and associations of their own."""

    def pick(*words):
        return words[rng.integers(len(words))]

    dtype = pick("float32", "bfloat16", "float16")
    formula = {
        "width": int(pick(16, 24, 33, 48, 64)),
        "input_dtype": dtype,
        "gain_dtype": pick(dtype, "float32"),
        "eps": float(10 ** rng.uniform(-9, -2)),
        "eps_placement": pick(
            "inside_sqrt", "inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm", "floor_sum", "none"
        ),
        "groups": 1,
        "statistic_width": pick("all", "all", 0.5),
        "statistic": pick("mean_square", "mean_square", "sum_square"),
        "gain_offset": pick(0.0, 0.0, 1.0),
        "gain_applied": pick(True, True, True, False),
        "post_scale": pick("none", "none", "sqrt_width", 0.7),
        "prescale": pick("none", "none", "none", "max_abs"),
        "residual": pick("none", "none", "none", "add"),
    }
    if formula["width"] % 8 == 0:
        formula["groups"] = pick(1, 1, 2, 4)
    made = []
    while len(made) < 2:
        way = {
            "compute_dtype": pick("float32", "float32", "float64", dtype),
            "square_dtype": pick("compute", "compute", "float32", dtype),
            "accumulate_dtype": pick("compute", "float32", "float64", dtype),
            "mean_dtype": pick("statistic", "statistic", "float32", dtype),
            "statistic_dtype": pick("compute", "compute", "float32", dtype),
            "inverse_dtype": pick("statistic", "statistic", "float32", dtype),
            "eps_dtype": pick("statistic", "float32", "float64"),
            "accumulate_order": pick("pairwise", "sequential", "torch_cpu", "lanes:8", "blocks:16", "exact"),
            "mean_scaling": pick("divide_by_n", "multiply_by_reciprocal", "per_element", "after_root"),
            "statistic_algorithm": pick("direct", "direct", "max_scaled"),
            "inverse": pick("rsqrt", "reciprocal_of_sqrt", "divide_by_sqrt"),
            "association": pick("(x*i)*g", "(x*i)*g", "(x*g)*i", "x*(i*g)"),
            "cast_point": pick("before_gain", "after_gain", "weight_if_half"),
            "gain_cast": pick("none", "none", dtype),
            "gain_offset_dtype": pick("compute", "float32", dtype),
            "statistic_source": pick("rounded", "unrounded"),
            "numerator_source": pick("rounded", "unrounded"),
            "output_dtype": pick(dtype, dtype, "float32"),
            "rounding": pick("nearest_even", "nearest_even", "nearest_even", "toward_zero"),
            "subnormals": pick("keep", "keep", "keep", "flush"),
        }
        if way["association"] != "(x*i)*g":
            way["cast_point"] = "after_gain"
        try:
            made.append(resolve({**formula, **way}))
        except CannotResolve:
            if not made:
                return pair_of_one_formula(rng)
    return made


def test_no_two_specs_of_one_formula_are_called_different(make_case):
    """240 pairs, 64 rows each and more with groups. Those that leave the range of their formats are not decided."""
    rng = np.random.default_rng(6)
    differing, decided, closest = 0, 0, 0.0
    for seed in range(240):
        one, other = pair_of_one_formula(rng)
        case = make_case(one.input_dtype, one.width, seed, gain=round_to(rng.uniform(-2, 2, one.width), one.gain_dtype))
        case = replace(case, residual=round_to(rng.standard_normal(case.x.shape), one.residual_dtype))
        found = explainable(case, observed(one, case), observed(other, case))
        assert not found.not_explainable, (found.witness, one, other)
        differing += found.explainable
        decided += found.equal + found.explainable
        closest = max(closest, found.largest_share)
    assert decided > 24_000
    assert differing > 20_000
    assert 0.7 < closest <= 1  # the bounds are no wide net


# --- no missed alarm -------------------------------------------------------------------------------------------------

CHANGES = {
    "eps 1e-5 for 1e-6": {"eps": 1e-5},
    "eps 2e-6 for 1e-6": {"eps": 2e-6},
    "eps outside": {"eps_placement": "outside_sqrt"},
    "eps of the sum": {"eps_placement": "inside_sum"},
    "a floor": {"eps_placement": "floor_rms", "eps": 1e-3},
    "no eps": {"eps_placement": "none"},
    "the sum": {"statistic": "sum_square"},
    "an offset": {"gain_offset": 1.0},
    "no gain": {"gain_applied": False},
    "groups": {"groups": 2},
    "part of the row": {"statistic_width": 63},
    "centred": {"center": True},
    "a factor": {"post_scale": 1.02},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("change", CHANGES)
def test_another_formula_is_not_explained(spec, make_case, dtype, change):
    """The twin: each change of the formula is seen on rows around its eps."""
    case = make_case(dtype, 64, 3, x=rows_at(1e-3, dtype, 64))
    reference = observed(spec(dtype, eps=1e-6), case)
    candidate = Observed(spec(dtype, eps=1e-6), emulate(spec(dtype, **{"eps": 1e-6, **CHANGES[change]}), case))
    found = explainable(case, reference, candidate)
    assert found.verdict == "not explainable by rounding"
    assert found.not_explainable >= 6


def test_what_the_candidate_declares_about_its_formula_does_not_matter(spec, make_case):
    """The question is about the reference's formula, so a declared eps that differs excuses nothing."""
    case = make_case("bfloat16", 64, 3, x=rows_at(1e-3, "bfloat16", 64))
    reference = observed(spec("bfloat16", eps=1e-6), case)
    assert explainable(case, reference, observed(spec("bfloat16", eps=1e-5), case)).not_explainable
    assert set(FORMULA) < set(variables())


@pytest.mark.parametrize(("rms", "kind"), [(0.004, ElementWitness), (0.05, RowWitness)])
def test_rows_show_what_their_elements_do_not(make_case, rms, kind):
    """eps 1e-6 for 1e-5 at width 4096: an element shows it up to an rms of about 0.018, the row up to about 0.056."""
    declared = resolve({"width": 4096, "input_dtype": "bfloat16", "gain_dtype": "bfloat16", "eps": 1e-6})
    case = make_case("bfloat16", 4096, 4, x=rows_at(rms, "bfloat16", 4096, count=2))
    other = Observed(declared, emulate(replace(declared, eps=1e-5), case))
    found = explainable(case, observed(declared, case), other)
    assert found.not_explainable == 2
    assert isinstance(found.witness, kind)
    assert (found.largest_share > 1) == (kind is ElementWitness)


def test_an_order_that_is_not_known_hides_more(make_case):
    """float32, width 4096: with the order declared the rows differ, with any order allowed they need not."""
    declared = resolve({"width": 4096, "accumulate_order": "torch_cpu", "eps": 1e-6})
    case = make_case("float32", 4096, 5, x=rows_at(0.5, "float32", 4096, count=4))
    output = emulate(replace(declared, eps=1e-5), case)
    assert explainable(case, observed(declared, case), Observed(declared, output)).not_explainable == 4
    unknown = Observed(replace(declared, accumulate_order="sequential"), output)
    assert explainable(case, observed(declared, case), unknown).verdict == "explainable by rounding"


# --- the answer ------------------------------------------------------------------------------------------------------


def test_nothing_differs(spec, make_case):
    case = make_case("bfloat16", 64, 0)
    found = explainable(case, observed(spec("bfloat16"), case), observed(spec("bfloat16"), case))
    assert (found.verdict, found.equal, found.explainable) == ("bit-equal", 64, 0)


def test_a_difference_within_both_bounds(spec, make_case):
    case = make_case("float32", 64, 0, x=rows_at(1.0, "float32", 64))
    found = explainable(case, observed(spec(), case), observed(spec(accumulate_order="sequential"), case))
    assert found.verdict == "explainable by rounding"
    assert 0 < found.largest_share < 1
    assert found.witness is None
    assert found.terms["candidate"]["sum"] > 10 * found.terms["reference"]["sum"]
    assert found.terms["reference"]["element: gain"] > 0


def test_an_element_that_is_farther_apart_is_named_with_its_numbers(spec, make_case):
    case = make_case("float32", 64, 0, x=rows_at(1.0, "float32", 64))
    y = emulate(spec(), case)
    y[5, 7] *= np.float32(1.001)
    found = explainable(case, observed(spec(), case), Observed(spec(), y))
    assert (found.not_explainable, found.equal) == (1, 7)
    row, column, apart, reach = found.witness
    assert (row, column) == (5, 7)
    assert apart > reach > 0


def test_rows_and_columns_are_those_of_the_whole_output_where_there_are_groups(spec, make_case):
    case = make_case("float32", 64, 0, x=rows_at(1.0, "float32", 64))
    y = emulate(spec(groups=4), case)
    y[6, 50] = -y[6, 50]
    found = explainable(case, observed(spec(groups=4), case), Observed(spec(groups=4), y))
    assert found.witness[:2] == (6, 50)
    assert (found.equal, found.not_explainable) == (31, 1)


def test_a_side_that_breaks_its_own_declaration_is_caught_by_itself(spec, make_case):
    """Half a step more in every second element is within everybody's bound, and no row has one factor then."""
    case = make_case("bfloat16", 64, 0, x=rows_at(1.0, "bfloat16", 64))
    y = emulate(spec("bfloat16"), case)
    bumped = y.copy()
    bits(bumped)[:, ::2] += 1
    found = explainable(case, observed(spec("bfloat16"), case), Observed(spec("bfloat16"), bumped))
    assert found.not_explainable == 8
    lo, hi = found.witness.candidate
    assert lo > hi


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_on_one_side_is_not_rounding(spec, make_case, value):
    case = make_case("float32", 64, 0, x=rows_at(1.0, "float32", 64))
    y = emulate(spec(), case)
    y[2, 3] = value
    assert explainable(case, observed(spec(), case), Observed(spec(), y)).not_explainable == 1
    assert explainable(case, Observed(spec(), y), observed(spec(), case)).not_explainable == 1
    assert explainable(case, Observed(spec(), y), Observed(spec(), y.copy())).verdict == "bit-equal"


def test_what_may_overflow_is_not_observable(spec, make_case):
    x = np.full((2, 64), 300.0)
    case = make_case("float16", 64, 0, x=round_to(x, "float16"))
    wide, narrow = spec("float16"), spec("float16", compute_dtype="float16")
    found = explainable(case, observed(wide, case), observed(narrow, case))
    assert found.verdict == "not observable"
    assert found.reasons == ("a square may leave float16",)


def test_a_spec_without_a_bound_is_not_observable(spec, make_case):
    case = make_case("float32", 64, 0, x=rows_at(1.0, "float32", 64))
    centred = spec(center=True)
    found = explainable(case, observed(centred, case), observed(replace(centred, inverse="rsqrt"), case))
    assert found.verdict == "not observable"
    assert "subtracting a mean" in found.reasons[0]


def test_outputs_of_two_dtypes_are_compared_as_numbers(spec, make_case):
    case = make_case("bfloat16", 64, 0, x=rows_at(1.0, "bfloat16", 64))
    narrow, wide = spec("bfloat16"), spec("bfloat16", output_dtype="float32", gain_product_dtype="float32")
    found = explainable(case, observed(narrow, case), observed(wide, case))
    assert found.verdict == "explainable by rounding"
    same = Observed(wide, emulate(narrow, case).astype(np.float32))
    assert explainable(case, observed(narrow, case), same).verdict == "bit-equal"
