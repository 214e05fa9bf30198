"""The onnx kind against live graphs: what it runs, what it reads off them, and what it refuses.

Most tests use the child's half in this process, which is quick; those at the end go the whole way, through processes.
"""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as node_cases

from rmsaudit.arrays import Array, bits, round_to
from rmsaudit.case import Case
from rmsaudit.documents.preset import read_preset
from rmsaudit.emulator import emulate
from rmsaudit.errors import CouldNotRun, InputProblem
from rmsaudit.loaders import Failed, Ran, onnx_child
from rmsaudit.loaders.onnx import Facts, OnnxSection, OnnxSide, inspect, load
from rmsaudit.loaders.onnx_child import ELEMENT_TYPES, BadModel, drawn
from rmsaudit.loaders.onnx_engine import Prepared, ToldError
from rmsaudit.loaders.onnx_graph import UnclearModel, find_norms
from rmsaudit.loaders.onnx_plan import Wish
from rmsaudit.semantics.resolve import resolve

pytestmark = pytest.mark.frameworks

WIDTH = 64
ROWS = ("rows", WIDTH)
EPS = 1e-5


# --- models ----------------------------------------------------------------------------------------------------------


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[str, tuple[Any, ...]]],
    *,
    outputs: tuple[str, ...] = ("y",),
    held: dict[str, Array] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes. inputs: name to dtype and shape; outputs have those of the first. held: initialisers."""
    word, shape = next(iter(inputs.values()))

    def info(name: str, word: str, shape: tuple[Any, ...]) -> Any:
        return helper.make_tensor_value_info(name, ELEMENT_TYPES[word], shape)

    graph = helper.make_graph(
        nodes,
        "norm",
        [info(name, *of) for name, of in inputs.items()],
        [info(name, word, shape) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (held or {}).items()],
    )
    opsets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def operator(
    op: str, word: str = "float32", operands: str = "x gain", shape: tuple[Any, ...] = ROWS
) -> onnx.ModelProto:
    """One operator, all of whose operands are inputs of `word`."""
    names = operands.split()
    domain = "com.microsoft" if op.startswith("Skip") else ""
    node = helper.make_node(op, names, ["y"], "norm", domain=domain, epsilon=EPS)
    return model([node], {name: (word, shape[-1:] if name in ("gain", "bias") else shape) for name in names})


def chain(word: str = "float32", *, outside: bool = False, eps: float = EPS) -> onnx.ModelProto:
    """x, cast to float32, through Pow, ReduceMean, Add, Sqrt and Div, cast back; a gain of its own."""
    add = ["Add", ["root" if outside else "ms", "eps"], ["guarded"]]
    root = ["Sqrt", ["ms" if outside else "guarded"], ["root"]]
    steps: list[list[Any]] = [
        ["Cast", ["x"], ["wide"]],
        ["Pow", ["wide", "two"], ["square"]],
        ["ReduceMean", ["square", "axes"], ["ms"]],
        *([root, add] if outside else [add, root]),
        ["Div", ["wide", "guarded" if outside else "root"], ["scaled"]],
        ["Cast", ["scaled"], ["narrow"]],
        ["Mul", ["narrow", "own_gain"], ["y"]],
    ]
    nodes = []
    for op, read, made in steps:
        to = {"to": ELEMENT_TYPES["float32" if made == ["wide"] else word]} if op == "Cast" else {}
        nodes.append(helper.make_node(op, read, made, op.lower() if op != "Cast" else made[0], **to))
    held = {
        "two": np.array(2, np.float32),
        "eps": np.array(eps, np.float32),
        "axes": np.array([-1]),
        "own_gain": own_gain(word),
    }
    return model(nodes, {"x": (word, ROWS)}, held=held)


def own_gain(word: str) -> Array:
    return round_to(np.linspace(0.5, 2, WIDTH), word)


def a_case(word: str = "float32", rows: int = 4, *, gain: Array | None = None, seed: int = 0) -> Case:
    """Rows whose sums of squares are exact in float32: small integers times powers of two."""
    drawn_ = np.random.default_rng(seed)
    x = drawn_.integers(-8, 9, (rows, WIDTH)) * np.exp2(np.resize([0, -6, -8], rows))[:, None]
    residual = drawn_.integers(-8, 9, (rows, WIDTH)) / 4.0
    drawn_gain = drawn_.integers(1, 16, WIDTH) / 8.0
    return Case(
        category="ordinary",
        label="",
        x=round_to(x, word),
        gain=round_to(drawn_gain, word) if gain is None else gain,
        bias=round_to(drawn_.integers(-8, 9, WIDTH) / 8.0, word),
        residual=round_to(residual, word),
    )


class Opened:
    """A model on disk, inspected and ready, in this process."""

    def __init__(self, folder: Path, proto: onnx.ModelProto | bytes, **section: Any) -> None:
        data = proto if isinstance(proto, bytes) else proto.SerializeToString()
        (folder / "model.onnx").write_bytes(data)
        chosen = OnnxSection(model=Path("model.onnx"), **section)
        request = {
            "model": str(folder / "model.onnx"),
            "engine": chosen.engine,
            "optimization": chosen.optimization,
            "threads": chosen.threads,
            "wish": {name: getattr(chosen, name) for name in asdict(Wish())},
        }
        answer = folder / "answer"
        answer.mkdir(exist_ok=True)
        self.facts = json.loads(json.dumps(onnx_child.inspect(request, answer)))
        (answer / "request.json").write_text(json.dumps(request))
        (answer / "facts.json").write_text(json.dumps(self.facts))
        self.prepared = Prepared(answer)

    def run(self, case: Case) -> Array:
        names = [*self.facts["feeds"], *self.facts["own"]]
        return self.prepared.run({name: getattr(case, name) for name in names})

    @property
    def eps(self) -> dict[str, Any]:
        return self.facts["norm"]["eps"]


Open = Callable[..., Opened]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    return lambda proto, **section: Opened(tmp_path, proto, **section)


def same_bits(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and np.array_equal(bits(one), bits(other))


# --- operators, against the emulator ---------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float32", "float16"])
@pytest.mark.parametrize("op", ["RMSNormalization", "SimplifiedLayerNormalization"])
def test_onnx_runtime_runs_an_operator_as_its_spec_says(op: str, word: str, opened: Open) -> None:
    live = opened(operator(op, word))
    case = a_case(word)
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": word, "cast_point": "after_gain"})
    assert same_bits(live.run(case), emulate(spec, case))
    assert (live.eps["value"], live.eps["trail"]) == (EPS, [f"attribute epsilon of node 'norm' ({op})"])
    assert live.facts["whole"]
    assert (live.facts["feeds"]["x"]["tensor"], live.facts["feeds"]["gain"]["tensor"]) == ("x", "gain")


@pytest.mark.parametrize("word", ["float32", "float16"])
def test_the_skip_operator_gets_x_and_residual(word: str, opened: Open) -> None:
    live = opened(operator("SkipSimplifiedLayerNormalization", word, "x residual gain"))
    case = a_case(word)
    declared = {"width": WIDTH, "eps": EPS, "input_dtype": word, "residual": "add", "cast_point": "after_gain"}
    declared |= {"inverse": "divide_by_sqrt", "statistic_source": "unrounded", "numerator_source": "unrounded"}
    assert same_bits(live.run(case), emulate(resolve(declared), case))


def test_bfloat16_crosses_as_its_bits(opened: Open) -> None:
    live = opened(operator("SimplifiedLayerNormalization", "bfloat16"))
    case = a_case("bfloat16")
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": "bfloat16", "cast_point": "after_gain"})
    assert same_bits(live.run(case), emulate(spec, case))


@pytest.mark.parametrize("word", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_a_graph_that_casts_takes_every_small_dtype(word: str, opened: Open) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["gain"], ["wide_gain"], to=TensorProto.FLOAT),
        helper.make_node("RMSNormalization", ["wide", "wide_gain"], ["n"], "norm", epsilon=EPS),
        helper.make_node("Cast", ["n"], ["y"], to=ELEMENT_TYPES[word]),
    ]
    live = opened(model(nodes, {"x": (word, ROWS), "gain": (word, (WIDTH,))}))
    case = a_case(word)
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": word, "cast_point": "after_gain"})
    assert same_bits(live.run(case), emulate(spec, case))


def test_the_default_epsilons_are_the_operators(opened: Open) -> None:
    """Read from the model, and measured: for x = ±v without a mean, y = v / √(v² + eps)."""
    v = 1e-6
    for op, operands in (("RMSNormalization", "x gain"), ("SkipSimplifiedLayerNormalization", "x residual gain")):
        proto = operator(op, operands=operands)
        del proto.graph.node[0].attribute[:]
        live = opened(proto)
        ones = np.ones(WIDTH, np.float32)
        case = a_case(gain=ones)
        x = np.full_like(case.x, v)
        y = live.run(Case(category="", label="", x=x, gain=ones, bias=ones, residual=np.zeros_like(x)))
        measured = v * v / float(y[0, 0]) ** 2 - v * v
        assert measured == pytest.approx(live.eps["value"], rel=1e-5)  # float32 roundings in y, squared
        assert live.eps["trail"] == [f"the default epsilon of node 'norm' ({op})"]


# --- the reference evaluator -----------------------------------------------------------------------------------------


def test_float16_row_of_256s_overflows_in_the_evaluator_and_not_in_the_runtime(opened: Open) -> None:
    proto = operator("RMSNormalization", "float16", shape=("rows", 2))
    x = np.full((1, 2), 256, np.float16)
    case = Case(category="", label="", x=x, gain=x[0] / 256, bias=x[0] * 0, residual=x * 0)
    assert opened(proto, engine="reference").run(case).tolist() == [[0, 0]]
    assert opened(proto).run(case).tolist() == [[1, 1]]


def test_the_evaluator_runs_without_the_runtime(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    live = opened(operator("RMSNormalization"), engine="reference")
    case = a_case()
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": "float32"})
    assert same_bits(live.run(case), emulate(spec, case))
    assert set(live.facts["versions"]) == {"python", "onnx", "numpy"}


# --- chains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float32", "float16"])
def test_a_chain_tells_its_eps_with_its_trail_and_its_gain(word: str, opened: Open) -> None:
    live = opened(chain(word))
    assert live.eps == {
        "value": EPS,
        "dtype": "float32",
        "placement": "inside_sqrt",
        "trail": ["constant 'eps'", "added by node 'add' (Add)"],
    }
    assert live.facts["own"]["gain"] == {"tensor": "own_gain", "dtype": word, "shape": [WIDTH]}
    assert same_bits(live.prepared.own["gain"], own_gain(word))
    assert live.facts["whole"]


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
def test_every_level_of_optimisation_runs(level: str, opened: Open) -> None:
    case = a_case(gain=own_gain("float32"))
    live = opened(chain(), optimization=level)
    x = case.x.astype(np.float64)
    want = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * case.gain
    assert np.allclose(live.run(case), want, rtol=4 * 2.0**-24, atol=0)  # at most four float32 roundings


def test_a_level_of_optimisation_can_change_bits(opened: Open) -> None:
    """From `extended` on, ONNX Runtime fuses the chain, which divides, into its operator, which multiplies by 1/√."""
    case = a_case(rows=64, gain=own_gain("float32"))
    declared = {"width": WIDTH, "eps": EPS, "input_dtype": "float32"}
    divides = emulate(resolve({**declared, "inverse": "divide_by_sqrt"}), case)
    multiplies = emulate(resolve({**declared, "inverse": "reciprocal_of_sqrt"}), case)
    assert not same_bits(divides, multiplies)
    for level, want in (("none", divides), ("basic", divides), ("extended", multiplies), ("all", multiplies)):
        assert same_bits(opened(chain(), optimization=level).run(case), want)


def test_eps_outside_the_root_is_seen(opened: Open) -> None:
    live = opened(chain(outside=True))
    assert live.eps["placement"] == "outside_sqrt"
    case = a_case(gain=own_gain("float32"))
    declared = {"width": WIDTH, "eps": EPS, "input_dtype": "float32", "inverse": "divide_by_sqrt"}
    declared["eps_placement"] = "outside_sqrt"
    assert same_bits(live.run(case), emulate(resolve(declared), case))


def test_all_19_expanded_node_models_of_onnx_show_the_eps_of_their_operator() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, from making the expected outputs
        import_module("onnx.backend.test.case.node.rmsnormalization")  # one operator's cases; all take half a minute
    cases = {case.name: case.model for case in node_cases._NodeTestCases if "test_rms_normalization" in case.name}
    assert len(cases) == 38
    norms = {}
    for name, proto in cases.items():
        (norms[name],) = find_norms(drawn(proto.graph))
    for name, norm in norms.items():
        assert norm.eps is not None
        if name.endswith("_expanded"):
            operator_eps = norms[name.removesuffix("_expanded")].eps
            assert operator_eps is not None
            assert norm.kind == "decomposed"
            assert (norm.eps.value, norm.eps.placement) == (operator_eps.value, operator_eps.placement)


@pytest.mark.parametrize("engine", ["onnxruntime", "reference"])
def test_all_38_node_models_of_onnx_run_as_the_preset_says(engine: str, opened: Open) -> None:
    """19 operators and the same spelled out in smaller ones. A norm over several axes has rows of their product."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_module("onnx.backend.test.case.node.rmsnormalization")
    cases = [case for case in node_cases._NodeTestCases if case.name.startswith("test_rms_normalization")]
    assert len(cases) == 38
    for case in cases:
        live = opened(case.model, engine=engine)
        (((x, gain), (wanted,)),) = case.data_sets
        flat = Case(
            category="node", label=case.name, x=x.reshape(-1, gain.size), gain=gain.reshape(-1),
            bias=np.zeros(gain.size, np.float32), residual=np.zeros_like(x.reshape(-1, gain.size)),
        )  # fmt: skip
        got = live.run(flat)
        # Rows have 120 elements at most; half an ulp for each addition, root, quotient and product is more than enough.
        np.testing.assert_allclose(got, wanted.reshape(got.shape), rtol=128 * 2.0**-24, err_msg=case.name)
        declared = {**read_preset("onnx-rms-normalization-23").values, "width": gain.size, "eps": live.eps["value"]}
        preset = emulate(resolve(declared), flat)
        np.testing.assert_allclose(got, preset, rtol=128 * 2.0**-24, err_msg=case.name)


def test_a_norm_over_several_axes_knows_its_width(tmp_path: Path) -> None:
    shape = ("rows", 4, 8)
    inputs: dict[str, tuple[str, tuple[Any, ...]]] = {"x": ("float32", shape), "gain": ("float32", shape[1:])}
    proto = model([helper.make_node("RMSNormalization", ["x", "gain"], ["y"], "norm", axis=1, epsilon=EPS)], inputs)
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    facts = inspect(OnnxSection(model=Path("model.onnx")), tmp_path)
    assert facts.width == 32
    spec = resolve({"width": 32, "eps": EPS})
    with load(OnnxSection(model=Path("model.onnx")), facts, declared={}, spec=spec, gain=None, home=tmp_path) as live:
        assert live.only_width == "the graph takes tensor 'x' of width 32 only"
        x = a_case().x[:, :32]
        case = Case(category="c", label="", x=x, gain=a_case().gain[:32], bias=x[0] * 0, residual=x * 0)
        seen = live.observe(case)
    assert isinstance(seen, Ran)
    assert same_bits(seen.output, emulate(spec, case))


class Llama(torch.nn.Module):
    """The order of transformers' LlamaRMSNorm."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 2, WIDTH))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


class Block(torch.nn.Module):
    """A norm, a product, the residual stream, and another norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.linear, self.second = Llama(1e-5), torch.nn.Linear(WIDTH, WIDTH), Llama(1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.linear(self.first(x)) + x)


def exported(module: torch.nn.Module, example: torch.Tensor, path: Path) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is on its way out; the other needs onnxscript
        torch.onnx.export(
            module, (example,), path, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"]
        )
    return path.read_bytes()


def test_a_norm_is_cut_out_of_an_exported_block(opened: Open, tmp_path: Path) -> None:
    block = Block()
    proto = exported(block, torch.ones(1, 3, WIDTH), tmp_path / "block.onnx")
    with pytest.raises(UnclearModel, match="holds 2 norms; name one with `node:` or `output:`; it holds node '/first/"):
        opened(proto)
    for node, norm in (("/first/Add", block.first), ("/second/Add", block.second)):
        live = opened(proto, node=node)
        assert not live.facts["whole"]
        assert live.eps["value"] == norm.eps
        case = a_case(rows=5, gain=norm.weight.detach().numpy())  # 5 rows, where the export has 3 for ever
        with torch.no_grad():
            assert np.allclose(live.run(case), norm(torch.from_numpy(case.x)), rtol=1e-6, atol=0)
        assert live.facts["own"]["gain"]["tensor"].endswith("weight")
        kept = onnx.load_model_from_string(live.prepared.data)
        assert "MatMul" not in {node.op_type for node in kept.graph.node}
        assert [tensor.name for tensor in kept.graph.initializer] == [live.facts["own"]["gain"]["tensor"]]


def test_a_norm_in_a_function_of_the_models_own_is_found(opened: Open) -> None:
    whole = chain()
    inner = [node for node in whole.graph.node if node.output[0] not in ("wide", "narrow")]
    held = [
        helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, kind)))
        for name, value, kind in (("two", 2, np.float32), ("eps", EPS, np.float32), ("axes", [-1], np.int64))
    ]
    for node in inner:
        node.input[:] = [{"wide": "x", "narrow": "scaled", "own_gain": "g"}.get(name, name) for name in node.input]
    opset = [helper.make_opsetid("", 23)]
    function = helper.make_function("local", "Rms", ["x", "g"], ["y"], [*held, *inner], opset)
    outer = helper.make_node("Rms", ["x", "gain"], ["y"], "rms", domain="local")
    proto = model([outer], {"x": ("float32", ROWS), "gain": ("float32", (WIDTH,))})
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("local", 1))
    live = opened(proto)
    assert (live.eps["value"], live.facts["whole"]) == (EPS, True)
    assert same_bits(live.run(a_case()), opened(chain()).run(a_case()))


# --- gains of its own ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["float32", "float16", "bfloat16"])
def test_another_gain_takes_the_place_of_the_models_own(word: str, opened: Open) -> None:
    node = helper.make_node("SimplifiedLayerNormalization", ["x", "g"], ["y"], "norm", epsilon=EPS)
    live = opened(model([node], {"x": (word, ROWS)}, held={"g": own_gain(word)}))
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": word, "cast_point": "after_gain"})
    for case in (a_case(word, gain=own_gain(word)), a_case(word), a_case(word, gain=-own_gain(word))):
        assert same_bits(live.run(case), emulate(spec, case))
    assert len(live.prepared.engines) == 2  # the own one, and the last other


def test_a_gain_in_a_constant_node_and_with_axes_of_one_is_replaced_as_well(opened: Open) -> None:
    held = numpy_helper.from_array(own_gain("float32").reshape(1, 1, WIDTH), "value")
    nodes = [
        helper.make_node("Constant", [], ["g"], value=held),
        helper.make_node("RMSNormalization", ["x", "ones"], ["n"], "norm", epsilon=EPS),
        helper.make_node("Mul", ["n", "g"], ["y"]),
    ]
    live = opened(model(nodes, {"x": ("float32", (1, "rows", WIDTH))}, held={"ones": np.ones(WIDTH, np.float32)}))
    assert live.facts["own"]["gain"] == {"tensor": "g", "dtype": "float32", "shape": [1, 1, WIDTH]}
    case = a_case()
    assert same_bits(live.run(case), emulate(resolve({"width": WIDTH, "eps": EPS, "input_dtype": "float32"}), case))


def test_a_bias_of_the_models_own_is_replaced_as_well(opened: Open) -> None:
    nodes = [
        helper.make_node("RMSNormalization", ["x", "g"], ["n"], "norm", epsilon=EPS),
        helper.make_node("Add", ["n", "b"], ["y"]),
    ]
    held = {"g": own_gain("float32"), "b": np.ones(WIDTH, np.float32)}
    live = opened(model(nodes, {"x": ("float32", ROWS)}, held=held))
    assert set(live.facts["own"]) == {"gain", "bias"}
    spec = resolve({"width": WIDTH, "eps": EPS, "input_dtype": "float32", "bias": True})
    assert same_bits(live.run(a_case()), emulate(spec, a_case()))


def test_a_gain_that_is_no_tensor_of_floats_is_told(opened: Open) -> None:
    nodes = [
        helper.make_node("Cast", ["g"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("RMSNormalization", ["x", "f"], ["y"], "norm", epsilon=EPS),
    ]
    with pytest.raises(UnclearModel, match="keeps its gain in 'g', which is no tensor of float32"):
        opened(model(nodes, {"x": ("float32", ROWS)}, held={"g": np.arange(WIDTH, dtype=np.int8)}))


def test_a_norm_without_a_gain_is_known_to_have_none(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"]),
        helper.make_node("ReduceMean", ["s", "axes"], ["m"], "mean"),
        helper.make_node("Sqrt", ["m"], ["r"]),
        helper.make_node("Div", ["x", "r"], ["y"]),
    ]
    facts, live = side(tmp_path, model(nodes, {"x": ("float32", ROWS)}, held={"axes": np.array([-1])}))
    with live:
        assert facts.variables()["gain_applied"] == (False, "node 'mean', output 'y' (decomposed)")
        assert facts.eps is None
        spec = resolve({"width": WIDTH, "eps_placement": "none", "gain_applied": False, "inverse": "divide_by_sqrt"})
        seen = live.observe(a_case())
        assert isinstance(seen, Ran)
        assert same_bits(seen.output, emulate(spec, a_case()))


# --- shapes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [("a", WIDTH), ("a", "b", WIDTH), (1, "a", WIDTH), (2, "a", WIDTH), (4, WIDTH), (2, 2, WIDTH), ("a", "w")]
)
def test_rows_find_their_place_in_any_shape_that_holds_them(shape: tuple[Any, ...], opened: Open) -> None:
    case = a_case(rows=4)
    live = opened(operator("RMSNormalization", shape=shape))
    assert same_bits(live.run(case), emulate(resolve({"width": WIDTH, "eps": EPS, "input_dtype": "float32"}), case))


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((3, WIDTH), r"takes x in shape \[3, 64\], into which 4 rows do not fit; use --rows 3"),
        ((3, "a", WIDTH), r"takes x in shape \[3, None, 64\], into which 4 rows do not fit; use --rows 3"),
        (("a", 32), "takes x of width 32; the case has width 64"),
    ],
)
def test_rows_that_do_not_fit_are_told_so(shape: tuple[Any, ...], says: str, opened: Open) -> None:
    live = opened(operator("RMSNormalization", shape=shape))
    with pytest.raises(ToldError, match=says):
        live.run(a_case(rows=4))


# --- files that are refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not an ONNX model: no operators"),
        (b"hello, this is no model", "is not an ONNX model: its bytes do not follow the format"),
        (b"\x00" * 100, "is not an ONNX model"),
        (bytes(range(256)), "is not an ONNX model"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the model itself"),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "is not an ONNX model: no operators"),
    ],
)
def test_what_is_no_model_is_said_to_be_none(data: bytes, says: str, opened: Open) -> None:
    with pytest.raises(BadModel, match=says):
        opened(data)


def test_a_model_that_is_cut_short_is_refused(opened: Open) -> None:
    data = operator("RMSNormalization").SerializeToString()
    with pytest.raises(BadModel, match="is not an ONNX model"):
        opened(data[: len(data) // 2])


def external(proto: onnx.ModelProto, location: str, **place: int) -> onnx.ModelProto:
    """The same model with its gain kept in another file."""
    (tensor,) = (each for each in proto.graph.initializer if each.name == "own_gain")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **place}.items():
        tensor.external_data.add(key=key, value=str(value))
    return proto


def test_tensors_in_a_file_beside_the_model_are_read(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "gains.bin").write_bytes(b"12345678" + own_gain("float32").tobytes())
    live = opened(external(chain(), "sub/gains.bin", offset=8, length=4 * WIDTH))
    assert same_bits(live.prepared.own["gain"], own_gain("float32"))
    case = a_case(gain=own_gain("float32"))
    assert same_bits(live.run(case), Opened(tmp_path, chain()).run(case))
    assert set(live.facts["digests"]) == {"model.onnx", "sub/gains.bin"}


ATTACKS = {
    "climbing": "../secret",
    "climbing within": "sub/../../secret",
    "absolute": "/etc/hostname",
    "by a link": "link",
    "by a linked folder": "folder/secret",
    "in a circle of links": "circle",
    "with another system's slashes": "..\\secret",
    "on a drive": "C:secret",
    "to the folder itself": "",
}


@pytest.mark.parametrize("location", ATTACKS.values(), ids=ATTACKS)
def test_tensors_outside_the_folder_are_refused_before_anything_is_read(location: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(4 * WIDTH))
    (home / "link").symlink_to(tmp_path / "secret")
    (home / "folder").symlink_to(tmp_path)
    (home / "circle").symlink_to(home / "circle")
    with pytest.raises(BadModel, match=r"keeps tensor 'own_gain' in .*, outside its own folder; that is not read"):
        Opened(home, external(chain(), location))
    assert list((home / "answer").iterdir()) == []


def test_an_attack_from_within_a_subgraph_is_seen_too(opened: Open) -> None:
    """The tensor sits in an attribute of a node in a branch, where no initialiser list has it."""
    hidden = TensorProto(name="hidden", data_type=TensorProto.FLOAT, dims=[WIDTH], data_location=TensorProto.EXTERNAL)
    hidden.external_data.add(key="location", value="../secret")
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=hidden)], "b", [], [helper.make_tensor_value_info("c", 1, None)]
    )
    proto = operator("RMSNormalization")
    proto.graph.node.append(helper.make_node("If", ["gain"], ["z"], then_branch=branch, else_branch=branch))
    with pytest.raises(BadModel, match=r"keeps tensor 'hidden' in '\.\./secret', outside its own folder"):
        opened(proto)


@pytest.mark.parametrize(
    ("location", "place", "says"),
    [
        ("none.bin", {}, "which is no file beside it"),
        ("short.bin", {"length": 4 * WIDTH}, "beyond the end of 'short.bin'; that file is cut short"),
        ("short.bin", {"offset": -1}, "a place that is no pair of counts"),
    ],
)
def test_a_broken_place_is_told(location: str, place: dict[str, int], says: str, opened: Open, tmp_path: Path) -> None:
    (tmp_path / "short.bin").write_bytes(bytes(8))
    with pytest.raises(BadModel, match=says):
        opened(external(chain(), location, **place))


def test_a_missing_package_comes_with_the_command(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    find = onnx_child.importlib.util.find_spec
    monkeypatch.setattr(
        onnx_child.importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name)
    )
    with pytest.raises(
        BadModel, match=r"needs onnxruntime, which this Python does not have: pip install 'rmsaudit\[onnx\]'"
    ):
        opened(operator("RMSNormalization"))


# --- the whole way, through processes --------------------------------------------------------------------------------


def side(home: Path, proto: onnx.ModelProto | bytes, **section: Any) -> tuple[Facts, OnnxSide]:
    (home / "model.onnx").write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    chosen = OnnxSection(model=Path("model.onnx"), **section)
    facts = inspect(chosen, home)
    declared = {"width": WIDTH, **{name: value for name, (value, _) in facts.variables().items()}}
    return facts, load(chosen, facts, declared=declared, spec=resolve(declared), gain=None, home=home)


def test_a_side_runs_in_its_own_process_and_knows_what_it_is(tmp_path: Path) -> None:
    facts, live = side(tmp_path, chain("bfloat16"))
    with live:
        assert same_bits(live.gain, own_gain("bfloat16"))
        assert facts.variables() == {
            "eps": (EPS, "constant 'eps'; added by node 'add' (Add)"),
            "eps_placement": ("inside_sqrt", "added by node 'add' (Add)"),
            "eps_dtype": ("float32", "constant 'eps'"),
            "input_dtype": ("bfloat16", "tensor 'x'"),
            "gain_dtype": ("bfloat16", "constant 'own_gain'"),
            "width": (WIDTH, "the shape of tensor 'x'"),
        }
        assert set(live.versions) == {"python", "onnx", "onnxruntime"}
        assert live.versions["onnxruntime"] == onnxruntime.__version__
        assert len(live.digests["model.onnx"]) == 64
        says = live.observe(a_case("bfloat16"))
        assert isinstance(says, Failed)  # its last Mul is of bfloat16, for which ONNX Runtime's CPU has no kernel
        assert says.says.startswith("model.onnx is not accepted by ONNX Runtime with x in bfloat16: Could not find")


def test_a_side_converts_what_stays_exact_and_refuses_the_rest(tmp_path: Path) -> None:
    _, live = side(tmp_path, operator("RMSNormalization", "float16"))
    with live:
        wide = a_case("float32")
        narrow = a_case("float16")
        seen, same = live.observe(wide), live.observe(narrow)
        assert isinstance(seen, Ran)
        assert isinstance(same, Ran)
        assert same_bits(seen.output, same.output)
        off_grid = Case(**{**vars(wide), "x": wide.x + np.float32(2.0**-20)})
        assert live.observe(off_grid) == Failed(
            "the graph takes x as float16, and not all values of this float32 input exist there"
        )
        too_narrow = live.observe(Case(**{**vars(narrow), "x": narrow.x[:, :32], "gain": narrow.gain[:32]}))
        assert too_narrow == Failed("model.onnx takes x of width 64; the case has width 32")


def test_an_operator_that_the_evaluator_does_not_know_is_told(opened: Open) -> None:
    live = opened(operator("SimplifiedLayerNormalization"), engine="reference")
    with pytest.raises(ToldError, match="is not accepted by ONNX's reference evaluator with x in float32: No regist"):
        live.run(a_case())


def test_a_graph_of_integers_is_told(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("RMSNormalization", ["f", "gain"], ["y"], "norm", epsilon=EPS),
    ]
    proto = model(nodes, {"x": ("float32", ROWS), "gain": ("float32", (WIDTH,))})
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    _, live = side(tmp_path, proto)
    with live:
        seen = live.observe(a_case())
    assert isinstance(seen, Failed)
    assert seen.says.startswith("the graph takes x as int32, and an operand is one of float64")


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"no model", "model.onnx: is not an ONNX model"), (None, "model.onnx: cannot be read: No such file")],
)
def test_a_file_that_cannot_be_used_is_an_input_problem(data: bytes | None, says: str, tmp_path: Path) -> None:
    if data is not None:
        (tmp_path / "model.onnx").write_bytes(data)
    with pytest.raises(InputProblem, match=says):
        inspect(OnnxSection(model=Path("model.onnx")), tmp_path)


def test_a_file_called_onnx_py_beside_the_model_is_never_imported(tmp_path: Path) -> None:
    for name in ("onnx.py", "onnxruntime.py", "json.py", "numpy.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')")
    _, live = side(tmp_path, operator("RMSNormalization"))
    with live:
        assert isinstance(live.observe(a_case()), Ran)


def test_reading_takes_no_longer_than_its_limit(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(chain().SerializeToString())
    with pytest.raises(CouldNotRun, match=r"model\.onnx: reading it was still running after 0.01 s"):
        inspect(OnnxSection(model=Path("model.onnx"), timeout=0.01), tmp_path)
