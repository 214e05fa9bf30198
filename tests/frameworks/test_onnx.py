"""ONNX: Runtime's operators, the specification's function body, and ONNX's own evaluator, each against its preset."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case import node
from onnx.reference import ReferenceEvaluator

from rmsaudit.arrays import Array, round_to, word_of
from rmsaudit.documents.preset import read_preset
from rmsaudit.emulator import emulate_arrays
from rmsaudit.semantics.resolve import resolve

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # from inside the evaluator
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning"),
]

Live = Callable[[Array, Array], Array]

ONNX_DTYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
EPS = 1e-5
SIMPLIFIED = "onnxruntime-simplified-layer-normalization"
SKIP = "onnxruntime-skip-simplified-layer-normalization"


def one_node(operator: str, x: Array, gain: Array) -> onnx.ModelProto:
    """A model of one normalisation over the last axis, with a second input for the operator that adds a residual."""
    adds = operator.startswith("Skip")
    domain = "com.microsoft" if adds else ""
    attributes: dict[str, Any] = {"epsilon": EPS} if adds else {"epsilon": EPS, "axis": -1}
    inputs = ["x", "residual", "gain"] if adds else ["x", "gain"]
    dtypes = {"x": ONNX_DTYPES[word_of(x)], "residual": ONNX_DTYPES[word_of(x)], "gain": ONNX_DTYPES[word_of(gain)]}
    shapes = {"x": x.shape, "residual": x.shape, "gain": gain.shape}
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, ["y"], domain=domain, **attributes)],
        "one node",
        [helper.make_tensor_value_info(name, dtypes[name], shapes[name]) for name in inputs],
        [helper.make_tensor_value_info("y", dtypes["gain"], x.shape)],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def by_runtime(operator: str, residual: Array | None = None) -> Live:
    def live(x: Array, gain: Array) -> Array:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        model = one_node(operator, x, gain).SerializeToString()
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feeds = {"x": x, "gain": gain}
        if operator.startswith("Skip"):
            feeds["residual"] = np.zeros_like(x) if residual is None else residual
        (y,) = session.run(["y"], feeds)
        return y

    return live


def by_evaluator(x: Array, gain: Array) -> Array:
    (y,) = ReferenceEvaluator(one_node("RMSNormalization", x, gain)).run(None, {"x": x, "gain": gain})
    return y


def by_function_body(x: Array, gain: Array) -> Array:
    """The operator as its own definition spells it out in sixteen smaller ones."""
    call = one_node("RMSNormalization", x, gain).graph.node[0]
    types = [
        helper.make_tensor_type_proto(ONNX_DTYPES[word_of(array)], array.shape).SerializeToString()
        for array in (x, gain)
    ]
    schema = onnx.defs.get_schema("RMSNormalization", 23)
    body = onnx.FunctionProto.FromString(schema.get_context_dependent_function(call.SerializeToString(), types))
    attributes = {"axis": -1, "epsilon": EPS, "stash_type": 1}
    (y,) = ReferenceEvaluator(body).run(None, dict(zip(body.input, (x, gain), strict=True)), attributes=attributes)
    return y


# --- ONNX Runtime -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float32", "float16"])
@pytest.mark.parametrize("operator", ["SimplifiedLayerNormalization", "RMSNormalization"])
def test_runtime_rms_normalization(agrees_on_exact_rows: Any, operator: str, word: str) -> None:
    agrees_on_exact_rows(SIMPLIFIED, by_runtime(operator), (word, word))


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float16")], ids="-".join)
def test_runtime_mixed_dtypes_give_that_of_the_gain(agrees_on_exact_rows: Any, dtypes: tuple[str, str]) -> None:
    agrees_on_exact_rows(SIMPLIFIED, by_runtime("SimplifiedLayerNormalization"), dtypes)


@pytest.mark.parametrize("word", ["float32", "float16"])
def test_runtime_skip_normalization(agrees_on_exact_rows: Any, word: str) -> None:
    agrees_on_exact_rows(SKIP, by_runtime("SkipSimplifiedLayerNormalization"), (word, word))


def exact_sums_of_12_bits(word: str) -> tuple[Array, Array]:
    """x and residual of 11 bits or fewer, whose sums need 12 and whose squares add up exactly in float32."""
    rng = np.random.default_rng(0)
    total = rng.integers(-512, 513, size=(12, 16))
    total[:, 0] = 2 * rng.integers(1024, 1448, size=12) + 1
    x = total // 2 + rng.integers(-99, 100, size=(12, 16))
    return round_to(x / 128, word), round_to((total - x) / 128, word)


@pytest.mark.parametrize("word", ["float32", "float16"])
def test_runtime_adds_the_residual_unrounded(word: str) -> None:
    x, residual = exact_sums_of_12_bits(word)
    gain = round_to(1 + np.random.default_rng(1).standard_normal(16), word)
    live = by_runtime("SkipSimplifiedLayerNormalization", residual)(x, gain)
    declared = {**read_preset(SKIP).values, "width": 16, "input_dtype": word}
    np.testing.assert_array_equal(emulate_arrays(resolve(declared), x, gain, gain, residual), live)
    rounded = resolve({**declared, "statistic_source": "rounded", "numerator_source": "rounded"})
    same = np.array_equal(emulate_arrays(rounded, x, gain, gain, residual), live)
    assert same == (word == "float32")  # the twin: float32 holds every sum, float16 rounds some


@pytest.mark.parametrize("width", [1, 2, 7, 8, 15])
def test_runtime_divides_in_rows_of_fewer_than_16(agrees_on_exact_rows: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    x = round_to(rng.integers(-200, 201, size=(24, width)).astype(np.float64), "float32")
    gain = round_to(1 + rng.standard_normal(width), "float32")
    live = by_runtime("SimplifiedLayerNormalization")(x, gain)
    values = {**read_preset(SIMPLIFIED).values, "width": width}
    results = {
        inverse: emulate_arrays(resolve({**values, "inverse": inverse}), x, gain, gain, x)
        for inverse in ("divide_by_sqrt", "reciprocal_of_sqrt")
    }
    np.testing.assert_array_equal(results["divide_by_sqrt"], live)
    assert (results["reciprocal_of_sqrt"] != live).any()


@pytest.mark.parametrize("changes", [{"inverse": "divide_by_sqrt"}, {"association": "x*(i*g)"}, {"eps": 1.1e-5}])
def test_another_norm_is_noticed(agrees_on_exact_rows: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_exact_rows(SIMPLIFIED, by_runtime("RMSNormalization"), ("float32", "float32"), **changes)


# --- the specification and its evaluator ------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
def test_the_function_body(agrees_on_exact_rows: Any, word: str) -> None:
    agrees_on_exact_rows("onnx-rms-normalization-23", by_function_body, (word, word))


def test_the_body_rounds_where_the_runtime_does_not(agrees_on_exact_rows: Any) -> None:
    """In half precision the specification's own body and ONNX Runtime give different bits."""
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_exact_rows("onnx-rms-normalization-23", by_runtime("RMSNormalization"), ("float16", "float16"))


EVALUATOR = "onnx-reference-evaluator"


@pytest.mark.parametrize("gain_word", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("word", ["float32", "float16"])
def test_the_evaluator(agrees_on_exact_rows: Any, word: str, gain_word: str) -> None:
    agrees_on_exact_rows(EVALUATOR, by_evaluator, (word, gain_word))


@pytest.mark.parametrize("gain_word", ["float32", "float16", "bfloat16"])
def test_the_evaluator_adds_up_bfloat16_in_bfloat16(agrees_on_hard_rows: Any, gain_word: str) -> None:
    """It has a preset of its own. The sums of no row are exact there, but their order is known."""
    agrees_on_hard_rows(f"{EVALUATOR}-bfloat16", by_evaluator, ("bfloat16", gain_word), "sequential")
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_hard_rows(EVALUATOR, by_evaluator, ("bfloat16", gain_word), "sequential")


@pytest.mark.parametrize("changes", [{"square_dtype": "compute"}, {"mean_dtype": "compute"}, {"eps_dtype": "input"}])
def test_every_rounding_of_the_evaluator_is_noticed(agrees_on_exact_rows: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="differ"):
        agrees_on_exact_rows(EVALUATOR, by_evaluator, ("float16", "float16"), **changes)


def test_half_precision_squares_overflow_in_the_evaluator_and_not_in_the_runtime() -> None:
    x, gain = np.float16([[256, 256]]), np.float16([1, 1])
    assert by_evaluator(x, gain).tolist() == [[0.0, 0.0]]
    assert by_runtime("RMSNormalization")(x, gain).tolist() == [[1.0, 1.0]]
    for preset, value in (("onnx-reference-evaluator", 0.0), (SIMPLIFIED, 1.0), ("onnx-rms-normalization-23", 1.0)):
        spec = resolve({**read_preset(preset).values, "width": 2, "input_dtype": "float16"})
        assert emulate_arrays(spec, x, gain, gain, x).tolist() == [[value, value]]


def test_the_cases_that_onnx_publishes() -> None:
    """Axes before the last are rows here, and the axes normalised over are one row's width."""
    import_module("onnx.backend.test.case.node.rmsnormalization")  # all operators' cases would take half a minute
    cases = [case for case in node._NodeTestCases if case.name.startswith("test_rms_normalization")]
    assert len(cases) == 38
    nodes = {case.name: case.model.graph.node[0] for case in cases if not case.name.endswith("_expanded")}
    for case in cases:
        (((x, gain), (wanted,)),) = case.data_sets
        operator = nodes[case.name.removesuffix("_expanded")]  # the other half spells it out in smaller ones
        attributes = {a.name: helper.get_attribute_value(a) for a in operator.attribute}
        axis = attributes.get("axis", -1) % x.ndim
        rows, width = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))
        declared = {"width": width, "eps": attributes.get("epsilon", EPS)}
        spec = resolve({**read_preset("onnx-rms-normalization-23").values, **declared})
        flat, factor = x.reshape(rows, width), gain.reshape(width)
        got = emulate_arrays(spec, flat, factor, factor, flat).reshape(x.shape)
        # Rows have 120 elements at most; half an ulp for each addition, root, quotient and product is more than enough.
        np.testing.assert_allclose(got, wanted, rtol=128 * 2.0**-24, err_msg=case.name)
