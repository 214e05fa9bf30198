"""The implementation file: what one side is, with every variable resolved and its source known.

A variable's value is, from weak to strong: the default; what the gain tensor says (width, gain_dtype); the preset; the
file's `norm:`; `--set`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, create_model

from rmsaudit.documents import nodes
from rmsaudit.documents.binding import Absent, read_model
from rmsaudit.documents.eps import EpsPlace, find_eps
from rmsaudit.documents.nodes import Entry, Mark, Tree
from rmsaudit.documents.norm import NormSection, norm_section
from rmsaudit.documents.preset import preset_names, read_preset
from rmsaudit.documents.problems import Refused, did_you_mean, printable, problem_at, quoted
from rmsaudit.documents.sections import CommandPart, OnnxPart, PythonPart, RecordedPart
from rmsaudit.documents.source import parse_flag, read_source
from rmsaudit.documents.tensors import TensorPlace, digest_of, find_tensor
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.resolve import CannotResolve, resolve
from rmsaudit.tolerance import Part

KINDS: dict[str, type[Part] | None] = {
    "spec": None,
    "python": PythonPart,
    "onnx": OnnxPart,
    "command": CommandPart,
    "recorded": RecordedPart,
}
"""The kinds of implementation, each with the model of the section of its own name; `spec` has none beside `norm:`."""


class GainSection(Part):
    """Where the gains are read from. Without it the battery brings its own."""

    file: str = Field(min_length=1, description="a safetensors file", examples=["model.safetensors"])
    tensor: str = Field(
        min_length=1, description="the tensor's name in it", examples=["model.layers.0.input_layernorm.weight"]
    )


class ImplementationDocument(Part):
    """One side of a comparison: what it computes, declared. Paths are relative to the file they stand in."""

    schema_: Literal["rmsaudit/implementation/1"] = Field(alias="schema", description="the type of this document")
    name: str = Field(min_length=1, description="what reports call it", examples=["transformers LlamaRMSNorm"])
    kind: str
    preset: str | Absent = Field(
        None,
        description="a starting point; `norm:` overrides it (`rmsaudit list presets`)",
        examples=["transformers-llama"],
    )
    norm: NormSection | Absent = None
    gain: GainSection | Absent = None


@cache
def implementation_model() -> type[ImplementationDocument]:
    """The document with its kinds and its `norm:` in full; built when first needed, because that takes milliseconds."""
    keys: dict[str, Any] = {
        "kind": (
            Literal[tuple(KINDS)],
            Field(description="how the side is run; spec: it is emulated", examples=["spec"]),
        ),
        "norm": (norm_section() | Absent, None),
    }
    keys |= {kind: (section | Absent, None) for kind, section in KINDS.items() if section is not None}
    return create_model(
        "Implementation", __base__=ImplementationDocument, __doc__=ImplementationDocument.__doc__, **keys
    )


@dataclass(frozen=True)
class Resolved:
    """A variable's final value and where it came from; `written`: the word that stood for it, if one did."""

    value: Any
    source: str
    written: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeclaredGain:
    """Where a side's gains lie. digest: sha256 of the tensor's bytes."""

    place: TensorPlace
    digest: str


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """One side, read and resolved.

    digest: sha256 of the file's bytes. resolved: every variable, in stage order. declared: the same as it was written,
    with the words that name another variable. gain: None where the battery brings the gains.
    """

    name: str
    kind: str
    path: Path
    digest: str
    preset: str | None
    declared: Mapping[str, Any]
    resolved: Mapping[str, Resolved]
    spec: NormSpec
    gain: DeclaredGain | None
    section: Part | None
    stated: Mapping[str, "Stated"]


@dataclass(frozen=True)
class Stated:
    """What the thing itself says of a variable (an ONNX file of its eps), and where in it."""

    value: Any
    source: str


LookInto = Callable[[Part, Path], Mapping[str, Stated]]


def states_nothing(section: Part, folder: Path) -> Mapping[str, Stated]:  # noqa: ARG001  the other `LookInto` reads them
    """For kinds whose variables are only what the file declares."""
    return {}


def read_implementation(
    path: Path, overrides: Mapping[str, str], look_into: LookInto = states_nothing
) -> Implementation:
    """The implementation that a file declares.

    overrides: what `--set` gave for this side, as text by the flag's own name: {"cand.eps": "1e-6"}. Paths in an
    override are relative to the working directory. look_into: asked, with the section of the file's kind and its
    folder, for what the thing itself states; `norm:` overrides that, and both are kept.

    Raises InputProblem with everything that is wrong, stage by stage: the texts; the files they point to; how it fits.
    """
    tree = read_source(path)
    problems: list[Problem] = []
    document = _bind(tree, problems)
    from_flags = _overrides(overrides, problems)
    if document is None or problems:
        raise InputProblem(problems)
    section = getattr(document, document.kind, None)
    stated = {} if section is None else look_into(section, path.parent)
    gain = _gain(document, tree, path.parent, problems)
    choices = _defaults(tree) | _of_gain(gain, tree) | _of_preset(document, tree, problems) | _stated(stated, tree)
    choices |= _declared(document, tree, path) | from_flags
    choices["eps"] = _found_eps(choices["eps"], problems)
    _refuse_other_width(choices["width"], gain, problems)
    if problems:
        raise InputProblem(problems)
    spec = _spec(choices)
    return Implementation(
        name=document.name,
        kind=document.kind,
        path=path,
        digest=tree.digest,
        preset=document.preset,
        declared={name: choice.value for name, choice in choices.items()},
        resolved={name: _resolved(name, choice, getattr(spec, name)) for name, choice in choices.items()},
        spec=spec,
        gain=gain,
        section=section,
        stated=stated,
    )


@dataclass(frozen=True)
class _Choice:
    """A variable's value as it was written, where it came from, and the place to point at when it does not fit.

    folder: what a path in the value is relative to.
    """

    value: Any
    source: str
    path: str
    mark: Mark | None
    folder: Path = Path()

    def problem(self, says: str, kind: str) -> Problem:
        return problem_at(self.path, self.mark, says, kind)


# --- the texts -------------------------------------------------------------------------------------------------------


def _bind(tree: Tree, problems: list[Problem]) -> ImplementationDocument | None:
    try:
        document = read_model(implementation_model(), tree)
    except InputProblem as found:
        problems += found.problems
        return None
    for kind, section in KINDS.items():
        if section is None or (kind == document.kind) == (getattr(document, kind) is not None):
            continue
        if kind == document.kind:
            mark, says = tree.mark_of("kind"), f"kind {kind} needs a section of that name; add it"
        else:
            mark, says = tree.mark_of(kind), f"section {kind} is for kind: {kind}; remove it, or change the kind"
        problems.append(problem_at(tree.path, mark, says, "section"))
    return document


def _overrides(overrides: Mapping[str, str], problems: list[Problem]) -> dict[str, _Choice]:
    choices = {}
    for flag, text in overrides.items():
        path, name = f"--set {flag}", flag.rpartition(".")[2]
        if name not in variables():
            advice = did_you_mean(name, variables()) or "`rmsaudit list variables` shows them"
            problems.append(problem_at(path, None, f"{quoted(name)} is no variable; {advice}", "unknown-variable"))
            continue
        try:
            value = parse_flag(text, path)
            section = nodes.Mapping({name: Entry(None, value.root)}, None)
            read = read_model(norm_section(), Tree(path=path, digest="", root=section))
        except InputProblem as found:
            problems += found.problems
        else:
            choices[name] = _Choice(read.declared()[name], "--set", path, None)
    return choices


# --- the layers, from weak to strong ---------------------------------------------------------------------------------


def _defaults(tree: Tree) -> dict[str, _Choice]:
    mark = tree.mark_of("norm") or tree.root.mark
    return {name: _Choice(v.default, "default", tree.path, mark) for name, v in variables().items()}


def _gain(document: ImplementationDocument, tree: Tree, folder: Path, problems: list[Problem]) -> DeclaredGain | None:
    if document.gain is None:
        return None
    file, tensor = document.gain.file, document.gain.tensor
    try:
        place = find_tensor(folder / file, tensor)
        if len(place.shape) != 1 or not place.length:
            shape = list(place.shape)
            raise Refused(f"holds {quoted(tensor)} with shape {shape}; a gain has one axis, [width]", "not-a-gain")
        return DeclaredGain(place=place, digest=digest_of(place))
    except Refused as refused:
        key = "tensor" if refused.kind in ("no-such-tensor", "unknown-dtype", "not-a-gain") else "file"
        problems.append(
            problem_at(tree.path, tree.mark_of("gain", key), f"{printable(file)} {refused.says}", refused.kind)
        )
        return None


def _of_gain(gain: DeclaredGain | None, tree: Tree) -> dict[str, _Choice]:
    if gain is None:
        return {}
    mark = tree.mark_of("gain", "tensor")
    return {
        "width": _Choice(gain.place.shape[0], "gain tensor shape", tree.path, mark),
        "gain_dtype": _Choice(gain.place.dtype, "gain tensor dtype", tree.path, mark),
    }


def _stated(stated: Mapping[str, Stated], tree: Tree) -> dict[str, _Choice]:
    mark = tree.mark_of("kind")
    return {name: _Choice(found.value, found.source, tree.path, mark) for name, found in stated.items()}


def _of_preset(document: ImplementationDocument, tree: Tree, problems: list[Problem]) -> dict[str, _Choice]:
    name, mark = document.preset, tree.mark_of("preset")
    if name is None:
        return {}
    if name not in preset_names():
        advice = did_you_mean(name, preset_names()) or "`rmsaudit list presets` shows them"
        problems.append(problem_at(tree.path, mark, f"{quoted(name)} is no preset; {advice}", "unknown-preset"))
        return {}
    values = read_preset(name).values
    return {key: _Choice(value, f"preset {name}", tree.path, mark) for key, value in values.items()}


def _declared(document: ImplementationDocument, tree: Tree, path: Path) -> dict[str, _Choice]:
    if document.norm is None:
        return {}
    choices = {}
    for name, value in document.norm.declared().items():
        mark = tree.mark_of("norm", name)
        source = f"declared at {path.name}:{mark.line}:{mark.column}" if mark else f"declared at {path.name}"
        choices[name] = _Choice(value, source, tree.path, mark, path.parent)
    return choices


# --- how it fits -----------------------------------------------------------------------------------------------------


def _found_eps(choice: _Choice, problems: list[Problem]) -> _Choice:
    """The choice with the number in place of the file that it is read from."""
    if not isinstance(choice.value, EpsPlace):
        return choice
    try:
        found = find_eps(choice.value, choice.folder)
    except Refused as refused:
        problems.append(choice.problem(refused.says, refused.kind))
        return choice
    return replace(choice, value=found.value, source=found.source)


def _refuse_other_width(width: _Choice, gain: DeclaredGain | None, problems: list[Problem]) -> None:
    if gain is None or width.value == (size := gain.place.shape[0]):
        return
    says = f"width {width.value} does not match the gain {quoted(gain.place.name)}, which has {size} elements"
    problems.append(width.problem(f"{says}; write width: {size}, or name another tensor", "width-mismatch"))


def _spec(choices: Mapping[str, _Choice]) -> NormSpec:
    try:
        return resolve({name: choice.value for name, choice in choices.items()})
    except CannotResolve as error:
        raise InputProblem(_conflict(choices[c.variable], c.says) for c in error.conflicts) from None


def _conflict(choice: _Choice, says: str) -> Problem:
    by_preset = choice.source.startswith("preset ")
    return choice.problem(f"{says} (from {choice.source})" if by_preset else says, "conflict")


def _resolved(name: str, choice: _Choice, value: Any) -> Resolved:
    """dtype words and eps None are the values that stand for another one."""
    if name == "eps" and choice.value is None:
        return Resolved(value, choice.source, "null")
    stands_for_another = variables()[name].kind == "dtype" and choice.value != value
    return Resolved(value, choice.source, choice.value if stands_for_another else None)
