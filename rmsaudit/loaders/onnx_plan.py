"""onnx_plan: which norm of a graph is meant, what has to be fed to it, and which nodes lie between.

An operand is the graph's own input where that leads to the norm directly; where other work lies between, the norm is
cut out, and the tensor that enters it is fed. What cannot be found out is asked for, in the words of the section.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from rmsaudit.loaders.onnx_graph import (
    PASSING,
    PLAIN,
    RESHAPING,
    Graph,
    Node,
    Norm,
    UnclearModel,
    find_norms,
    vector_root,
)

OPERANDS = ("x", "gain", "residual", "bias")
NAMES = {
    "x": ("x", "input", "hidden_states", "hidden", "data"),
    "residual": ("residual", "skip", "res", "r"),
    "gain": ("gain", "weight", "scale", "gamma", "g", "w"),
    "bias": ("bias", "beta", "b"),
}


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a section states about a graph; None: to be found out. node, output: which norm. The rest: which tensors."""

    node: str | None = None
    output: str | None = None
    x: str | None = None
    gain: str | None = None
    residual: str | None = None
    bias: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How one norm of a graph is run. feeds: operand to the tensor that is fed. own: operand to the constant it is.

    nodes: those needed, in graph order. whole: no node is left out and nothing inside the graph is fed, so that the
    model can be run as it is.
    """

    norm: Norm | None
    feeds: Mapping[str, str]
    own: Mapping[str, str]
    output: str
    nodes: tuple[Node, ...]
    whole: bool


def plan(graph: Graph, wish: Wish) -> Plan:
    """What has to be fed where to run the norm that is wished for. Raises UnclearModel with the way out."""
    for tensor in (wish.output, wish.x, wish.gain, wish.residual, wish.bias):
        if tensor is not None:
            _require(graph, tensor)
    norms = find_norms(graph)
    norm = _chosen(graph, norms, wish)
    plain = len(norms) <= 1 and all(node.op in PLAIN for node in graph.nodes)
    if norm is None and not plain and (wish.x is None or wish.output is None):
        raise UnclearModel("holds no norm that is recognised; name the tensors of one with `x:` and `output:`")
    output = wish.output or (_graph_output(graph, norm) if plain or norm is None else norm.output)
    found = _by_shape(graph) if norm is None else _by_norm(graph, norm)
    found |= {name: tensor for name in OPERANDS if (tensor := getattr(wish, name))}
    if "x" not in found or found["x"] in graph.constants:
        raise UnclearModel(f"has the inputs {_list(graph.inputs)}; say which one is x with `x:`")
    own = {name: tensor for name, tensor in found.items() if tensor in graph.constants}
    feeds = {name: tensor for name, tensor in found.items() if name not in own}
    nodes, missing = _needed(graph, output, set(feeds.values()))
    if len(missing) == 1 and norm is not None and "gain" not in found:
        feeds["gain"] = missing.pop()
    if missing:
        known = ", ".join(f"{name} is {tensor!r}" for name, tensor in feeds.items())
        raise UnclearModel(
            f"needs {_list(missing)} as well, where {known}; say what it is, or name a norm with `node:`"
        )
    whole = set(feeds.values()) == set(graph.inputs) and output in graph.outputs
    return Plan(norm=norm, feeds=feeds, own=own, output=output, nodes=nodes, whole=whole)


def _require(graph: Graph, tensor: str) -> None:
    known = [*graph.inputs, *graph.constants, *graph.producers]
    if tensor not in known:
        near = get_close_matches(tensor, known, n=3)
        raise UnclearModel(f"has no tensor {tensor!r}{'; the nearest are ' + _list(near) if near else ''}")


def _list(names: Collection[str]) -> str:
    shown = ", ".join(map(repr, list(names)[:8]))
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _chosen(graph: Graph, norms: tuple[Norm, ...], wish: Wish) -> Norm | None:
    """The norm that is meant; None where the graph holds none."""
    meant = norms
    if wish.node is not None:
        meant = tuple(norm for norm in norms if any(node.name == wish.node for node in norm.nodes))
        if not meant:
            raise UnclearModel(f"has no norm with a node {wish.node!r}; {_told(norms)}")
    if wish.output is not None:
        meant = _leading_to(graph, meant, wish)
    if len(meant) > 1:
        raise UnclearModel(f"holds {len(meant)} norms; name one with `node:` or `output:`; {_told(meant)}")
    if not meant:
        return None
    if meant[0].added_before:
        says = f"adds {meant[0].added_before!r} to x before its norm, for which there is no operand"
        raise UnclearModel(f"{says}; name another norm with `node:`")
    return meant[0]


def _leading_to(graph: Graph, norms: tuple[Norm, ...], wish: Wish) -> tuple[Norm, ...]:
    """The norms that make the wished output themselves, or else all that it depends on."""
    at_it = tuple(norm for norm in norms if wish.output in norm.tensors)
    if at_it:
        return at_it
    nodes, _ = _needed(graph, wish.output or "", {wish.x} if wish.x else set())
    made = {name for node in nodes for name in node.outputs}
    return tuple(norm for norm in norms if norm.output in made)


def _told(norms: Collection[Norm]) -> str:
    if not norms:
        return "it holds none that is recognised"
    shown = "; ".join(map(str, list(norms)[:20]))
    return f"it holds {shown}" + (f"; and {len(norms) - 20} more" if len(norms) > 20 else "")


def _graph_output(graph: Graph, norm: Norm | None) -> str:
    """The one output of the graph, or the first that comes from the norm."""
    if len(graph.outputs) == 1:
        return graph.outputs[0]
    if norm is not None:
        for output in sorted(graph.outputs, key=lambda output: output != norm.output):
            nodes, _ = _needed(graph, output, set())
            if output == norm.output or any(norm.output in node.inputs for node in nodes):
                return output
    raise UnclearModel(f"has the outputs {_list(graph.outputs)}; say which one is meant with `output:`")


def _by_norm(graph: Graph, norm: Norm) -> dict[str, str]:
    """The tensors to feed as a norm's operands: inputs of the graph where they lead to it directly, else its own."""
    found = {"x": _lead(graph, norm.x)}
    if norm.residual is not None:
        found["residual"] = _lead(graph, norm.residual)
    elif terms := _added_inputs(graph, norm.x):
        found["x"], found["residual"] = terms
    for name, tensor in (("gain", norm.gain), ("bias", norm.bias)):
        if tensor is not None:
            found[name] = vector_root(graph, tensor) or tensor
    return found


def _lead(graph: Graph, tensor: str) -> str:
    """The graph's input that becomes `tensor` by casts and reshapes alone; else what it is before its casts."""
    before = at = tensor
    only_casts = True
    while (node := graph.producers.get(at)) and node.op in PASSING | RESHAPING:
        at = node.inputs[0]
        only_casts = only_casts and node.op in PASSING
        before = at if only_casts else before
    return at if at in graph.inputs else before


def _added_inputs(graph: Graph, tensor: str) -> tuple[str, str] | None:
    """x and residual where `tensor` is the sum of two inputs of the graph, each of which may be cast or reshaped."""
    node = graph.producers.get(_lead(graph, tensor))
    if node is None or node.op != "Add":
        return None
    first, second = (_lead(graph, term) for term in node.inputs)
    if first == second or first not in graph.inputs or second not in graph.inputs:
        return None
    return (second, first) if _is_named(first, "residual") else (first, second)


def _is_named(tensor: str, operand: str) -> bool:
    return tensor.lower() in NAMES[operand]


def _by_shape(graph: Graph) -> dict[str, str]:
    """The inputs of a graph in which no norm was recognised, by their names and their number of axes."""
    axes = {name: len(shape) for name in graph.inputs if (shape := graph.value(name).shape) is not None}
    vectors = [name for name in graph.inputs if axes.get(name) == 1]
    found: dict[str, str] = {}
    for operand, of_one_axis in (("residual", False), ("bias", True), ("x", False), ("gain", True)):
        left = [name for name in graph.inputs if (name in vectors) is of_one_axis and name not in found.values()]
        named = [name for name in left if _is_named(name, operand)]
        if len(named) == 1:
            found[operand] = named[0]
        elif len(left) == 1 and operand in ("x", "gain"):
            found[operand] = left[0]
    return found


def _needed(graph: Graph, output: str, fed: set[str]) -> tuple[tuple[Node, ...], list[str]]:
    """The nodes between what is fed and `output`, in graph order, and the inputs that are needed without being fed."""
    missing, makers = [], set()
    todo, seen = [output], set(fed)
    while todo:
        tensor = todo.pop()
        if not tensor or tensor in seen:
            continue
        seen.add(tensor)
        node = graph.producers.get(tensor)
        if node is not None:
            makers.add(id(node))
            todo += node.inputs
        elif tensor not in graph.constants:
            missing.append(tensor)
    return tuple(node for node in graph.nodes if id(node) in makers), missing
