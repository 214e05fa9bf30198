"""From an implementation file to a side that can be run, and to what the record says of it."""

from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmsaudit.arrays import Array
    from rmsaudit.audit import Party
    from rmsaudit.documents.implementation import Implementation, Stated
    from rmsaudit.documents.sections import OnnxPart
    from rmsaudit.errors import Problem
    from rmsaudit.loaders import Side
    from rmsaudit.loaders.onnx import Facts, OnnxSection
    from rmsaudit.record import GainPlace, SideRecord
    from rmsaudit.tolerance import Part


def consent(allow_code: bool) -> bool:
    """True where a person said that foreign code may run: by the flag, or by RMSAUDIT_ALLOW_CODE=1."""
    import os

    return allow_code or os.environ.get("RMSAUDIT_ALLOW_CODE") == "1"


def preset_words() -> "Mapping[str, Mapping[str, Any]]":
    """Every preset's declared words, by name."""
    from rmsaudit.documents.preset import preset_names, read_preset

    return {name: read_preset(name).values for name in preset_names()}


def look_into(section: "Part", folder: Path) -> "Mapping[str, Stated]":
    """What an ONNX file states of its norm; the other kinds state nothing."""
    from rmsaudit.documents.implementation import Stated
    from rmsaudit.documents.sections import OnnxPart

    if not isinstance(section, OnnxPart):
        return {}
    found = _inspected(section, folder).variables()
    return {name: Stated(value, source) for name, (value, source) in found.items()}


def parties(read: "Sequence[Implementation]", allow_code: bool, stack: ExitStack) -> "list[Party]":
    """The sides, ready to run; what they hold open is closed with `stack`.

    Raises InputProblem with the problems of all of them: without consent, for kinds that run code.
    """
    from rmsaudit.errors import InputProblem, Problem

    found: list[Party] = []
    problems: list[Problem] = []
    for each in read:
        try:
            found.append(_party(each, allow_code, stack))
        except InputProblem as problem:
            problems += [_placed(one, each.path) for one in problem.problems]
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    return found


def _placed(problem: "Problem", path: Path) -> "Problem":
    """A missing consent is the declaring file's problem; it says itself what would be run."""
    return replace(problem, path=str(path)) if problem.kind == "code-not-allowed" else problem


def _party(read: "Implementation", allow_code: bool, stack: ExitStack) -> "Party":
    from rmsaudit.audit import Party

    side = _side(read, _declared_gain(read), allow_code)
    if hasattr(side, "close"):
        stack.callback(side.close)
    return Party(side=side, describe=lambda: _described(read, side))


def gain_of(read: "Implementation") -> "Array | None":
    """The gains [width] that the side brings: the declared ones, else a model's own; None for the battery's."""
    from rmsaudit.documents.sections import OnnxPart

    gain = _declared_gain(read)
    if gain is not None or not isinstance(read.section, OnnxPart):
        return gain
    return _inspected(read.section, read.path.parent).gain


def _declared_gain(read: "Implementation") -> "Array | None":
    from rmsaudit.loaders import tensors

    return None if read.gain is None else tensors.load(read.gain.place)


def _side(read: "Implementation", gain: "Array | None", allow_code: bool) -> "Side":
    from rmsaudit.documents import sections
    from rmsaudit.loaders.spec import Declared

    known: dict[str, Any] = {"declared": read.declared, "spec": read.spec, "gain": gain}
    home = read.path.parent
    match read.section:
        case sections.PythonPart() as section:
            from rmsaudit.loaders import python

            return python.load(_python(section), **known, home=home, allow_code=allow_code)
        case sections.CommandPart() as section:
            from rmsaudit.loaders import command

            return command.load(command.CommandSection(**dict(section)), **known, home=home, allow_code=allow_code)
        case sections.RecordedPart() as section:
            from rmsaudit.loaders import recorded

            sidecar = Path(section.sidecar) if section.sidecar else None
            named = recorded.RecordedSection(file=Path(section.file), sidecar=sidecar)
            return recorded.load(named, **known, home=home)
        case sections.OnnxPart() as section:
            from rmsaudit.loaders import onnx

            return onnx.load(_onnx(section), _inspected(section, home), **known, home=home)
    return Declared(**known)


def _python(section: Any) -> Any:
    from rmsaudit.loaders.python import PythonSection

    interpreter = Path(section.interpreter) if section.interpreter else None
    return PythonSection(**{**dict(section), "interpreter": interpreter})


def _onnx(section: Any) -> Any:
    from rmsaudit.loaders.onnx import OnnxSection

    return OnnxSection(**{**dict(section), "model": Path(section.model)})


def _inspected(section: "OnnxPart", home: Path) -> "Facts":
    """What the graph says. Asking takes a process and about a second, so a file that stays as it is is asked once."""
    wanted = _onnx(section)
    model = home / wanted.model
    try:
        stamp = model.stat()
    except OSError:
        return _inspect(wanted, home, None)  # which says what is the matter with it
    return _inspect(wanted, home, (stamp.st_ino, stamp.st_mtime_ns, stamp.st_size))


@lru_cache(maxsize=8)
def _inspect(wanted: "OnnxSection", home: Path, stamp: tuple[int, ...] | None) -> "Facts":  # noqa: ARG001  the key
    from rmsaudit.loaders import onnx

    return onnx.inspect(wanted, home)


def _described(read: "Implementation", side: "Side") -> "SideRecord":
    from rmsaudit.record import Resolved, SideRecord

    return SideRecord(
        name=read.name,
        kind=read.kind,
        digest=read.digest,
        gain=_gain_place(read),
        section=_section(read),
        code=dict(getattr(side, "digests", {})),
        versions=dict(getattr(side, "versions", {})),
        stated={name: Resolved(value=found.value, source=found.source) for name, found in read.stated.items()},
        notes=_notes(side),
        seconds=getattr(side, "seconds", None),
        resolved={
            name: Resolved(
                value=value.value, source=f"{value.source} ({value.written})" if value.written else value.source
            )
            for name, value in read.resolved.items()
        },
    )


def _section(read: "Implementation") -> dict[str, Any]:
    """What the section says, its defaults included, as plain values."""
    if read.section is None:
        return {}
    written = read.section.model_dump(exclude_none=True)
    return {key: value if isinstance(value, bool | int | float | str) else str(value) for key, value in written.items()}


def _notes(side: "Side") -> tuple[str, ...]:
    """What is no fault and yet worth knowing, in sentences."""
    notes = getattr(side, "notes", ())
    if isinstance(notes, tuple) and all(isinstance(note, str) for note in notes):
        return notes
    return tuple(getattr(side, "sentences", getattr(notes, "sentences", ())))


def _gain_place(read: "Implementation") -> "GainPlace | None":
    from rmsaudit.record import GainPlace

    if read.gain is None:
        return None
    return GainPlace(tensor=read.gain.place.name, dtype=read.gain.place.dtype, digest=read.gain.digest)
