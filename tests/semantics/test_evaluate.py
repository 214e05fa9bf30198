"""Declared norms, bit for bit, against the same norm written out in plain numpy.

Sums are left to right on both sides, so that the hand-written one is a loop. float32 operations are numpy's own; 16-bit
results are float32 results rounded by `astype`, which rounds once.
"""

from math import sqrt
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rmsaudit.arrays import Array, bits, dtype_of, round_to, word_of
from rmsaudit.emulator import emulate_arrays
from rmsaudit.semantics import arithmetic
from rmsaudit.semantics.resolve import resolve

F16, F32, F64 = np.float16, np.float32, np.float64
BF16 = ml_dtypes.bfloat16
ROWS, WIDTH = 6, 40


@pytest.fixture(autouse=True)
def _ieee() -> Any:
    with np.errstate(all="ignore"):
        yield


def rows(word: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    scale = np.array([1.0, 1e-3, 30.0, 2e-7, 0.0, 1.0])[:, None]
    return round_to(rng.standard_normal((ROWS, WIDTH)) * scale, word)


def gains(word: str, seed: int = 1) -> Array:
    return round_to(1 + np.random.default_rng(seed).standard_normal(WIDTH), word)


def run(x: Array, gain: Array, **declared: Any) -> Array:
    return run_with(x, gain, np.zeros_like(gain), np.zeros_like(x), **declared)


def run_with(x: Array, gain: Array, offset: Array, stream: Array, /, **declared: Any) -> Array:
    given = {"width": x.shape[1], "input_dtype": word_of(x), "gain_dtype": word_of(gain)}
    spec = resolve({"accumulate_order": "sequential", **given, **declared})
    return emulate_arrays(spec, x, gain, offset, stream)


def total(terms: Array) -> Array:
    """Left to right, each sum rounded to the dtype of the terms."""
    running = terms[:, 0]
    for column in range(1, terms.shape[1]):
        running = running + terms[:, column]
    return running[:, None]


def inverse_rms(x: Array, eps: float) -> Array:
    """1/√(mean of squares + eps), all in float32, two roundings for the root and its reciprocal."""
    wide = x.astype(F32)
    return F32(1) / np.sqrt(total(wide * wide) / F32(x.shape[1]) + F32(eps))


def assert_identical(got: Array, want: Array) -> None:
    assert got.dtype == want.dtype
    same = bits(got) == bits(np.ascontiguousarray(want))
    same |= np.isnan(got.astype(F32)) & np.isnan(want.astype(F32))
    assert same.all()


# --- the orders of well-known implementations -------------------------------------------------------------------------


@pytest.mark.parametrize(("x_word", "g_word", "y_word"), [
    ("bfloat16", "bfloat16", "bfloat16"), ("float16", "float16", "float16"), ("float32", "float32", "float32"),
    ("bfloat16", "float32", "float32"), ("float16", "bfloat16", "float32"),
])  # fmt: skip
def test_llama_rounds_before_the_gain(x_word: str, g_word: str, y_word: str) -> None:
    x, g = rows(x_word), gains(g_word)
    normalized = (x.astype(F32) * inverse_rms(x, 1e-6)).astype(x.dtype)
    want = (normalized.astype(F32) * g.astype(F32)).astype(dtype_of(y_word))
    assert_identical(run(x, g, cast_point="before_gain", output_dtype="promote"), want)


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float32"])
def test_olmo_rounds_after_the_gain(word: str) -> None:
    x, g = rows(word), gains(word)
    want = (x.astype(F32) * inverse_rms(x, 1e-6) * g.astype(F32)).astype(x.dtype)
    assert_identical(run(x, g), want)


def test_where_the_cast_stands_shows() -> None:
    """The twin of the two tests above."""
    x, g = rows("bfloat16"), gains("bfloat16")
    assert (run(x, g) != run(x, g, cast_point="before_gain")).mean() > 0.1


@pytest.mark.parametrize(("offset_word", "sum_dtype"), [("float32", F32), ("gain", BF16)])
def test_gemma_adds_one_to_the_gain(offset_word: str, sum_dtype: Any) -> None:
    x, g = rows("bfloat16"), gains("bfloat16")
    shifted = (g.astype(F32) + F32(1)).astype(sum_dtype).astype(F32)
    want = (x.astype(F32) * inverse_rms(x, 1e-6) * shifted).astype(BF16)
    assert_identical(run(x, g, gain_offset=1, gain_offset_dtype=offset_word), want)


def test_t5_rounds_to_a_half_gain_only() -> None:
    declared = {"cast_point": "weight_if_half", "output_dtype": "product"}
    x = rows("float16")
    normalized = x.astype(F32) * inverse_rms(x, 1e-6)
    g = gains("bfloat16")
    want = (normalized.astype(BF16).astype(F32) * g.astype(F32)).astype(BF16)
    assert_identical(run(x, g, **declared), want)
    g = gains("float32")
    assert_identical(run(x, g, **declared), normalized * g)


def test_ggml_adds_float32_squares_in_float64() -> None:
    x, g = rows("float32"), gains("float32")
    mean = (total((x * x).astype(F64)) / F64(WIDTH)).astype(F32)
    want = x * (F32(1) / np.sqrt(mean + F32(1e-5))) * g
    got = run(x, g, accumulate_dtype="float64", eps=1e-5)
    assert_identical(got, want)
    assert (got != run(x, g, eps=1e-5)).any()


@pytest.mark.parametrize("word", ["bfloat16", "float16", "float8_e5m2"])
def test_every_step_in_the_input_dtype(word: str) -> None:
    x, g = rows(word), gains(word)
    t = dtype_of(word)

    def step(values: Array) -> Array:
        return values.astype(t).astype(F32)

    wide, running = x.astype(F32), np.zeros((ROWS, 1), dtype=F32)
    for column in range(WIDTH):
        running = step(running + step(wide[:, column : column + 1] ** 2))
    mean = step(step(running / F32(WIDTH)) + step(F32(1e-3)))
    normalized = step(wide * step(F32(1) / step(np.sqrt(mean))))
    want = (normalized * g.astype(F32)).astype(t)
    assert_identical(run(x, g, compute_dtype="input", eps=1e-3), want)


def test_onnx_divides_and_rounds_before_the_gain() -> None:
    x, g = rows("float16"), gains("float16")
    wide = x.astype(F32)
    root = np.sqrt(total(wide * wide) / F32(WIDTH) + F32(1e-5))
    want = ((wide / root).astype(F16).astype(F32) * g.astype(F32)).astype(F16)
    assert_identical(run(x, g, eps=1e-5, inverse="divide_by_sqrt", cast_point="before_gain"), want)


@pytest.mark.parametrize("kept", [WIDTH, 10])
def test_the_papers_code_adds_eps_to_the_root(kept: int) -> None:
    x, g = rows("float16"), gains("float16")
    wide = x.astype(F32)
    norm = np.sqrt(total(wide[:, :kept] ** 2)).astype(F16)
    rms = (norm.astype(F32) * F32(kept**-0.5)).astype(F16)
    divisor = (rms.astype(F32) + F32(1e-3)).astype(F16)
    normalized = (wide / divisor.astype(F32)).astype(F16)
    want = (normalized.astype(F32) * g.astype(F32)).astype(F16)
    declared = {"inverse": "divide_by_sqrt", "inverse_dtype": "input", "cast_point": "before_gain"}
    got = run(x, g, mean_scaling="after_root", eps_placement="outside_sqrt", eps=1e-3, statistic_width=kept, **declared)
    assert_identical(got, want)


def test_x_transformers_keeps_the_norm_off_zero() -> None:
    x, g = rows("bfloat16"), gains("bfloat16")
    wide = x.astype(F32)
    norm = np.maximum(np.sqrt(total(wide * wide)).astype(BF16).astype(F32), F32(1e-12)).astype(BF16)
    normalized = (wide / norm.astype(F32)).astype(BF16)
    scaled = (normalized.astype(F32) * F32(sqrt(WIDTH))).astype(BF16)
    want = (scaled.astype(F32) * g.astype(F32)).astype(BF16)
    declared = {"inverse": "divide_by_sqrt", "inverse_dtype": "input", "cast_point": "before_gain"}
    got = run(x, g, statistic="sum_square", eps_placement="floor_norm", eps=1e-12, post_scale="sqrt_width", **declared)
    assert_identical(got, want)
    assert (got[4] == 0).all()


# --- eps --------------------------------------------------------------------------------------------------------------


def test_eps_in_seven_places() -> None:
    x, g = rows("float32"), gains("float32")
    eps = F32(1e-6)
    squares = total(x * x)
    mean = squares / F32(WIDTH)
    divisors = {
        "inside_sqrt": np.sqrt(mean + eps),
        "inside_sum": np.sqrt((squares + eps) / F32(WIDTH)),
        "outside_sqrt": np.sqrt(mean) + eps,
        "floor_rms": np.maximum(np.sqrt(mean), eps),
        "floor_norm": np.maximum(np.sqrt(squares), eps) * F32(WIDTH**-0.5),
        "floor_sum": np.sqrt(np.maximum(squares, eps * eps) / F32(WIDTH)),
        "none": np.sqrt(mean),
    }
    results = {place: run(x, g, eps_placement=place) for place in divisors}
    for place, divisor in divisors.items():
        assert_identical(results[place], x * (F32(1) / divisor) * g)
    assert len({result.tobytes() for result in results.values()}) == 7
    assert np.isnan(results["none"][4]).all()  # a row of zeros


def test_eps_is_rounded_to_its_dtype_first() -> None:
    x, g = rows("float16"), gains("float16")
    wide = x.astype(F32)
    mean = total(wide * wide) / F32(WIDTH)
    want = (wide * (F32(1) / np.sqrt(mean + F32(F16(1e-6)))) * g.astype(F32)).astype(F16)
    got = run(x, g, eps_dtype="float16")
    assert_identical(got, want)
    assert (got != run(x, g)).any()


def test_a_small_eps_is_replaced() -> None:
    x, g = rows("float32"), gains("float32")
    assert_identical(run(x, g, eps=1e-9, eps_min=1e-7), run(x, g, eps=1e-7))
    assert_identical(run(x, g, eps=1e-5, eps_min=1e-7), run(x, g, eps=1e-5))


# --- the statistic ----------------------------------------------------------------------------------------------------


def test_the_mean_by_a_rounded_reciprocal() -> None:
    x, g = rows("float32"), gains("float32")
    mean = total(x * x) * (F32(1) / F32(WIDTH))
    want = x * (F32(1) / np.sqrt(mean + F32(1e-6))) * g
    assert_identical(run(x, g, mean_scaling="multiply_by_reciprocal"), want)


def test_the_mean_by_elements_that_are_scaled_first() -> None:
    x, g = rows("float32"), gains("float32")
    mean = total((x * (F32(1) / F32(WIDTH))) * x)
    want = x * (F32(1) / np.sqrt(mean + F32(1e-6))) * g
    assert_identical(run(x, g, mean_scaling="per_element"), want)


@pytest.mark.parametrize("scaling", ["divide_by_n", "multiply_by_reciprocal"])
def test_the_mean_square_as_variance_plus_squared_mean(scaling: str) -> None:
    x, g = rows("float32"), gains("float32")

    def over_n(values: Array) -> Array:
        return values / F32(WIDTH) if scaling == "divide_by_n" else values * (F32(1) / F32(WIDTH))

    mean = over_n(total(x))
    deviation = x - mean
    statistic = over_n(total(deviation * deviation)) + mean * mean
    want = x * (F32(1) / np.sqrt(statistic + F32(1e-6))) * g
    got = run(x, g, statistic_algorithm="variance_plus_mean_square", mean_scaling=scaling)
    assert_identical(got, want)
    assert (got != run(x, g, mean_scaling=scaling)).any()


def test_the_sum_scaled_by_the_largest_magnitude() -> None:
    x, g = rows("float32"), gains("float32")
    largest = np.max(np.abs(x), axis=1, keepdims=True)
    largest[largest == 0] = 1
    scaled = x / largest
    mean = total(scaled * scaled) * largest * largest / F32(WIDTH)
    want = x * (F32(1) / np.sqrt(mean + F32(1e-6))) * g
    assert_identical(run(x, g, statistic_algorithm="max_scaled"), want)


def test_the_mean_square_rounded_to_the_input_dtype() -> None:
    x, g = rows("bfloat16"), gains("bfloat16")
    wide = x.astype(F32)
    mean = (total(wide * wide) / F32(WIDTH)).astype(BF16).astype(F32)
    regularised = (mean + F32(BF16(1e-5))).astype(BF16).astype(F32)
    inverse = (1 / np.sqrt(regularised.astype(F64))).astype(F32).astype(BF16).astype(F32)
    normalized = (wide * inverse).astype(BF16)
    want = (normalized.astype(F32) * g.astype(F32)).astype(BF16)
    got = run(x, g, statistic_dtype="input", eps=1e-5, inverse="rsqrt", cast_point="before_gain")
    assert_identical(got, want)


@pytest.mark.parametrize("mean", ["float32", "input"])
@pytest.mark.parametrize("square", ["float32", "input"])
@pytest.mark.parametrize(("word", "dtype"), [("bfloat16", BF16), ("float16", F16)])
def test_squares_and_their_mean_rounded_apart(word: str, dtype: Any, square: str, mean: str) -> None:
    """Both in the input dtype is ONNX's reference evaluator. From the addition of eps on, all is float32."""
    x, g = rows(word), gains(word)
    wide = x.astype(F32)
    squares = (wide * wide).astype(dtype if square == "input" else F32).astype(F32)
    of_squares = (total(squares) / F32(WIDTH)).astype(dtype if mean == "input" else F32).astype(F32)
    want = wide * (F32(1) / np.sqrt(of_squares + F32(1e-5))) * g.astype(F32)
    declared = {"eps": 1e-5, "output_dtype": "float32"}
    assert_identical(run(x, g, square_dtype=square, mean_dtype=mean, **declared), want)
    plain = run(x, g, **declared)
    assert np.array_equal(plain, want) == (square == mean == "float32")


def test_float64_squares_of_a_float32_input() -> None:
    x, g = rows("float32"), gains("float32")
    mean = (total(x.astype(F64) * x.astype(F64)) / F64(WIDTH)).astype(F32)
    want = x * (F32(1) / np.sqrt(mean + F32(1e-6))) * g
    assert_identical(run(x, g, square_dtype="float64", accumulate_dtype="float64"), want)


@pytest.mark.parametrize("algorithm", ["direct", "max_scaled", "variance_plus_mean_square"])
def test_what_they_default_to_costs_no_operation(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out or not, the same arrays are rounded, to the same dtypes."""
    rounded: list[tuple[str, str]] = []
    monkeypatch.setattr(
        arithmetic, "round_to", lambda values, word: rounded.append((word_of(values), word)) or round_to(values, word)
    )
    x, g = rows("bfloat16"), gains("bfloat16")
    run(x, g, statistic_algorithm=algorithm)
    by_default = [pair for pair in rounded if pair[0] != pair[1]]
    rounded.clear()
    run(x, g, statistic_algorithm=algorithm, square_dtype="float32", mean_dtype="float32")
    assert [pair for pair in rounded if pair[0] != pair[1]] == by_default


def test_the_sum_itself_as_the_statistic() -> None:
    x, g = rows("float32"), gains("float32")
    want = x * (F32(1) / np.sqrt(total(x * x) + F32(1e-6))) * g
    assert_identical(run(x, g, statistic="sum_square"), want)


def test_the_variance_under_an_uncentred_numerator() -> None:
    x, g = rows("float32"), gains("float32")
    deviation = x - total(x) / F32(WIDTH)
    want = x * (F32(1) / np.sqrt(total(deviation * deviation) / F32(WIDTH) + F32(1e-6))) * g
    assert_identical(run(x, g, statistic="variance"), want)


def test_a_layer_norm_subtracts_the_mean() -> None:
    x, g = rows("float32"), gains("float32")
    centred = x - total(x) / F32(WIDTH)
    inverse = F32(1) / np.sqrt(total(centred * centred) / F32(WIDTH) + F32(1e-5))
    assert_identical(run(x, g, center=True, eps=1e-5), centred * inverse * g)


def test_a_uniform_shift_changes_an_rms_norm_and_leaves_a_layer_norm_alone() -> None:
    x = np.float64([[1.0, -2.0, 4.0, 5.0], [0.0, 0.5, -0.5, 1.0]])  # means and shifts are exact in float64
    g = np.ones(4)
    shifted = x + 8
    declared: dict[str, Any] = {"compute_dtype": "float64"}
    np.testing.assert_array_equal(run(x, g, center=True, **declared), run(shifted, g, center=True, **declared))
    assert (run(x, g, **declared) != run(shifted, g, **declared)).all(where=x != 0)


@pytest.mark.parametrize(("kept", "count"), [(10, 10), (0.25, 10), (0.999, 39), (1.0, WIDTH), ("all", WIDTH)])
def test_the_first_elements_make_the_statistic(kept: Any, count: int) -> None:
    x, g = rows("float32"), gains("float32")
    mean = total(x[:, :count] * x[:, :count]) / F32(count)
    want = x * (F32(1) / np.sqrt(mean + F32(1e-6))) * g
    assert_identical(run(x, g, statistic_width=kept), want)


# --- the inverse ------------------------------------------------------------------------------------------------------


def test_four_ways_to_the_inverse() -> None:
    x, g = rows("float32"), gains("float32")
    mean = total(x * x) / F32(WIDTH) + F32(1e-6)
    twice = x * (F32(1) / np.sqrt(mean)) * g
    assert_identical(run(x, g, inverse="reciprocal_of_sqrt"), twice)
    assert_identical(run(x, g, inverse="power"), twice)
    assert_identical(run(x, g, inverse="rsqrt"), x * (1 / np.sqrt(mean.astype(F64))).astype(F32) * g)
    assert_identical(run(x, g, inverse="divide_by_sqrt"), x / np.sqrt(mean) * g)


def test_the_inverse_rounded_to_the_input_dtype() -> None:
    x, g = rows("bfloat16"), gains("bfloat16")
    inverse = inverse_rms(x, 1e-6).astype(BF16).astype(F32)
    normalized = (x.astype(F32) * inverse).astype(BF16)
    want = (normalized.astype(F32) * g.astype(F32)).astype(BF16)
    assert_identical(run(x, g, inverse_dtype="input", cast_point="before_gain"), want)


def test_the_root_rounded_and_divided_by() -> None:
    x, g = rows("float16"), gains("float16")
    wide = x.astype(F32)
    root = np.sqrt(total(wide * wide) / F32(WIDTH) + F32(1e-5)).astype(F16).astype(F32)
    want = ((wide / root).astype(F16).astype(F32) * g.astype(F32)).astype(F16)
    declared = {"inverse": "divide_by_sqrt", "inverse_dtype": "input", "cast_point": "before_gain"}
    assert_identical(run(x, g, eps=1e-5, **declared), want)


# --- the gain ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("divides", [False, True])
def test_three_orders_of_the_last_products(divides: bool) -> None:
    x, g = rows("float32"), gains("float32")
    root = np.sqrt(total(x * x) / F32(WIDTH) + F32(1e-6))
    inverse = F32(1) / root
    inverse_word = "divide_by_sqrt" if divides else "reciprocal_of_sqrt"
    want = {
        "(x*i)*g": (x / root) * g if divides else (x * inverse) * g,
        "(x*g)*i": (x * g) / root if divides else (x * g) * inverse,
        "x*(i*g)": x * (g / root) if divides else x * (inverse * g),
    }
    for association, result in want.items():
        assert_identical(run(x, g, association=association, inverse=inverse_word), result)


@pytest.mark.parametrize("row_count", [1, 6])
def test_the_inverse_times_the_gain_first_with_a_half_inverse(row_count: int) -> None:
    """Both factors are widened here, and neither has the shape of their product."""
    x, g = rows("float16")[:row_count], gains("float16")
    inverse = inverse_rms(x, 1e-6).astype(F16).astype(F32)
    want = (x.astype(F32) * (inverse * g.astype(F32))).astype(F16)
    assert_identical(run(x, g, association="x*(i*g)", inverse_dtype="float16"), want)


def test_no_gain() -> None:
    x = rows("bfloat16")
    want = (x.astype(F32) * inverse_rms(x, 1e-6)).astype(BF16)
    assert_identical(run(x, gains("bfloat16"), gain_applied=False), want)


def test_a_gain_rounded_before_use() -> None:
    x, g = rows("bfloat16"), gains("float32")
    rounded = g.astype(BF16).astype(F32)
    want = (x.astype(F32) * inverse_rms(x, 1e-6) * rounded).astype(BF16)
    got = run(x, g, gain_cast="input")
    assert_identical(got, want)
    assert (got != run(x, g)).any()


def test_the_product_in_a_dtype_of_its_own() -> None:
    x, g = rows("float32"), gains("float32")
    want = (x * inverse_rms(x, 1e-6) * g).astype(F16).astype(F32)
    assert_identical(run(x, g, gain_product_dtype="float16"), want)


def test_the_gain_before_the_statistic() -> None:
    x, g = rows("bfloat16"), gains("bfloat16")
    scaled = (x.astype(F32) * g.astype(F32)).astype(BF16)
    want = (scaled.astype(F32) * inverse_rms(scaled, 1e-6)).astype(BF16)
    assert_identical(run(x, g, gain_position="before_statistic"), want)


@pytest.mark.parametrize(("declared", "factor"), [(2.5, 2.5), ("sqrt_width", sqrt(WIDTH))])
def test_a_constant_factor(declared: Any, factor: float) -> None:
    x, g = rows("float32"), gains("float32")
    inverse = inverse_rms(x, 1e-6)
    assert_identical(run(x, g, post_scale=declared), x * inverse * F32(factor) * g)
    assert_identical(run(x, g, post_scale=declared, association="(x*g)*i"), x * g * inverse * F32(factor))
    assert_identical(run(x, g, post_scale=declared, gain_applied=False), x * inverse * F32(factor))


@pytest.mark.parametrize("cast_point", ["before_gain", "after_gain"])
def test_a_bias_is_added_in_the_dtype_of_the_product(cast_point: str) -> None:
    x, g, b = rows("bfloat16"), gains("bfloat16"), gains("bfloat16", seed=5)
    normalized = x.astype(F32) * inverse_rms(x, 1e-6)
    if cast_point == "before_gain":
        product = (normalized.astype(BF16).astype(F32) * g.astype(F32)).astype(BF16).astype(F32)
    else:
        product = normalized * g.astype(F32)
    want = (product + b.astype(F32)).astype(BF16)
    assert_identical(run_with(x, g, b, np.zeros_like(x), cast_point=cast_point, bias=True), want)
    assert_identical(run_with(x, g, b, np.zeros_like(x), cast_point=cast_point), run(x, g, cast_point=cast_point))


# --- what enters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic_source", ["rounded", "unrounded"])
@pytest.mark.parametrize("numerator_source", ["rounded", "unrounded"])
def test_a_fused_add_may_use_the_rounded_sum_twice_once_or_never(statistic_source: str, numerator_source: str) -> None:
    x, r, g = rows("bfloat16"), rows("bfloat16", seed=9), gains("bfloat16")
    unrounded = x.astype(F32) + r.astype(F32)
    pick = {"rounded": unrounded.astype(BF16).astype(F32), "unrounded": unrounded}
    inverse = inverse_rms(pick[statistic_source], 1e-6)
    want = (pick[numerator_source] * inverse * g.astype(F32)).astype(BF16)
    sources = {"statistic_source": statistic_source, "numerator_source": numerator_source}
    assert_identical(run_with(x, g, np.zeros_like(g), r, residual="add", **sources), want)


def test_a_float32_residual_stream() -> None:
    x, r, g = rows("bfloat16"), rows("float32", seed=9), gains("bfloat16")
    unrounded = x.astype(F32) + r
    want = (unrounded * inverse_rms(unrounded, 1e-6) * g.astype(F32)).astype(BF16)
    sources = {"residual_dtype": "float32", "residual_out_dtype": "float32", "numerator_source": "rounded"}
    assert_identical(run_with(x, g, np.zeros_like(g), r, residual="add", **sources), want)


def test_the_input_limited_first() -> None:
    x, g = rows("float32"), gains("float32")
    limited = np.minimum(np.maximum(x, F32(-0.5)), F32(0.5))
    want = limited * inverse_rms(limited, 1e-6) * g
    assert_identical(run(x, g, input_clamp=0.5), want)


def test_rows_divided_by_their_largest_magnitude() -> None:
    x, g = rows("float32"), gains("float32")
    scaled = x / np.max(np.abs(x), axis=1, keepdims=True)
    want = scaled * inverse_rms(scaled, 1e-5) * g
    got = run(x, g, prescale="max_abs", eps=1e-5)
    assert_identical(got, want)
    assert np.isnan(got[4]).all()  # 0/0


def test_groups_are_normalised_apart() -> None:
    x, g = rows("float32"), gains("float32")
    parts = [x[:, start : start + 10] for start in range(0, WIDTH, 10)]
    want = np.concatenate([part * inverse_rms(part, 1e-6) for part in parts], axis=1) * g
    assert_identical(run(x, g, groups=4), want)


def test_columns_and_the_whole_matrix() -> None:
    x, g = rows("float32"), gains("float32")
    columns = np.ascontiguousarray(x.T)
    assert_identical(run(x, g, axes=(-2,)), (columns * inverse_rms(columns, 1e-6)).T * g)
    flat = x.reshape(1, -1)
    assert_identical(run(x, g, axes=(-2, -1)), (flat * inverse_rms(flat, 1e-6)).reshape(x.shape) * g)


# --- what leaves ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_output_dtype(word: str) -> None:
    x, g = rows("float32"), gains("float32")
    exact = x * inverse_rms(x, 1e-6) * g
    assert_identical(run(x, g, output_dtype=word), exact.astype(dtype_of(word)))


def test_the_output_limited() -> None:
    x, g = rows("float16"), gains("float16")
    whole = run(x, g)
    assert_identical(run(x, g, output_clamp=0.75), np.clip(whole, F16(-0.75), F16(0.75)))


def test_casts_toward_zero_and_subnormals_flushed() -> None:
    x, g = rows("float32"), gains("float32")
    exact = x * inverse_rms(x, 1e-6) * g
    chopped = run(x, g, output_dtype="bfloat16", rounding="toward_zero")
    assert_identical(chopped, (exact.view(np.uint32) >> 16).astype(np.uint16).view(BF16))  # bfloat16 is the upper half
    tiny = np.float32([[1e-39, 1.0, -1e-39, 2.0]])
    ones = np.ones(4, dtype=F32)
    flushed = run(tiny, ones, subnormals="flush")
    np.testing.assert_array_equal(flushed == 0, [[True, False, True, False]])
    assert (run(tiny, ones) != 0).all()


def test_float64_throughout() -> None:
    x, g = rows("float64"), gains("float64")
    want = x * (1 / np.sqrt(total(x * x) / WIDTH + 1e-6)) * g
    assert_identical(run(x, g, compute_dtype="float64"), want)


# --- numbers that a reader can check ----------------------------------------------------------------------------------


def one_row(values: list[float], word: str, **declared: Any) -> list[float]:
    x = np.array([values]).astype(dtype_of(word))
    return run(x, np.ones(len(values)).astype(dtype_of(word)), **declared).astype(float)[0].tolist()


def test_zeros_give_zeros() -> None:
    assert one_row([0.0, 0.0], "float32") == [0.0, 0.0]


def test_half_precision_squares_overflow_at_256() -> None:
    assert one_row([256.0, 256.0], "float16", compute_dtype="float16", eps=1e-5) == [0.0, 0.0]
    assert one_row([256.0, 256.0], "float16", eps=1e-5) == [1.0, 1.0]


def test_large_float32_and_float64_rows_come_out_as_zero() -> None:
    assert one_row([3e38, 3e38], "float32") == [0.0, 0.0]
    assert one_row([1e200, -1e200], "float64", compute_dtype="float64") == [0.0, -0.0]


@pytest.mark.parametrize(("ratio", "factor"), [
    (0.01, 0.099504), (0.1, 0.301511), (1.0, 0.707107), (10.0, 0.953463), (100.0, 0.995037),
])  # fmt: skip
def test_a_mean_square_near_eps_is_attenuated(ratio: float, factor: float) -> None:
    value = sqrt(ratio * 1e-6)
    assert one_row([value, value], "float64", compute_dtype="float64")[0] == pytest.approx(factor, abs=5e-7)


def test_eps_inside_and_outside_the_root() -> None:
    row = [1e-3, 1e-3]
    wide = {"compute_dtype": "float64"}
    assert one_row(row, "float64", eps=1e-6, **wide)[0] == pytest.approx(1 / sqrt(2), rel=1e-12)
    assert one_row(row, "float64", eps=1e-4, **wide)[0] == pytest.approx(1 / sqrt(101), rel=1e-12)
    outside = one_row(row, "float64", eps=1e-6, eps_placement="outside_sqrt", **wide)[0]
    assert outside == pytest.approx(0.999001, abs=5e-7)
