"""From declared words to final values: tokens, circles, promotions, and combinations that have no meaning."""

from typing import Any

import pytest

from rmsaudit.formats import FORMATS
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, Conflict, at_width, find_conflicts, resolve
from rmsaudit.semantics.variables import TOKENS

VARIANCE_FIRST = {"statistic_algorithm": "variance_plus_mean_square"}
DTYPES = [name for name, variable in variables().items() if variable.kind == "dtype"]


def spec(**declared: Any) -> NormSpec:
    return resolve({"width": 64, **declared})


def conflicts(**declared: Any) -> list[tuple[str, str]]:
    with pytest.raises(CannotResolve) as caught:
        spec(**declared)
    return [(c.variable, c.says) for c in caught.value.conflicts]


def test_every_default_resolves() -> None:
    resolved = spec()
    assert {name: getattr(resolved, name) for name in DTYPES if name != "gain_cast"} == dict.fromkeys(
        set(DTYPES) - {"gain_cast"}, "float32"
    )
    assert resolved.gain_cast == "none"
    assert resolved == NormSpec(width=64)


def test_width_must_be_given() -> None:
    with pytest.raises(CannotResolve, match="width is not given") as caught:
        resolve({})
    assert caught.value.conflicts[0].variable == "width"


def test_defaults_follow_the_input_and_the_computation() -> None:
    resolved = spec(input_dtype="bfloat16")
    assert resolved.gain_dtype == resolved.output_dtype == resolved.residual_dtype == "bfloat16"
    assert resolved.accumulate_dtype == resolved.statistic_dtype == resolved.eps_dtype == "float32"
    resolved = spec(input_dtype="bfloat16", compute_dtype="input")
    assert (
        resolved.accumulate_dtype
        == resolved.statistic_dtype
        == resolved.inverse_dtype
        == resolved.eps_dtype
        == "bfloat16"
    )


@pytest.mark.parametrize(("token", "variable"), TOKENS.items())
def test_a_token_is_the_dtype_of_its_variable(token: str, variable: str) -> None:
    assert spec(**{variable: "float16", "output_dtype": token}).output_dtype == "float16"


def test_short_dtype_words_are_written_out() -> None:
    assert spec(input_dtype="bf16").input_dtype == "bfloat16"


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_dtype_stands_for_itself(dtype: str) -> None:
    for name in DTYPES:
        assert getattr(spec(**{"eps": 0.5, name: dtype}), name) == dtype


def test_promote_is_that_of_input_and_gain() -> None:
    mixed = {"input_dtype": "bfloat16", "gain_dtype": "float16"}
    assert spec(**mixed, output_dtype="promote").output_dtype == "float32"
    assert spec(input_dtype="bfloat16", output_dtype="promote").output_dtype == "bfloat16"


@pytest.mark.parametrize(("declared", "product"), [
    ({}, "float32"),
    ({"cast_point": "before_gain"}, "bfloat16"),
    ({"cast_point": "before_gain", "gain_dtype": "float32"}, "float32"),
    ({"cast_point": "before_gain", "gain_dtype": "float32", "gain_cast": "input"}, "bfloat16"),
    ({"cast_point": "before_gain", "gain_offset": 1.0}, "float32"),
    ({"cast_point": "before_gain", "gain_offset": 1.0, "gain_offset_dtype": "gain"}, "bfloat16"),
    ({"cast_point": "before_gain", "gain_applied": False, "gain_dtype": "float32"}, "bfloat16"),
    ({"cast_point": "before_gain", "normalized_dtype": "float16", "gain_dtype": "float16"}, "float16"),
    ({"cast_point": "weight_if_half"}, "bfloat16"),
    ({"cast_point": "weight_if_half", "gain_dtype": "float16"}, "float16"),
    ({"cast_point": "weight_if_half", "gain_dtype": "float32"}, "float32"),
    ({"association": "(x*g)*i"}, "float32"),
    ({"association": "(x*g)*i", "compute_dtype": "input"}, "bfloat16"),
    ({"gain_position": "before_statistic", "gain_dtype": "float64"}, "float32"),
    ({"compute_dtype": "float64"}, "float64"),
])  # fmt: skip
def test_the_product_has_the_dtype_of_its_operands(declared: dict[str, Any], product: str) -> None:
    assert spec(input_dtype="bfloat16", **declared).gain_product_dtype == product


def test_no_eps_is_the_machine_epsilon_of_the_computation() -> None:
    assert spec(input_dtype="bfloat16", eps=None).eps == 2.0**-23
    assert spec(input_dtype="bfloat16", eps=None, compute_dtype="input").eps == 2.0**-7
    assert spec(input_dtype="float64", compute_dtype="float64", eps=None).eps == 2.0**-52


# --- circles ----------------------------------------------------------------------------------------------------------


def test_a_circle_is_named_once_through() -> None:
    found = conflicts(input_dtype="gain", gain_dtype="input")
    assert (
        "input_dtype",
        "the dtypes refer to each other in a circle: input_dtype -> gain_dtype -> input_dtype",
    ) in found


def test_a_variable_may_not_stand_for_itself() -> None:
    found = conflicts(compute_dtype="compute")
    assert ("compute_dtype", "the dtypes refer to each other in a circle: compute_dtype -> compute_dtype") in found


def test_a_circle_through_a_product() -> None:
    found = conflicts(cast_point="before_gain", normalized_dtype="product")
    assert any("normalized_dtype -> gain_product_dtype -> normalized_dtype" in says for _, says in found)


# --- combinations without a meaning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("variable", "declared", "says"), [
    ("width", {"width": 0}, "width 0 leaves nothing to normalise"),
    ("groups", {"groups": 3}, "groups 3 do not divide width 64 evenly"),
    ("groups", {"groups": 4, "axes": (-2,)}, "groups need axes [-1]"),
    ("statistic_width", {"statistic_width": 65}, "statistic_width 65 is more than the 64 elements"),
    ("statistic_width", {"statistic_width": 17, "groups": 4}, "statistic_width 17 is more than the 16 elements"),
    ("statistic_width", {"statistic_width": 0.01}, "statistic_width 0.01 leaves no element for the statistic"),
    ("cast_point", {"cast_point": "before_gain", "association": "(x*g)*i"}, "which association (x*g)*i never forms"),
    ("mean_scaling", {"mean_scaling": "after_root"}, "eps_placement inside_sqrt adds eps to a mean"),
    ("mean_scaling", {"mean_scaling": "per_element", "eps_placement": "inside_sum"}, "forms no plain sum"),
    ("mean_scaling", {"mean_scaling": "per_element", "statistic_algorithm": "max_scaled"}, "forms no plain sum"),
    ("statistic_algorithm", {**VARIANCE_FIRST, "eps_placement": "inside_sum"}, "yields a mean square"),
    ("statistic_algorithm", {**VARIANCE_FIRST, "statistic": "sum_square"}, "yields a mean square"),
    ("mean_dtype", {"mean_dtype": "float16", "eps_placement": "floor_norm"}, "here the root is taken of the sum"),
    ("gain_applied", {"gain_position": "before_statistic", "gain_applied": False}, "needs gain_applied true"),
])  # fmt: skip
def test_a_combination_without_a_meaning_is_refused(variable: str, declared: dict[str, Any], says: str) -> None:
    found = conflicts(**declared)
    assert any(name == variable and says in text for name, text in found), found


@pytest.mark.parametrize("declared", [
    {"groups": 4}, {"statistic_width": 64}, {"statistic_width": 16, "groups": 4}, {"statistic_width": 0.25},
    {"mean_scaling": "after_root", "eps_placement": "outside_sqrt"}, {"mean_scaling": "per_element"},
    VARIANCE_FIRST, {"gain_position": "before_statistic"},
    {"association": "(x*g)*i"}, {"mean_dtype": "float16"}, {"mean_dtype": "compute", "eps_placement": "floor_norm"},
])  # fmt: skip
def test_its_neighbour_with_a_meaning_is_not(declared: dict[str, Any]) -> None:
    assert find_conflicts(spec(**declared)) == []


def test_all_conflicts_come_at_once() -> None:
    names = {variable for variable, _ in conflicts(eps=1e-60, statistic_width=65, mean_scaling="after_root")}
    assert names == {"eps", "statistic_width", "mean_scaling"}


@pytest.mark.parametrize(("eps", "dtype", "survives"), [
    (1e-8, "float16", False), (2.0**-25, "float16", False), (2.0**-25 * 1.01, "float16", True), (1e-7, "float16", True),
    (1e-12, "float32", True), (1e-46, "float32", False), (1e-8, "bfloat16", True), (1e-3, "float8_e4m3fn", True),
    (2.0**-10, "float8_e4m3fn", False),
])  # fmt: skip
def test_an_eps_that_rounds_to_zero_is_refused(eps: float, dtype: str, survives: bool) -> None:
    if survives:
        assert spec(eps=eps, eps_dtype=dtype).eps == eps
        return
    ((variable, says),) = conflicts(eps=eps, eps_dtype=dtype)
    assert variable == "eps"
    assert f"becomes 0 in eps_dtype {dtype}" in says
    assert f"{FORMATS[dtype].smallest_subnormal:.3g}" in says


def test_the_smallest_float16_is_named() -> None:
    ((_, says),) = conflicts(eps=1e-8, eps_dtype="float16")
    assert "eps 1e-08 becomes 0 in eps_dtype float16, whose smallest positive value is 5.96e-08" in says


def test_flushing_loses_a_subnormal_eps() -> None:
    assert spec(eps=1e-6, eps_dtype="float16").eps_dtype == "float16"  # a subnormal there
    ((variable, says),) = conflicts(eps=1e-6, eps_dtype="float16", subnormals="flush")
    assert variable == "eps"
    assert "smallest positive value is 6.1e-05" in says
    just_rounds_up = 2.0**-14 - 2.0**-25
    assert spec(eps=just_rounds_up, eps_dtype="float16", subnormals="flush").eps == just_rounds_up


def test_an_eps_that_is_replaced_or_not_used_is_not_judged() -> None:
    assert spec(eps=1e-8, eps_dtype="float16", eps_min=1e-7).eps == 1e-8
    assert spec(eps=1e-8, eps_dtype="float16", eps_placement="none").eps == 1e-8


# --- another width ----------------------------------------------------------------------------------------------------


def test_the_same_spec_at_another_width() -> None:
    narrow = at_width(spec(groups=4, eps=1e-5), 32)
    assert narrow is not None
    assert (narrow.width, narrow.groups, narrow.eps) == (32, 4, 1e-5)
    assert at_width(spec(groups=4), 33) is None


def test_a_conflict_names_its_variable() -> None:
    assert Conflict("groups", "x").variable == "groups"


def test_every_variable_says_what_it_means() -> None:
    for name, variable in variables().items():
        assert variable.name == name
        assert variable.means
        if variable.kind == "word":
            assert variable.default in variable.words
