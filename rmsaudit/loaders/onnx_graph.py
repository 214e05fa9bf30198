"""onnx_graph: where the norms of an ONNX graph are, what their operands are, and where each one's eps stands.

Works on a plain picture of a graph, which `onnx_child` draws, and so needs no ONNX package. A norm is one operator
(RMSNormalization and its kin), or a chain: a square, its mean, eps, a root, and the product with what was squared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from rmsaudit.arrays import round_to
from rmsaudit.formats import FORMATS


class UnclearModel(ValueError):
    """A model that cannot be run as a norm without being told more; the text says what."""


# --- the picture of a graph ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Node:
    """One operator call. op: its type without domain. attributes: the numbers among them."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    name: str = ""
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op})" if self.name else f"the {self.op} that makes {self.outputs[0]!r}"


@dataclass(frozen=True, kw_only=True)
class Value:
    """What is known of a tensor. dtype: our word where it is one of ours, else ONNX's; None for what is not known."""

    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None

    @property
    def size(self) -> int | None:
        if self.shape is None or None in self.shape:
            return None
        return prod(size for size in self.shape if size is not None)


@dataclass(frozen=True, kw_only=True)
class Constant(Value):
    """A tensor that the model brings. element: the value of all its elements, where that is one value."""

    element: float | None = None


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph: nodes in order, inputs that have to be fed, outputs, constants, and what is known of other tensors."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, Constant]
    values: Mapping[str, Value] = field(default_factory=dict)

    @cached_property
    def producers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def consumers(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    def value(self, tensor: str) -> Value:
        return self.constants.get(tensor) or self.values.get(tensor) or Value()

    def only_consumer(self, tensor: str) -> Node | None:
        """The one node that reads a tensor; None where several do, or none, or where it leaves the graph as well."""
        readers = self.consumers.get(tensor, ())
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None


# --- what is found ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FoundEps:
    """An eps as the graph holds it. value: the shortest decimal that is this number in `dtype`.

    placement: a word of eps.PLACEMENTS, or None where none of them is meant. trail: from the place where the number
    stands to the operation that uses it.
    """

    value: float
    dtype: str
    placement: str | None
    trail: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Norm:
    """One norm. nodes: those that it consists of. x, residual, gain, bias: its operands, by tensor.

    added_before: a vector that is added to x as well. center: the mean is subtracted first.
    """

    kind: str
    nodes: tuple[Node, ...]
    x: str
    output: str
    gain: str | None = None
    residual: str | None = None
    bias: str | None = None
    added_before: str | None = None
    eps: FoundEps | None = None
    center: bool = False

    @property
    def tensors(self) -> frozenset[str]:
        """Everything that its nodes make."""
        return frozenset(name for node in self.nodes for name in node.outputs)

    def __str__(self) -> str:
        named = [node.name for node in self.nodes if node.name]
        where = f"node {named[0]!r}, " if named else ""
        return f"{where}output {self.output!r} ({self.kind}{', eps ' + repr(self.eps.value) if self.eps else ''})"


@dataclass(frozen=True)
class _Operator:
    """Which inputs of an operator are what, and the epsilon it has when none is written."""

    x: int = 0
    gain: int = 1
    residual: int | None = None
    bias: int | None = None
    added_before: int | None = None
    epsilon: float = 1e-5
    center: bool = False


OPERATORS = {
    "RMSNormalization": _Operator(),  # onnx.ai, operator set 23
    "SimplifiedLayerNormalization": _Operator(),
    "LayerNormalization": _Operator(bias=2, center=True),
    # ONNX Runtime's contrib operators; their epsilon is 1e-12 where none is written (measured, 1.32)
    "SkipSimplifiedLayerNormalization": _Operator(residual=1, gain=2, added_before=3, epsilon=1e-12),
    "SkipLayerNormalization": _Operator(residual=1, gain=2, bias=3, added_before=4, epsilon=1e-12, center=True),
}
# by whether the root has been taken, and whether it is of the sum
_ADDED = {(False, False): "inside_sqrt", (False, True): "inside_sum", (True, False): "outside_sqrt"}
_FLOOR = {(True, False): "floor_rms", (True, True): "floor_norm"}
PASSING = {"Cast", "CastLike", "Identity"}
RESHAPING = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"}
_STATISTICS = {"ReduceMean", "ReduceSum", "ReduceSumSquare", "ReduceL2"}
_ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Reciprocal", "Neg", "Abs", "Max", "Min", "Clip", "Where"}
_OF_SHAPES = {
    "Shape",
    "Gather",
    "Slice",
    "Concat",
    "Size",
    "ConstantOfShape",
    "Constant",
    "Range",
    "Equal",
    "Transpose",
}
PLAIN = {*OPERATORS, *PASSING, *RESHAPING, *_STATISTICS, *_ELEMENTWISE, *_OF_SHAPES}


def find_norms(graph: Graph) -> tuple[Norm, ...]:
    """Every norm of the graph, in graph order. Subgraphs (of If, Loop, Scan) are not searched."""
    found = []
    for node in graph.nodes:
        if node.op in OPERATORS:
            found.append(_operator(graph, node))
        elif node.op in _STATISTICS and (chain := _Chain(graph, node).norm()):
            found.append(chain)
    return tuple(found)


# --- one operator ----------------------------------------------------------------------------------------------------


def _operator(graph: Graph, node: Node) -> Norm:
    kind = OPERATORS[node.op]

    def operand(index: int | None) -> str | None:
        return node.inputs[index] or None if index is not None and index < len(node.inputs) else None

    tail = _Tail(graph, node.outputs[0], gain=operand(kind.gain), bias=operand(kind.bias))
    return Norm(
        kind=node.op,
        nodes=(node, *tail.nodes),
        x=node.inputs[kind.x],
        output=tail.tensor,
        gain=tail.gain,
        residual=operand(kind.residual),
        bias=tail.bias,
        added_before=operand(kind.added_before),
        eps=_attribute(node, kind.epsilon),
        center=kind.center,
    )


def _attribute(node: Node, default: float) -> FoundEps:
    """The attribute `epsilon`; ONNX holds it as float32."""
    written = node.attributes.get("epsilon")
    place = f"attribute epsilon of {node}" if written is not None else f"the default epsilon of {node}"
    value = shortest(default if written is None else written, "float32")
    return FoundEps(value=value, dtype="float32", placement="inside_sqrt", trail=(place,))


def shortest(value: float, dtype: str) -> float:
    """The shortest decimal that is `value` in `dtype`: 1e-05 for 9.999999747378752e-06 in float32."""
    if dtype not in FORMATS:
        return value
    used = rounded(value, dtype)
    nearer = (float(f"{used:.{digits}e}") for digits in range(17))
    return next((near for near in nearer if rounded(near, dtype) == used), used)


def rounded(value: float, dtype: str) -> float:
    """`value` as `dtype` holds it."""
    return float(round_to(np.asarray(value, np.float64), dtype))


# --- what follows a norm ---------------------------------------------------------------------------------------------


class _Tail:
    """Follows a normalised tensor through casts, its product with a gain, and the addition of a bias."""

    def __init__(self, graph: Graph, tensor: str, gain: str | None = None, bias: str | None = None) -> None:
        self.graph, self.tensor, self.gain, self.bias = graph, tensor, gain, bias
        self.nodes: list[Node] = []
        while (node := graph.only_consumer(self.tensor)) and self._takes(node):
            self.nodes.append(node)
            self.tensor = node.outputs[0]

    def _takes(self, node: Node) -> bool:
        if node.op in PASSING:
            return node.inputs[0] == self.tensor
        if node.op not in ("Mul", "Add") or self.bias is not None:
            return False
        vectors = [other for other in node.inputs if other != self.tensor and vector_root(self.graph, other)]
        if len(vectors) != 1:
            return False
        if node.op == "Add":
            self.bias = vectors[0]
        elif self.gain is None or self._is_ones(self.gain):
            self.gain = vectors[0]
        else:
            return False
        return True

    def _is_ones(self, tensor: str) -> bool:
        """True for the gain of an operator that needs one where the model multiplies by its own afterwards."""
        held = self.graph.constants.get(tensor)
        return held is not None and held.element == 1.0


def vector_root(graph: Graph, tensor: str) -> str | None:
    """The constant or input of one axis that `tensor` is made of, through casts, reshapes and an added constant.

    None where it is no such thing. A tensor of one element is a factor rather than a gain.
    """
    value = graph.value(tensor)
    if tensor in graph.constants or tensor in graph.inputs:
        shape = value.shape
        is_vector = bool(shape) and shape is not None and all(size == 1 for size in shape[:-1]) and shape[-1] != 1
        return tensor if is_vector else None
    node = graph.producers.get(tensor)
    if node is None:
        return None
    if node.op in PASSING | RESHAPING:
        return vector_root(graph, node.inputs[0])
    if node.op == "Add":
        roots = [root for other in node.inputs if (root := vector_root(graph, other))]
        others = [other for other in node.inputs if not vector_root(graph, other)]
        return roots[0] if len(roots) == 1 and all(constant(graph, other) for other in others) else None
    return None


def constant(graph: Graph, tensor: str) -> tuple[float, str, tuple[str, ...]] | None:
    """The value, dtype and trail of a tensor that holds one constant number, through casts and reshapes; or None."""
    held = graph.constants.get(tensor)
    if held is not None:
        if held.element is None or held.dtype is None:
            return None
        return held.element, held.dtype, (f"constant {tensor!r}",)
    node = graph.producers.get(tensor)
    if node is None or node.op not in PASSING | RESHAPING:
        return None
    found = constant(graph, node.inputs[0])
    if found is None or node.op not in ("Cast", "CastLike"):
        return found
    value, _, trail = found
    dtype = graph.value(tensor).dtype
    if dtype not in FORMATS:
        return None
    return rounded(value, dtype), dtype, (*trail, f"cast to {dtype} by {node}")


# --- a chain of operators --------------------------------------------------------------------------------------------


class _Chain:
    """A norm in single operators, followed from its statistic: eps and the root, the inverse, the product with x."""

    def __init__(self, graph: Graph, statistic: Node) -> None:
        self.graph = graph
        self.source = self.centered = ""
        self.has_x = False
        self.nodes = [statistic]
        self.is_sum = statistic.op != "ReduceMean"
        self.rooted = statistic.op == "ReduceL2"
        self.inverted = False
        self.eps: FoundEps | None = None
        self.gain: str | None = None
        self.center = False

    def norm(self) -> Norm | None:
        """The norm, or None where the statistic is not that of one."""
        squared = self._squared()
        if squared is None:
            return None
        self.source = self._source(squared)
        normalized = self._normalized()
        if normalized is None:
            return None
        tail = _Tail(self.graph, normalized, gain=self.gain)
        return Norm(
            kind="decomposed",
            nodes=(*self.nodes, *tail.nodes),
            x=self.source,
            output=tail.tensor,
            gain=tail.gain,
            bias=tail.bias,
            eps=self.eps,
            center=self.center,
        )

    def _squared(self) -> str | None:
        """The tensor whose squares enter the statistic."""
        statistic = self.nodes[0]
        if statistic.op in ("ReduceSumSquare", "ReduceL2"):
            return statistic.inputs[0]
        node = self.graph.producers.get(self._before(statistic.inputs[0], PASSING))
        if node is None:
            return None
        if node.op == "Mul" and node.inputs[0] == node.inputs[1]:
            return node.inputs[0]
        if node.op == "Pow" and self._number(node.inputs[1]) == 2.0:
            return node.inputs[0]
        return None

    def _source(self, squared: str) -> str:
        """Where what is squared comes from: before casts, slices (partial RMSNorm) and the subtraction of its mean."""
        tensor = self._before(squared, {*PASSING, "Slice"})
        node = self.graph.producers.get(tensor)
        if node is not None and node.op == "Sub":
            mean = self.graph.producers.get(self._before(node.inputs[1], PASSING))
            if mean is not None and mean.op == "ReduceMean" and mean.inputs[0] == node.inputs[0]:
                self.center = True
                self.centered = tensor
                return self._before(node.inputs[0], PASSING)
        return tensor

    def _before(self, tensor: str, ops: set[str]) -> str:
        while (node := self.graph.producers.get(tensor)) and node.op in ops:
            tensor = node.inputs[0]
        return tensor

    def _number(self, tensor: str) -> float | None:
        found = constant(self.graph, tensor)
        return found[0] if found else None

    def _normalized(self) -> str | None:
        """The product of x with the inverse root, or its quotient by the root."""
        tensor = self.nodes[0].outputs[0]
        while node := self.graph.only_consumer(tensor):
            others = [other for other in node.inputs if other != tensor]
            if node.op in ("Mul", "Div") and len(others) == 1 and self._number(others[0]) is None:
                if not self._meets(node, tensor, others[0]):
                    return None
            elif not self._steps(node, tensor, others):
                return None
            self.nodes.append(node)
            tensor = node.outputs[0]
            if self.has_x:
                return tensor
        return None

    def _meets(self, node: Node, tensor: str, other: str) -> bool:
        """Takes in the product (or quotient) with x or with the gain."""
        divides = node.op == "Div"
        if (divides and node.inputs[0] == tensor) or divides == self.inverted or not self.rooted:
            return False
        self.inverted = True
        self.has_x, gain = self._comes_from_x(other)
        if not self.has_x and vector_root(self.graph, other):
            gain = other
        elif not self.has_x:
            return False
        self.gain = self.gain or gain
        return True

    def _comes_from_x(self, tensor: str) -> tuple[bool, str | None]:
        """Whether a tensor is x, perhaps cast, less its mean, or times a gain; and that gain."""
        gain = None
        while tensor not in (self.source, self.centered):
            node = self.graph.producers.get(tensor)
            if node is None:
                return False, None
            if node.op == "Mul" and gain is None:
                vectors = [other for other in node.inputs if vector_root(self.graph, other)]
                if len(vectors) != 1:
                    return False, None
                gain = vectors[0]
                tensor = next(other for other in node.inputs if other != gain)
            elif node.op in PASSING:
                tensor = node.inputs[0]
            else:
                return False, None
        return True, gain

    def _steps(self, node: Node, tensor: str, others: list[str]) -> bool:
        """Takes in one step between the statistic and its inverse root. False where it is no such step."""
        numbers = [self._number(other) for other in others]
        match node.op, numbers:
            case (("Cast" | "CastLike" | "Identity"), _):
                pass
            case "Sqrt", []:
                self.rooted = True
            case "Pow", [0.5]:
                self.rooted = True
            case "Pow", [-0.5]:
                self.rooted = self.inverted = True
            case "Reciprocal", [] if self.rooted:
                self.inverted = True
            case "Div", [float()] if node.inputs[1] == tensor and self.rooted:
                self.inverted = True
            case (("Div" | "Mul"), [float()]):  # a factor 1/n or 1/√n
                self.is_sum = False
            case (("Add" | "Max" | "Clip"), [float(), *_]) if self.eps is None and not self.inverted:
                self._note_eps(node, others[0])
            case _:
                return False
        return True

    def _note_eps(self, node: Node, tensor: str) -> None:
        found = constant(self.graph, tensor)
        assert found is not None
        value, dtype, trail = found
        placements = _ADDED if node.op == "Add" else _FLOOR
        used = "added by" if node.op == "Add" else "the lower limit of"
        self.eps = FoundEps(
            value=shortest(value, dtype),
            dtype=dtype,
            placement=placements.get((self.rooted, self.is_sum)),
            trail=(*trail, f"{used} {node}"),
        )
