"""Norms in pictures of graphs: found, with the eps and its trail, and with what has to be fed. Needs no ONNX package.

A graph is written node by node, on lines or between semicolons: `OP input input -> output @name key=number`.
"""

import re

import pytest

from rmsaudit.loaders.onnx_graph import (
    Constant,
    FoundEps,
    Graph,
    Node,
    Norm,
    UnclearModel,
    Value,
    find_norms,
    shortest,
    vector_root,
)
from rmsaudit.loaders.onnx_plan import Wish, plan

LINE = re.compile(r"(\w+) (.*) -> (.*?)(?: @(\S+))?((?: \w+=\S+)*)")
TWO = Constant(dtype="float32", shape=(), element=2.0)
EPS = Constant(dtype="float32", shape=(), element=9.999999747378752e-06)  # 1e-5 in float32
ONE = Constant(dtype="float32", shape=(), element=1.0)
GAIN = Constant(dtype="float32", shape=(64,))
ROWS = Value(dtype="float32", shape=(None, 64))
VECTOR = Value(dtype="float32", shape=(64,))


def graph(text: str, inputs: dict[str, Value], outputs: str = "y", **constants: Constant) -> Graph:
    nodes = []
    for line in filter(None, map(str.strip, re.split("[;\n]", text))):
        found = LINE.fullmatch(line)
        assert found is not None, line
        op, read, made, name, numbers = found.groups()
        attributes = {key: float(value) for key, _, value in (part.partition("=") for part in numbers.split())}
        names = tuple("" if word == "_" else word for word in read.split())
        nodes.append(Node(op=op, inputs=names, outputs=tuple(made.split()), name=name or "", attributes=attributes))
    held = {"two": TWO, "eps": EPS, "one": ONE, **constants}
    return Graph(
        nodes=tuple(nodes), inputs=tuple(inputs), outputs=tuple(outputs.split()), constants=held, values=inputs
    )


def the_norm(found: Graph) -> Norm:
    (norm,) = find_norms(found)
    return norm


LLAMA = """
Cast x -> xf @cast
Pow xf two -> square @pow
ReduceMean square -> ms @mean
Add ms eps -> sum @add
Sqrt sum -> root @sqrt
Div one root -> inverse @div
Mul xf inverse -> scaled @mul
Cast scaled -> half @back
Mul gain half -> y @gain
"""


# --- operators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "operands", "center"),
    [
        ("RMSNormalization x gain -> y @norm epsilon=1e-05", {"x": "x", "gain": "gain"}, False),
        ("SimplifiedLayerNormalization x gain -> y @norm epsilon=1e-05", {"x": "x", "gain": "gain"}, False),
        (
            "SkipSimplifiedLayerNormalization x residual gain -> y _ _ sum @norm epsilon=1e-05",
            {"x": "x", "residual": "residual", "gain": "gain"},
            False,
        ),
        (
            "LayerNormalization x gain bias -> y @norm epsilon=1e-05",
            {"x": "x", "gain": "gain", "bias": "bias"},
            True,
        ),
        (
            "SkipLayerNormalization x residual gain bias -> y @norm epsilon=1e-05",
            {"x": "x", "residual": "residual", "gain": "gain", "bias": "bias"},
            True,
        ),
    ],
)
def test_an_operator_is_read(line: str, operands: dict[str, str], center: bool) -> None:
    found = graph(line, {name: VECTOR if name in ("gain", "bias") else ROWS for name in operands})
    norm = the_norm(found)
    op = line.split()[0]
    assert (norm.kind, norm.center) == (op, center)
    trail = (f"attribute epsilon of node 'norm' ({op})",)
    assert norm.eps == FoundEps(value=1e-5, dtype="float32", placement="inside_sqrt", trail=trail)
    planned = plan(found, Wish())
    assert dict(planned.feeds) == operands
    assert (planned.output, planned.whole) == ("y", True)


@pytest.mark.parametrize(
    ("op", "default"), [("RMSNormalization x gain", 1e-5), ("SkipSimplifiedLayerNormalization x r gain", 1e-12)]
)
def test_an_eps_that_is_not_written_is_the_operators_default_and_said_to_be(op: str, default: float) -> None:
    eps = the_norm(graph(f"{op} -> y", {"x": ROWS, "r": ROWS, "gain": VECTOR})).eps
    assert eps is not None
    assert eps.value == default
    assert eps.trail == (f"the default epsilon of the {op.split()[0]} that makes 'y'",)


def test_a_vector_that_is_added_before_the_norm_is_no_bias() -> None:
    found = graph(
        "SkipSimplifiedLayerNormalization x r gain b -> y", {"x": ROWS, "r": ROWS, "gain": VECTOR, "b": VECTOR}
    )
    with pytest.raises(UnclearModel, match="adds 'b' to x before its norm, for which there is no operand"):
        plan(found, Wish())


def test_the_gain_that_follows_an_operator_of_ones_is_the_gain() -> None:
    text = "RMSNormalization x ones -> n; Mul n gain -> y"
    ones = Constant(dtype="float32", shape=(64,), element=1.0)
    assert the_norm(graph(text, {"x": ROWS}, ones=ones, gain=GAIN)).gain == "gain"
    twos = Constant(dtype="float32", shape=(64,), element=2.0)
    assert the_norm(graph(text, {"x": ROWS}, ones=twos, gain=GAIN)).gain == "ones"


# --- chains ----------------------------------------------------------------------------------------------------------


def test_a_chain_is_followed_from_cast_to_gain() -> None:
    norm = the_norm(graph(LLAMA, {"x": ROWS}, gain=GAIN))
    assert (norm.kind, norm.x, norm.gain, norm.output) == ("decomposed", "x", "gain", "y")
    assert norm.eps == FoundEps(
        value=1e-5, dtype="float32", placement="inside_sqrt", trail=("constant 'eps'", "added by node 'add' (Add)")
    )
    assert str(norm) == "node 'mean', output 'y' (decomposed, eps 1e-05)"


MEAN = "ReduceMean s -> m; "
ROOT = "Add m eps -> a; Sqrt a -> r; "
TO_ROOT = f"Mul x x -> s; {MEAN}{ROOT}"
CHAINS = {
    "square by Mul, Reciprocal": f"Mul x x -> s; {MEAN}Add eps m -> a; Sqrt a -> r; Reciprocal r -> i; Mul i x -> n",
    "divided by the root": f"Pow x two -> s; {MEAN}{ROOT}Div x r -> n",
    "Pow -0.5": f"Pow x two -> s; {MEAN}Add m eps -> a; Pow a minus_half -> i; Mul x i -> n",
    "Pow 0.5": f"Pow x two -> s; {MEAN}Add m eps -> a; Pow a half -> r; Div x r -> n",
    "sum over n": f"Mul x x -> s; ReduceSum s -> t; Div t n64 -> m; {ROOT}Div x r -> n",
    "sum of squares times 1/n": f"ReduceSumSquare x -> t; Mul t inv64 -> m; {ROOT}Div x r -> n",
    "rounded inverse": f"Cast x -> f; Mul f f -> s; {MEAN}{ROOT}Reciprocal r -> i; Cast i -> h; Mul x h -> n",
    "Identity": f"Identity x -> f; Mul f f -> s; {MEAN}Identity m -> k; Add k eps -> a; Sqrt a -> r; Div f r -> n",
}
NUMBERS = {"half": 0.5, "minus_half": -0.5, "n64": 64.0, "inv64": 1 / 64, "root64": 8.0}
HELD = {name: Constant(dtype="float32", shape=(1,), element=value) for name, value in NUMBERS.items()}


@pytest.mark.parametrize("gain", ["Mul n gain -> y", "Mul gain n -> y", "Cast n -> c; Mul c gain -> y"])
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_chain_in_other_operators_is_the_same_norm(chain: str, gain: str) -> None:
    norm = the_norm(graph(f"{chain}; {gain}", {"x": ROWS, "gain": VECTOR}, **HELD))
    assert (norm.x, norm.gain, norm.output, norm.center) == ("x", "gain", "y", False)
    assert norm.eps is not None
    assert (norm.eps.value, norm.eps.placement) == (1e-5, "inside_sqrt")


@pytest.mark.parametrize(
    ("chain", "placement"),
    [
        ("ReduceMean s -> m; Sqrt m -> r; Add r eps -> a; Div x a -> n", "outside_sqrt"),
        ("ReduceMean s -> m; Sqrt m -> r; Max r eps -> a; Div x a -> n", "floor_rms"),
        ("ReduceMean s -> m; Sqrt m -> r; Clip r eps -> a; Div x a -> n", "floor_rms"),
        ("ReduceL2 x -> r; Clip r eps -> a; Div x a -> n", "floor_norm"),
        ("ReduceL2 x -> t; Div t root64 -> r; Add r eps -> a; Div x a -> n", "outside_sqrt"),
        ("ReduceSum s -> m; Add m eps -> a; Sqrt a -> r; Div x r -> n", "inside_sum"),
        ("ReduceMean s -> m; Max m eps -> a; Sqrt a -> r; Div x r -> n", None),
    ],
)
def test_where_eps_stands_is_told(chain: str, placement: str | None) -> None:
    eps = the_norm(graph(f"Mul x x -> s; {chain}; Mul n gain -> y", {"x": ROWS, "gain": VECTOR}, **HELD)).eps
    assert eps is not None
    assert eps.placement == placement


def test_a_chain_without_eps_has_none() -> None:
    text = "Mul x x -> s; ReduceMean s -> m; Sqrt m -> r; Div x r -> y"
    norm = the_norm(graph(text, {"x": ROWS}))
    assert norm.eps is None
    assert norm.gain is None


def test_the_trail_of_an_eps_leads_through_casts_that_round_it() -> None:
    text = "Cast eps -> e @narrow; Mul x x -> s; ReduceMean s -> m; Add m e -> a @add; Sqrt a -> r; Div x r -> y"
    eps = the_norm(graph(text, {"x": ROWS, "e": Value(dtype="float16")})).eps
    assert eps is not None
    assert eps.trail == ("constant 'eps'", "cast to float16 by node 'narrow' (Cast)", "added by node 'add' (Add)")
    assert (eps.value, eps.dtype) == (1e-5, "float16")
    tiny = Constant(dtype="float32", shape=(), element=1e-8)
    vanished = the_norm(graph(text, {"x": ROWS, "e": Value(dtype="float16")}, eps=tiny)).eps
    assert vanished is not None
    assert vanished.value == 0.0  # 1e-8 is below half of float16's smallest number


def test_a_gain_with_an_offset_leads_to_the_constant_behind_it() -> None:
    text = LLAMA.replace("Mul gain half -> y", "Cast gain -> g; Add g one -> plus; Mul half plus -> y")
    found = graph(text, {"x": ROWS}, gain=GAIN)
    assert the_norm(found).gain == "plus"
    assert dict(plan(found, Wish()).own) == {"gain": "gain"}


def test_the_gain_may_come_before_the_inverse_does() -> None:
    start = f"{TO_ROOT}Reciprocal r -> i; "
    for rest in ("Mul i gain -> k; Mul x k -> y", "Mul x gain -> k; Mul k i -> y"):
        norm = the_norm(graph(start + rest, {"x": ROWS, "gain": VECTOR}))
        assert (norm.x, norm.gain, norm.output) == ("x", "gain", "y")


def test_a_bias_is_taken_in_and_what_follows_is_not() -> None:
    text = f"{LLAMA}Add y bias -> z; Mul z gain -> w"
    norm = the_norm(graph(text, {"x": ROWS}, outputs="w", gain=GAIN, bias=GAIN))
    assert (norm.bias, norm.output) == ("bias", "z")


def test_a_mean_that_is_subtracted_makes_it_a_layer_norm() -> None:
    text = (
        "ReduceMean x -> mu; Sub x mu -> d; Mul d d -> s; ReduceMean s -> v; Add v eps -> a; Sqrt a -> r; Div d r -> y"
    )
    norm = the_norm(graph(text, {"x": ROWS}))
    assert norm.center
    assert norm.x == "x"


@pytest.mark.parametrize(
    "text",
    [
        "ReduceMean x -> y",  # a mean of no squares
        "Mul x x -> s; ReduceMean s -> y",  # a mean square and no more
        "Mul x x -> s; ReduceMean s -> m; Sqrt m -> y",  # an rms and no more
        "Mul x z -> s; ReduceMean s -> m; Add m eps -> a; Sqrt a -> r; Div x r -> y",  # no square
        "Pow x three -> s; ReduceMean s -> m; Add m eps -> a; Sqrt a -> r; Div x r -> y",
        f"{TO_ROOT}Div z r -> y",  # another tensor is divided
        "Mul x x -> s; ReduceMean s -> m; Add m eps -> a; Div x a -> y",  # no root
        f"{TO_ROOT}Div r x -> y",  # upside down
        f"{TO_ROOT}Mul x r -> y",  # not inverted
        f"{TO_ROOT}Reciprocal r -> i; Div x i -> y",  # inverted twice
    ],
)
def test_what_only_resembles_a_norm_is_none(text: str) -> None:
    three = Constant(dtype="float32", shape=(), element=3.0)
    assert find_norms(graph(text, {"x": ROWS, "z": ROWS}, three=three)) == ()


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (9.999999747378752e-06, "float32", 1e-5),
        (9.999999974752427e-07, "float32", 1e-6),
        (1.0132789611816406e-06, "float16", 1e-6),
        (1e-6, "float64", 1e-6),
        (1.1920928955078125e-07, "float32", 1.1920929e-07),
        (0.0, "float32", 0.0),
        (9.98377799987793e-07, "bfloat16", 1e-6),
    ],
)
def test_an_eps_is_shown_as_the_shortest_decimal_that_is_it(value: float, dtype: str, shown: float) -> None:
    assert shortest(value, dtype) == shown


@pytest.mark.parametrize(
    ("shape", "is_vector"),
    [((64,), True), ((1, 1, 64), True), ((), False), ((1,), False), ((4, 64), False), (None, False)],
)
def test_a_vector_has_one_axis_that_counts(shape: tuple[int, ...] | None, is_vector: bool) -> None:
    found = graph("Identity v -> y", {"v": Value(dtype="float32", shape=shape)})
    assert (vector_root(found, "y") == "v") is is_vector


# --- what is fed -----------------------------------------------------------------------------------------------------

TWO_NORMS = """
RMSNormalization x g1 -> n @first epsilon=1e-05
MatMul n weights -> h @matmul
Add h x -> stream @add
RMSNormalization stream g2 -> y @second epsilon=1e-06
"""


def two_norms() -> Graph:
    return graph(TWO_NORMS, {"x": ROWS}, g1=GAIN, g2=GAIN, weights=Constant(dtype="float32", shape=(64, 64)))


def test_several_norms_are_listed() -> None:
    with pytest.raises(UnclearModel) as unclear:
        plan(two_norms(), Wish())
    assert str(unclear.value) == (
        "holds 2 norms; name one with `node:` or `output:`;"
        " it holds node 'first', output 'n' (RMSNormalization, eps 1e-05);"
        " node 'second', output 'y' (RMSNormalization, eps 1e-06)"
    )


@pytest.mark.parametrize(
    ("wish", "x", "gain", "output", "whole"),
    [
        (Wish(node="first"), "x", "g1", "n", False),
        (Wish(output="n"), "x", "g1", "n", False),
        (Wish(node="second"), "stream", "g2", "y", False),
        (Wish(output="y"), "stream", "g2", "y", False),
        (Wish(output="h"), "x", "g1", "h", False),  # the only norm before h
    ],
)
def test_one_of_several_is_cut_out(wish: Wish, x: str, gain: str, output: str, whole: bool) -> None:
    planned = plan(two_norms(), wish)
    assert dict(planned.feeds) == {"x": x}
    assert dict(planned.own) == {"gain": gain}
    assert (planned.output, planned.whole) == (output, whole)
    norm = planned.norm
    assert norm is not None
    assert planned.nodes[0] is norm.nodes[0]


def test_of_a_chain_any_node_names_it() -> None:
    found = graph(LLAMA, {"x": ROWS}, gain=GAIN)
    for node in ("mean", "add", "sqrt", "div", "mul", "back", "gain"):
        assert plan(found, Wish(node=node)).norm == the_norm(found)
    with pytest.raises(UnclearModel, match="has no norm with a node 'pow1'; it holds node 'mean'"):
        plan(found, Wish(node="pow1"))


def test_a_tensor_that_is_not_there_gets_its_nearest() -> None:
    with pytest.raises(UnclearModel, match="has no tensor 'strem'; the nearest are 'stream'"):
        plan(two_norms(), Wish(x="strem", node="second"))


def test_x_and_residual_are_found_before_their_sum() -> None:
    text = "Add {0} {1} -> s; Cast s -> f; RMSNormalization f gain -> y"
    for first, second, x in (("a", "b", "a"), ("skip", "b", "b"), ("b", "skip", "b")):
        found = graph(text.format(first, second), {first: ROWS, second: ROWS, "gain": VECTOR})
        feeds = plan(found, Wish()).feeds
        assert feeds["x"] == x
        assert {feeds["x"], feeds["residual"]} == {first, second}
    stated = plan(graph(text.format("a", "b"), {"a": ROWS, "b": ROWS, "gain": VECTOR}), Wish(x="b", residual="a")).feeds
    assert (stated["x"], stated["residual"]) == ("b", "a")


def test_an_input_is_followed_through_reshapes_but_a_cut_takes_the_tensor_itself() -> None:
    found = graph(
        "Reshape x shape -> r; Cast r -> f; RMSNormalization f gain -> y", {"x": ROWS, "gain": VECTOR}, shape=ONE
    )
    assert plan(found, Wish()).feeds["x"] == "x"
    inside = graph(
        "MatMul x w -> h; Reshape h shape -> r; Cast r -> f; RMSNormalization f gain -> y",
        {"x": ROWS, "gain": VECTOR},
        shape=ONE,
        w=GAIN,
    )
    planned = plan(inside, Wish())
    assert planned.feeds["x"] == "r"  # the cast belongs to the norm
    assert [node.op for node in planned.nodes] == ["Cast", "RMSNormalization"]


def test_what_is_needed_beside_the_operands_is_named() -> None:
    found = graph("RMSNormalization x gain -> n; Mul n gate -> y", {"x": ROWS, "gain": VECTOR, "gate": ROWS})
    with pytest.raises(UnclearModel, match="needs 'gate' as well, where x is 'x', gain is 'gain'"):
        plan(found, Wish())
    assert plan(found, Wish(output="n")).whole is False


def test_of_several_outputs_the_norms_own_is_taken() -> None:
    inputs = {"x": ROWS, "r": ROWS, "gain": VECTOR}
    skip = "SkipSimplifiedLayerNormalization x r gain -> n _ _ sum"
    assert plan(graph(skip, inputs, outputs="sum n"), Wish()).output == "n"
    assert plan(graph(f"{skip}; Clip n eps -> y", inputs, outputs="sum y"), Wish()).output == "y"
    with pytest.raises(UnclearModel, match="has the outputs 'a', 'b'; say which one is meant with `output:`"):
        plan(graph("Neg x -> a; Abs x -> b", {"x": ROWS}, outputs="a b"), Wish())


def test_without_a_norm_names_and_axes_tell_what_is_what() -> None:
    found = graph(
        "Mul input scale -> s; Add s skip -> t; Add t beta -> y",
        {"skip": ROWS, "input": ROWS, "beta": VECTOR, "scale": VECTOR},
    )
    planned = plan(found, Wish())
    assert planned.norm is None
    assert dict(planned.feeds) == {"x": "input", "residual": "skip", "gain": "scale", "bias": "beta"}
    with pytest.raises(UnclearModel, match="has the inputs 'p', 'q'; say which one is x with `x:`"):
        plan(graph("Mul p q -> y", {"p": ROWS, "q": ROWS}), Wish())
    with pytest.raises(UnclearModel, match="holds no norm that is recognised; name the tensors of one"):
        plan(graph("MatMul x w -> y", {"x": ROWS}, w=GAIN), Wish())
