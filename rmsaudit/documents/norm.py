"""The `norm:` section: a pydantic model with one optional key per variable, derived from `semantics.variables()`."""

from dataclasses import fields
from functools import cache, partial
from re import fullmatch
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, WithJsonSchema, create_model
from typing_extensions import TypeAliasType

from rmsaudit.documents import scalars
from rmsaudit.documents.binding import ReadBy
from rmsaudit.documents.eps import EpsPlace
from rmsaudit.documents.nodes import Node, Scalar, Sequence
from rmsaudit.documents.problems import Refused, did_you_mean, quoted
from rmsaudit.formats import ALIASES, FORMATS, canonical
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.statistic import ORDERS, ORDERS_WITH_A_NUMBER
from rmsaudit.semantics.variables import Variable
from rmsaudit.tolerance import Part

ABOVE_ZERO = frozenset({"eps", "eps_min", "input_clamp", "output_clamp"})  # other numbers may have either sign
AXES = ((-1,), (-2,), (-2, -1))
EXAMPLES: dict[str, list[Any]] = {
    "width": [4096],
    "eps": [1e-6, {"config": "./config.json"}],
    "accumulate_order": ["pairwise", "lanes:8"],
    "statistic_width": ["all", 64, 0.25],
}


class NormSection(Part):
    """The variables of one RMSNorm, flat. A key that is left out keeps the preset's value, or the default."""

    def declared(self) -> dict[str, Any]:
        """What was written, in stage order; dtypes by their full name, words that name another variable as they are."""
        return {name: getattr(self, name) for name in variables() if name in self.model_fields_set}


@cache
def norm_section() -> type[NormSection]:
    """As an implementation file has it: eps is a number or where to read it."""
    return _section("NormOfImplementation", _eps() | EpsPlace)


@cache
def preset_section() -> type[NormSection]:
    """As a preset has it: eps is a number, or null for torch's None."""
    return _section("NormOfPreset", _eps() | None)


def _section(name: str, eps: Any) -> type[NormSection]:
    keys: dict[str, Any] = {
        v.name: (eps if v.name == "eps" else _annotation(v), _field(v)) for v in variables().values()
    }
    return create_model(name, __base__=NormSection, __doc__=NormSection.__doc__, **keys)


def _field(described: Variable) -> Any:
    default = {} if described.default is None else {"default": described.default}
    examples = EXAMPLES.get(described.name)
    return Field(None, description=described.means, examples=examples, json_schema_extra=default)


def _annotation(described: Variable) -> Any:
    match described.kind:
        case "integer":
            return Annotated[int, Field(ge=1)]
        case "number":
            return _number(described)
        case "flag":
            return bool
        case "word":
            return _one_of(described.words)
        case "dtype":
            return _dtype(described.words)
        case "axes":
            return Annotated[tuple[int, ...], ReadBy(_read_axes), WithJsonSchema({"enum": [list(a) for a in AXES]})]
        case "order":
            counted = f"({'|'.join(ORDERS_WITH_A_NUMBER)}):[1-9][0-9]{{0,8}}"
            return Annotated[str, ReadBy(_read_order), Field(pattern=f"^({'|'.join(ORDERS)}|{counted})$")]


def _number(described: Variable) -> Any:
    """A float; a count or a share where the spec keeps whole numbers apart; or one of the variable's words."""
    value: Any = Annotated[float, Field(gt=0)] if described.name in ABOVE_ZERO else float
    spec_type = next(f.type for f in fields(NormSpec) if f.name == described.name)
    if int in get_args(spec_type):
        value = Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, le=1)]
    return value | _one_of(described.words) if described.words else value


@cache
def _dtype(words: tuple[str, ...]) -> Any:
    """A dtype or one of `words`; a named type, so that the JSON Schema lists them once."""
    read = ReadBy(partial(_read_dtype, words=words))
    name = "DtypeOrNone" if "none" in words else "Dtype"
    return TypeAliasType(name, Annotated[_one_of((*FORMATS, *ALIASES, *words)), read])


def _one_of(words: tuple[str, ...]) -> Any:
    return Literal[words]


def _eps() -> Any:
    return Annotated[float, Field(gt=0), ReadBy(_read_eps)]


def _read_eps(node: Node) -> float:
    if isinstance(node, Scalar) and node.plain and node.text in scalars.NULLS:
        stands = f"{quoted(node.text)} stands for no value" if node.text else "nothing stands there"
        remedy = "write the number, or name a preset whose eps is null, such as torch-rms-norm"
        raise Refused(f"must be a number, and {stands}; {remedy}", "not-a-number")
    value = scalars.number(node)
    if value <= 0:
        remedy = "write a number such as 1e-6, or eps_placement: none where there is no eps"
        written = quoted(node.text) if isinstance(node, Scalar) else value
        raise Refused(f"must be above 0, and it is {written}; {remedy}", "out-of-range")
    return value


def _read_dtype(node: Node, *, words: tuple[str, ...]) -> str:
    if not isinstance(node, Scalar):
        return scalars.word(node, FORMATS)
    if node.text in words:
        return node.text
    if (dtype := canonical(node.text)) is not None:
        return dtype
    advice = did_you_mean(node.text, (*FORMATS, *ALIASES)) or f"there are {', '.join((*FORMATS, *words))}"
    raise Refused(f"cannot be {quoted(node.text)}, which is no dtype; {advice}", "unknown-dtype")


def _read_axes(node: Node) -> tuple[int, ...]:
    if isinstance(node, Sequence):
        axes = tuple(sorted(scalars.integer(item) for item in node.items))
        if axes in AXES:
            return axes
    says = "must be [-1] (each row), [-2] (each column) or [-2, -1] (all rows together); write one of these"
    raise Refused(says, "unknown-axes")


def _read_order(node: Node) -> str:
    text = node.text if isinstance(node, Scalar) else ""
    name, _, count = text.partition(":")
    if name in ORDERS_WITH_A_NUMBER:
        if fullmatch("[1-9][0-9]{0,8}", count):
            return text
        raise Refused(f"{quoted(text)} needs a count of at least 1; write one, such as {name}:8", "out-of-range")
    return scalars.word(node, (*ORDERS, *(f"{name}:8" for name in ORDERS_WITH_A_NUMBER)))
