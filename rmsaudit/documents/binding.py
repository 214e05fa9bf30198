"""From a node tree to an instance of a pydantic model, or to every problem with its line and column.

Nodes become plain values under the guidance of the model's annotations, innermost models first: a float field is read
by our number grammar, a str field keeps `1e-6` as the text it is. Each model then validates its own values, strictly,
so that what pydantic reports is never far from the node it is about.

Understood annotations: bool, int, float, str, date, None, Any, Literal of words, tuple, list, dict with text keys,
models, unions and named aliases of these, and anything that carries a `ReadBy`. In a union of models the fitting one is
picked by a key whose value is a Literal of one word in each (`rule: sum`), or else by the keys that are there.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema
from typing_extensions import TypeAliasType

from rmsaudit.documents import scalars
from rmsaudit.documents.nodes import Mapping, Node, Scalar, Sequence, Tree, child
from rmsaudit.documents.problems import Problems, Refused, did_you_mean, quoted
from rmsaudit.documents.validation import report

Model = TypeVar("Model", bound=BaseModel)
ScalarReader = Callable[[Node], Any]  # raises Refused
Reader = Callable[[Node, str, Problems], Any]  # of a node with that name in messages; FAILED means: a problem was added

Absent = SkipJsonSchema[None]
"""`X | Absent = None` is for a key that may be left out; unlike `X | None`, no null can be written there."""

FAILED: Any = object()
FEW_KEYS = 12  # that may be listed in a message

_SCALARS: dict[type, ScalarReader] = {
    bool: scalars.flag,
    int: scalars.integer,
    float: scalars.number,
    date: scalars.day,
    str: scalars.text,
}  # in the order in which a union tries them


@dataclass(frozen=True)
class ReadBy:
    """Metadata of an annotation: this function reads the node in place of what the annotation says."""

    function: ScalarReader


def read_model(model: type[Model], tree: Tree) -> Model:
    """The instance that a document stands for. Raises InputProblem with everything that is wrong.

    A document of another type (by its `schema:`) is reported as that, and nothing else is said about it.
    """
    problems = Problems(tree.path, tree.problems)
    _refuse_other_schema(model, tree, problems)
    instance: Model = _read_mapping(tree.root, "the document", problems, model=model)
    problems.raise_any()
    return instance


def _refuse_other_schema(model: type[BaseModel], tree: Tree, problems: Problems) -> None:
    field, node = _fields(model).get("schema"), tree.at("schema")
    if field is None or field.only is None or not isinstance(node, Scalar) or node.text == field.only:
        return
    says = f"schema is {quoted(node.text)}, and {field.only} is read here; name another file, or write that"
    problems.add(node.mark, says, "other-schema")
    problems.raise_any()


# --- models ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """One key of a model. only: the single word it can be, if so. example: a value that a message may show."""

    read: Reader
    required: bool
    only: str | None
    example: Any


@cache
def _fields(model: type[BaseModel]) -> dict[str, _Field]:
    return {info.alias or name: _field(info) for name, info in model.model_fields.items()}


def _field(info: FieldInfo) -> _Field:
    annotation: Any = info.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    only = choices[0] if len(choices) == 1 else None
    example = only or next(iter(info.examples or ()), None)
    return _Field(_reader(annotation, info.metadata), info.is_required(), only, example)


def _read_mapping(node: Node, name: str, problems: Problems, *, model: type[BaseModel]) -> Any:
    fields = _fields(model)
    if not isinstance(node, Mapping):
        return _wrong_shape(node, f"{name} must be a mapping{_with_keys(fields)}", problems)
    values = {}
    for key, entry in node.entries.items():
        if field := fields.get(key):
            values[key] = field.read(entry.value, key, problems)
        else:
            problems.add(entry.key, _unknown_key(key, fields), "unknown-key")
    missing = [key for key, field in fields.items() if field.required and key not in node.entries]
    for key in missing:
        problems.add(node.mark, _missing_key(key, fields[key]), "missing-key")
    read = {key: value for key, value in values.items() if value is not FAILED}
    whole = len(read) == len(node.entries) and not missing
    try:
        instance = model.model_validate(read)
    except ValidationError as error:
        report(error, node, name, problems, whole=whole)
        return FAILED
    return instance if whole else FAILED


def _unknown_key(key: str, known: Iterable[str]) -> str:
    advice = did_you_mean(key, known) or f"remove it{_with_keys(known, ', or use one of ')}"
    return f"unknown key {quoted(key)}; {advice}"


def _missing_key(key: str, field: _Field) -> str:
    advice = f"add {quoted(f'{key}: {field.example}')}" if field.example is not None else "add it"
    return f"{key} is missing; {advice}"


def _with_keys(keys: Iterable[str], joint: str = " with the keys ") -> str:
    known = tuple(keys)
    return joint + ", ".join(known) if 0 < len(known) <= FEW_KEYS else ""


def _wrong_shape(node: Node, says: str, problems: Problems) -> Any:
    """Adds a problem about a list, mapping or single value that stands where another of them is meant."""
    match node:
        case Mapping():
            stands = "a mapping stands here"
        case Sequence():
            stands = "a list stands here"
        case Scalar(text=""):
            stands = "nothing stands here"
        case _:
            stands = f"{quoted(node.text)} stands here"
    problems.add(node.mark, f"{says}, and {stands}; write it out, or leave the key out", "wrong-shape")
    return FAILED


# --- annotations -----------------------------------------------------------------------------------------------------


def _reader(annotation: Any, metadata: Iterable[Any] = ()) -> Reader:
    """The reader of an annotation. Raises TypeError for one that no document type uses yet."""
    if (by := _read_by(metadata)) is not None:
        return partial(_read_scalar, read=by)
    if isinstance(annotation, TypeAliasType):
        return _reader(annotation.__value__)
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _reader(inner, metadata)
    if get_origin(annotation) is not None:
        return _generic_reader(annotation, get_origin(annotation), get_args(annotation))
    if annotation is Any:
        return lambda node, _name, _problems: scalars.plain_value(node)
    if issubclass(annotation, BaseModel):
        return partial(_read_mapping, model=annotation)
    return partial(_read_scalar, read=_SCALARS[annotation])


def _generic_reader(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Reader:
    if origin is Literal:
        return partial(_read_scalar, read=partial(scalars.word, choices=arguments))
    if origin is Union or origin is UnionType:
        return partial(_read_union, union=_union(arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return partial(_read_fixed, readers=tuple(map(_reader, arguments)))
    if origin is tuple or origin is list:
        return partial(_read_items, read=_reader(arguments[0]), into=origin)
    if origin is dict:
        return partial(_read_table, read=_reader(arguments[1]))
    raise TypeError(f"no reader for the annotation {annotation!r}")


def _read_by(metadata: Iterable[Any]) -> ScalarReader | None:
    return next((m.function for m in metadata if isinstance(m, ReadBy)), None)


def _read_scalar(node: Node, name: str, problems: Problems, *, read: ScalarReader) -> Any:
    try:
        return read(node)
    except Refused as refused:
        problems.add(node.mark, f"{name} {refused.says}", refused.kind)
        return FAILED


def _read_items(node: Node, name: str, problems: Problems, *, read: Reader, into: type) -> Any:
    if not isinstance(node, Sequence):
        return _wrong_shape(node, f"{name} must be a list", problems)
    values = [read(item, f"{name}[{index}]", problems) for index, item in enumerate(node.items)]
    return FAILED if FAILED in values else into(values)


def _read_fixed(node: Node, name: str, problems: Problems, *, readers: tuple[Reader, ...]) -> Any:
    if not isinstance(node, Sequence):
        return _wrong_shape(node, f"{name} must be a list of {len(readers)}", problems)
    if len(node.items) != len(readers):
        problems.add(
            node.mark,
            f"{name} must have {len(readers)} items, and has {len(node.items)}; write as many",
            "wrong-length",
        )
        return FAILED
    values = tuple(
        read(item, f"{name}[{index}]", problems)
        for index, (read, item) in enumerate(zip(readers, node.items, strict=True))
    )
    return FAILED if FAILED in values else values


def _read_table(node: Node, name: str, problems: Problems, *, read: Reader) -> Any:
    if not isinstance(node, Mapping):
        return _wrong_shape(node, f"{name} must be a mapping", problems)
    values = {key: read(entry.value, quoted(key), problems) for key, entry in node.entries.items()}
    return FAILED if FAILED in values.values() else values


# --- unions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Union:
    """The members of a union, by what they read. scalars: in the order in which they are tried."""

    null: bool
    words: tuple[str, ...]
    scalars: tuple[ScalarReader, ...]
    models: tuple[type[BaseModel], ...]
    items: Reader | None
    table: Reader | None


def _union(arguments: tuple[Any, ...]) -> _Union:
    bare = [(get_args(a)[0], _read_by(get_args(a)[1:])) if get_origin(a) is Annotated else (a, None) for a in arguments]
    special = [by for _, by in bare if by is not None]
    plain = [member for member, by in bare if by is None]
    return _Union(
        null=NoneType in arguments,
        words=tuple(word for member in plain if get_origin(member) is Literal for word in get_args(member)),
        scalars=(*special, *(read for kind, read in _SCALARS.items() if kind in plain)),
        models=tuple(m for m in plain if isinstance(m, type) and issubclass(m, BaseModel)),
        items=next((_reader(m) for m in plain if get_origin(m) in (tuple, list)), None),
        table=next((_reader(m) for m in plain if get_origin(m) is dict), None),
    )


def _read_union(node: Node, name: str, problems: Problems, *, union: _Union) -> Any:
    match node:
        case Sequence() if union.items:
            return union.items(node, name, problems)
        case Mapping() if union.table:
            return union.table(node, name, problems)
        case Mapping() if union.models:
            return _read_one_of(node, name, problems, models=union.models)
        case Scalar() if union.null and node.plain and node.text in scalars.NULLS:
            return None
        case Scalar() if node.text in union.words:
            return node.text
    if union.scalars or union.words:
        return _read_scalar(node, name, problems, read=partial(_first_that_reads, union=union))
    shapes = ["a list"] if union.items else []
    if union.models or union.table:
        shapes.append(f"a mapping{_with_keys(_keys_of(union.models))}")
    return _wrong_shape(node, f"{name} must be {' or '.join(shapes)}", problems)


def _first_that_reads(node: Node, *, union: _Union) -> Any:
    """What the first willing scalar reader makes of the node; else the refusal of the most general one."""
    if not union.scalars:
        return scalars.word(node, union.words)
    for read in union.scalars:
        try:
            return read(node)
        except Refused as refused:
            refusal = refused
    if union.words:
        refusal = Refused(f"{refusal.says}, or {' or '.join(union.words)}", refusal.kind)
    raise refusal


def _read_one_of(node: Mapping, name: str, problems: Problems, *, models: tuple[type[BaseModel], ...]) -> Any:
    if len(models) == 1:
        return _read_mapping(node, name, problems, model=models[0])
    if tag := _tag(models):
        return _read_tagged(node, problems, models=models, tag=tag)
    known = {model: sum(key in _fields(model) for key in node.entries) for model in models}
    best = max(models, key=lambda model: known[model])
    if known[best]:
        return _read_mapping(node, name, problems, model=best)
    for key, entry in node.entries.items():
        problems.add(entry.key, _unknown_key(key, _keys_of(models)), "unknown-key")
    if not node.entries:
        problems.add(node.mark, f"{name} is empty; write one of {', '.join(_keys_of(models))}", "missing-key")
    return FAILED


@cache
def _tag(models: tuple[type[BaseModel], ...]) -> str | None:
    """The key that has a single word in each of the models, and tells them apart."""
    first, *others = ({k for k, field in _fields(model).items() if field.only} for model in models)
    return next(iter(sorted(first.intersection(*others))), None)


def _read_tagged(node: Mapping, problems: Problems, *, models: tuple[type[BaseModel], ...], tag: str) -> Any:
    by_word = {_fields(model)[tag].only: model for model in models}
    words = tuple(filter(None, by_word))
    value = child(node, tag)
    if value is None:
        problems.add(node.mark, f"{tag} is missing; add one of {', '.join(words)}", "missing-key")
        return FAILED
    word = _read_scalar(value, tag, problems, read=partial(scalars.word, choices=words))
    return FAILED if word is FAILED else _read_mapping(node, tag, problems, model=by_word[word])


def _keys_of(models: Iterable[type[BaseModel]]) -> list[str]:
    return sorted({key for model in models for key in _fields(model)})
