"""How a side that runs code behaves beside its numbers: the same call twice, one row among others, another layout.

A behaviour is a file in this folder: `eps_used.py` is `eps-used`. Its docstring begins with its name and what a side
that keeps it does; it declares CAUSE (the name of the finding when it is broken), CLAIM (how that finding goes on after
"The candidate") and NEXT_STEP (what to do then). `look(side, inputs)` asks the side a handful of times and gives an
`Observed`; where a call fails it raises `Unanswered`. Files whose names begin with an underscore are no behaviours.

Where two equal calls differ, another difference shows nothing: behaviours that compare bits come after `repeat`, and
are not looked at where that is broken, unless they say REPEATABLE = False.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from rmsaudit.behaviours._asking import Inputs, Observed, Unanswered, Verdict, not_observable
from rmsaudit.loaders import Side

__all__ = ["Behaviour", "Inputs", "Observed", "Verdict", "describe", "look", "look_at", "names"]

READING_ORDER = (
    "repeat", "untouched", "rows", "views", "threads", "nonfinite-rows", "eps-used", "output-dtype",
)  # fmt: skip
"""`repeat` first, because others build on it; `output-dtype` last, because what a side refuses costs it its process."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What a behaviour says of itself. keeps: what a side that keeps it does. cause, claim, next_step: of a finding."""

    name: str
    keeps: str
    cause: str
    claim: str
    next_step: str
    needs_repeat: bool


class _Member(Protocol):
    CAUSE: str
    CLAIM: str
    NEXT_STEP: str

    def look(self, side: Side, inputs: Inputs) -> Observed: ...


@cache
def names() -> tuple[str, ...]:
    """Every behaviour, in reading order; one that READING_ORDER does not name comes last."""
    found = {module.name.replace("_", "-") for module in iter_modules(__path__) if not module.name.startswith("_")}
    return (*(name for name in READING_ORDER if name in found), *sorted(found.difference(READING_ORDER)))


def describe(name: str) -> Behaviour:
    """The behaviour `name`. Raises ValueError for a name that is not in `names()`."""
    member = _member(name)
    first_line = (member.__doc__ or "").partition("\n")[0]
    return Behaviour(
        name=name,
        keeps=first_line.removeprefix(f"{name}:").strip(),
        cause=member.CAUSE,
        claim=member.CLAIM,
        next_step=member.NEXT_STEP,
        needs_repeat=getattr(member, "REPEATABLE", True),
    )


def look_at(side: Side, *, seed: int = 0) -> Iterator[tuple[str, Observed]]:
    """Each behaviour with what was seen of it, in reading order. Asks the side about forty times, all told.

    A side whose first call fails, or that cannot be asked again, is asked no more.
    """
    inputs = Inputs(spec=side.spec, gain=side.gain, seed=seed)
    reason = _cannot_be_asked(side)
    repeats = True
    for name in names():
        if reason:
            yield name, not_observable(reason)
            continue
        if not repeats and describe(name).needs_repeat:
            yield name, not_observable("two equal calls differ already, so another difference would show nothing")
            continue
        seen = look(name, side, inputs)
        yield name, seen
        if name == "repeat":
            repeats = seen.verdict != "broken"
            reason = seen.says if seen.verdict == "not_observable" else None


def look(name: str, side: Side, inputs: Inputs) -> Observed:
    """One behaviour of a side that has answered before: its process must have told what it can do."""
    try:
        return _member(name).look(side, inputs)
    except Unanswered as failed:
        return not_observable(f"the call failed: {failed}")


def _cannot_be_asked(side: Side) -> str | None:
    from rmsaudit.loaders.recorded import RecordedSide

    return "recorded outputs cannot be asked for others" if isinstance(side, RecordedSide) else None


def _member(name: str) -> _Member:
    if name not in names():
        raise ValueError(f"no behaviour {name!r}; there are {', '.join(names())}")
    return cast("_Member", import_module(f"{__name__}.{name.replace('-', '_')}"))
