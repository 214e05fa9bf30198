"""Outputs of the emulator against the exact formula, worked out here with gmpy2 at 300 bits; terms by hand."""

from dataclasses import replace
from math import log1p

import gmpy2
import numpy as np
import pytest

from rmsaudit.arrays import round_to
from rmsaudit.emulator import emulate
from rmsaudit.inversion import bound
from rmsaudit.inversion.bounds import element_terms, row_terms
from rmsaudit.semantics.resolve import CannotResolve, resolve

U = -log1p(-(2.0**-24))
HALF = -log1p(-(2.0**-8))


def exact(spec, x, gain):
    """y of one row, as a list of gmpy2 numbers, for specs of one group without residual and prescale."""
    with gmpy2.context(gmpy2.get_context(), precision=300):
        values = [gmpy2.mpfr(float(v)) for v in x]
        n = len(values)
        total = sum((v * v for v in values), gmpy2.mpfr(0))
        count = 1 if spec.statistic == "sum_square" else n
        eps = gmpy2.mpfr(gmpy2.mpq(repr(spec.eps)))
        divisor = {
            "inside_sqrt": lambda: gmpy2.sqrt(total / count + eps),
            "inside_sum": lambda: gmpy2.sqrt((total + eps) / count),
            "outside_sqrt": lambda: gmpy2.sqrt(total / count) + eps,
            "floor_rms": lambda: max(gmpy2.sqrt(total / count), eps),
            "floor_norm": lambda: max(gmpy2.sqrt(total), eps) / gmpy2.sqrt(count),
            "floor_sum": lambda: gmpy2.sqrt(max(total, eps * eps) / count),
            "none": lambda: gmpy2.sqrt(total / count),
        }[spec.eps_placement]()
        post = gmpy2.mpfr(float(spec.post_scale)) if spec.post_scale != "none" else 1
        factors = [gmpy2.mpfr(float(g)) + gmpy2.mpfr(spec.gain_offset) for g in gain]
        return [v / divisor * f * post for v, f in zip(values, factors, strict=True)]


def random_spec(rng):
    """Any formula that `exact` knows, in any dtypes and orders."""

    def pick(*words):
        return words[rng.integers(len(words))]

    dtype = pick("float32", "bfloat16", "float16")
    words = {
        "width": 20,
        "input_dtype": dtype,
        "gain_dtype": pick(dtype, "float32"),
        "eps": float(10 ** rng.uniform(-8, -2)),
        "eps_placement": pick(
            "inside_sqrt", "inside_sum", "outside_sqrt", "floor_rms", "floor_norm", "floor_sum", "none"
        ),
        "statistic": pick("mean_square", "mean_square", "sum_square"),
        "gain_offset": pick(0.0, 1.0),
        "post_scale": pick("none", "none", 0.7),
        "compute_dtype": pick("float32", "float64", dtype),
        "square_dtype": pick("compute", "compute", "float32", dtype),
        "accumulate_dtype": pick("compute", "float32", dtype),
        "mean_dtype": pick("statistic", "statistic", "float32", dtype),
        "statistic_dtype": pick("compute", "float32", dtype),
        "inverse_dtype": pick("statistic", "float32", dtype),
        "eps_dtype": pick("statistic", "float32", dtype),
        "accumulate_order": pick("pairwise", "sequential", "torch_cpu", "lanes:4", "exact"),
        "mean_scaling": pick("divide_by_n", "multiply_by_reciprocal", "per_element", "after_root"),
        "statistic_algorithm": pick("direct", "direct", "max_scaled"),
        "inverse": pick("rsqrt", "reciprocal_of_sqrt", "divide_by_sqrt"),
        "association": pick("(x*i)*g", "(x*g)*i", "x*(i*g)"),
        "cast_point": pick("after_gain", "before_gain"),
        "gain_cast": pick("none", dtype),
        "gain_offset_dtype": pick("compute", dtype),
        "output_dtype": pick(dtype, "float32"),
        "rounding": pick("nearest_even", "nearest_even", "toward_zero"),
        "subnormals": pick("keep", "keep", "flush"),
    }
    if words["association"] != "(x*i)*g":
        words["cast_point"] = "after_gain"
    try:
        return resolve(words)
    except CannotResolve:
        return random_spec(rng)


def test_no_output_of_any_spec_is_beyond_its_bound(make_case):
    """120 specs, 24 rows of 20 each: about 55 000 elements, two thirds of them of rows that the bound speaks of."""
    rng = np.random.default_rng(5)
    judged, largest = 0, 0.0
    for seed in range(120):
        spec = random_spec(rng)
        whole = make_case(spec.input_dtype, 20, seed, gain=round_to(rng.uniform(-2, 2, 20), spec.gain_dtype))
        case = replace(whole, x=whole.x[seed % 3 :: 3][:24], residual=whole.residual[seed % 3 :: 3][:24])
        limits, y = bound(spec, case), emulate(spec, case).astype(np.float64)
        theta, alpha = (np.broadcast_to(part, y.shape) for part in (limits.theta, limits.alpha))
        for row in np.flatnonzero([not reason for reason in limits.void]):
            for column, value in enumerate(exact(spec, case.x[row], case.gain)):
                if np.isfinite(alpha[row, column]):
                    off = abs(gmpy2.mpfr(y[row, column]) - value)
                    reach = gmpy2.mpfr(theta[row, column]) * abs(value) + gmpy2.mpfr(alpha[row, column])
                    assert off <= reach, (spec, row, column)
                    judged, largest = judged + 1, max(largest, float(off / reach))
    assert judged > 25_000
    assert largest > 0.8  # and it is not loose: some outputs come close


def test_without_a_rounding_it_would_be_exceeded(make_case):
    """The twin: a bound for float32 products does not hold for a bfloat16 output."""
    spec = resolve({"width": 20, "input_dtype": "bfloat16", "gain_dtype": "bfloat16"})
    case = make_case("bfloat16", 20, 1)
    y = emulate(spec, case).astype(np.float64)
    limits = bound(replace(spec, output_dtype="float32", gain_product_dtype="float32"), case)
    wide = emulate(replace(spec, output_dtype="float32", gain_product_dtype="float32"), case).astype(np.float64)
    assert (np.abs(y - wide) > 2 * limits.theta * np.abs(wide) + 2 * limits.alpha)[:24].any()


# --- terms, by hand --------------------------------------------------------------------------------------------------


def test_float32_throughout(spec):
    """Width 64: squares, 6 additions and eps halved by the root; the root, its inverse, two products."""
    assert row_terms(spec(), 64) == pytest.approx(
        {"squares": U / 2, "sum": 6 * U / 2, "eps added": U / 2, "root": U, "inverse": U}
    )
    element, last = element_terms(spec())
    assert element == pytest.approx({"normalise": U, "gain": U})
    assert (last.dtype, last.term, last.is_cast) == ("float32", pytest.approx(U), False)


def test_squares_and_mean_in_bfloat16(spec):
    """Both enter wider steps without another rounding; a square takes in a float32 x as it is."""
    rounded = row_terms(spec("bfloat16", square_dtype="bfloat16", mean_dtype="bfloat16"), 64)
    assert rounded == pytest.approx(
        {
            "squares": (HALF + U) / 2,
            "sum": 6 * U / 2,
            "statistic": HALF / 2,
            "eps added": U / 2,
            "root": U,
            "inverse": U,
        }
    )


def test_a_wide_mean_enters_a_narrow_statistic_once(spec):
    """With eps added there, as an operand of that addition; without it, by a cast."""
    wide = {"accumulate_dtype": "float64", "mean_dtype": "float64"}
    assert row_terms(spec(**wide), 64)["statistic"] == pytest.approx(U / 2)
    assert row_terms(spec(**wide, eps_placement="none"), 64)["statistic"] == pytest.approx(U / 2)


def test_a_square_in_float32_of_float64_values_rounds_them_first(spec):
    """x twice and the product once, halved by the root."""
    assert row_terms(spec(compute_dtype="float64", square_dtype="float32"), 64)["squares"] == pytest.approx(1.5 * U)


def test_a_cast_before_the_gain_in_bfloat16(spec):
    element, last = element_terms(spec("bfloat16", cast_point="before_gain"))
    assert element == pytest.approx({"normalise": U, "cast before gain": HALF, "gain": HALF + U})
    assert (last.dtype, last.term) == ("bfloat16", pytest.approx(HALF))


def test_a_cast_after_the_gain_in_bfloat16(spec):
    element, last = element_terms(spec("bfloat16", cast_point="after_gain", gain_product_dtype="float32"))
    assert element == pytest.approx({"normalise": U, "gain": U, "output": HALF})
    assert last.is_cast


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ({"accumulate_order": "sequential"}, "sum", 63 * U / 2),
        ({"accumulate_order": "exact"}, "sum", U / 2),
        ({"inverse": "divide_by_sqrt"}, "inverse", None),
        ({"inverse": "rsqrt"}, "inverse", 2.0**-51),
        ({"eps_placement": "outside_sqrt"}, "eps added", U),
        ({"eps_placement": "none"}, "eps added", None),
        ({"prescale": "max_abs"}, "prescale", U),
        ({"residual": "add"}, "residual", U),
        ({"statistic_dtype": "bfloat16"}, "statistic", HALF / 2),
        ({"inverse_dtype": "bfloat16"}, "root", U + HALF),
        ({"mean_scaling": "after_root", "eps_placement": "none"}, "mean", None),  # 1/√64 is 1/8
    ],
)
def test_one_variable_one_term(spec, words, name, value):
    found = row_terms(spec(**words), 64)
    assert found.get(name) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("scaling", "value"),
    [("divide_by_n", U / 2), ("multiply_by_reciprocal", U), ("per_element", U), ("after_root", 2 * U)],
)
def test_a_width_that_is_no_power_of_two_rounds_its_mean(scaling, value):
    found = row_terms(resolve({"width": 100, "mean_scaling": scaling, "eps_placement": "none"}), 100)["mean"]
    assert found == pytest.approx(value, rel=1e-6)


def test_eps_that_is_rounded_counts_by_its_share(spec, make_case):
    """1e-6 in float16 is 17 · 2^-24, 1.3 % more. In rows far below eps that moves D by half of it, in others less."""
    case = make_case("float16", 64, 0, x=np.array([[1e-5] * 64, [1.0] * 64]).astype(np.float16))
    limits = bound(spec("float16", eps=1e-6, eps_dtype="float16"), case)
    fixed = sum(row_terms(spec("float16", eps_dtype="float16"), 64).values())
    assert limits.slack[0] - fixed == pytest.approx(0.0132 / 2, rel=0.02)
    assert limits.slack[1] - fixed < 1e-6


# --- where nothing is said -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"center": True}, "subtracting a mean"),
        ({"statistic": "variance"}, "subtracting a mean"),
        ({"statistic_algorithm": "variance_plus_mean_square"}, "subtracting a mean"),
        ({"bias": True}, "adding a bias"),
        ({"axes": (-2,)}, "over columns"),
        ({"input_clamp": 100.0}, "clamped"),
        ({"residual": "add", "gain_position": "before_statistic"}, "cancel against the residual"),
        ({"gain_position": "before_statistic", "gain_offset": 1.0}, "before the statistic"),
    ],
)
def test_specs_without_a_bound_say_why(spec, make_case, words, says):
    assert says in bound(spec(**words), make_case("float32", 64, 0))


def void(spec, make_case, dtype, values):
    x = np.broadcast_to(np.asarray(values, dtype=np.float64)[:, None], (len(values), spec.width))
    return bound(spec, make_case(dtype, spec.width, 0, x=round_to(np.array(x), dtype))).void


def test_a_bfloat16_accumulator_leaves_nothing_to_say_of_wide_rows(make_case):
    words = {"input_dtype": "bfloat16", "accumulate_dtype": "bfloat16", "accumulate_order": "sequential"}
    (narrow,) = void(resolve({"width": 64, **words}), make_case, "bfloat16", [1.0])
    (wide,) = void(resolve({"width": 1024, **words}), make_case, "bfloat16", [1.0])
    assert narrow == ""
    assert "rounding may be everything: the term 'sum' alone is 2" in wide  # 1023 · 2^-8 / 2
    assert "sequential sums in bfloat16" in wide


def test_what_may_overflow_is_named(spec, make_case):
    found = void(spec("float16", compute_dtype="float16"), make_case, "float16", [1.0, 20.0, 200.0, 60000.0])
    assert found == (
        "",
        "",
        "a square may leave float16",
        "x may leave float16",
    )
    found = void(spec("float16", accumulate_dtype="float16"), make_case, "float16", [1.0, 100.0])
    assert found == ("", "the sum of squares may leave float16")


def test_what_underflows_is_everything_where_no_eps_is_larger(spec, make_case):
    kept, lost = void(spec(eps_placement="none"), make_case, "float32", [1e-15, 1e-22])
    assert kept == ""
    assert "underflow" in lost
    assert void(spec(eps=1e-6), make_case, "float32", [1e-22]) == ("",)


def test_an_input_that_is_not_finite(spec, make_case):
    assert void(spec(), make_case, "float32", [np.inf, np.nan]) == ("the input is not finite",) * 2
