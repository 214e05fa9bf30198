"""Causes: the known mechanisms by which one RMSNorm becomes another. One file each, found by its name.

`eps_value.py` is the cause `eps-value`. Its docstring is the page about it: the first line says in one sentence what it
is, the rest what is behind it, how it shows and what to check. A cause declares VARIABLES (those that it changes) and
NEXT_STEP (one sentence: what to do when it was found), and may have

    propose(clues)      changes of variables worth trying, with numbers that are read from the data
    claim(before, after)  what the change means, in one sentence about the candidate and the reference

Without them, every value that a variable takes is tried, and the claim names both values. A cause never says which side
is wrong: it says which rule each side follows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from rmsaudit.clues import Clues

Words = Mapping[str, Any]
"""Declared words by variable, as in `norm:`; a change is some of them."""

GAIN_VALUES = "gain_values"
"""Not a variable of the formula but of its operand: what the candidate multiplies by, in words of `gains.FORMS`."""


class _Member(Protocol):
    VARIABLES: tuple[str, ...]
    NEXT_STEP: str


@dataclass(frozen=True)
class Cause:
    """One cause. summary: one sentence. page: the rest of its docstring."""

    name: str
    summary: str
    page: str
    variables: tuple[str, ...]
    next_step: str

    def propose(self, clues: "Clues") -> Iterator[Words]:
        """Changes worth trying on top of what `clues` are about."""
        own = getattr(_member(self.name), "propose", None)
        if own is not None:
            yield from own(clues)
            return
        for name in self.variables:
            for value in clues.other_values(name):
                yield {name: value}

    def claim(self, before: Words, after: Words) -> str | None:
        """The claim in the cause's own words, or None where it has none of its own. Resolved values by variable."""
        own = getattr(_member(self.name), "claim", None)
        return None if own is None else cast("str | None", own(before, after))


@cache
def names() -> tuple[str, ...]:
    """Every cause, by name."""
    files = Path(__file__).parent.glob("*.py")
    return tuple(sorted(file.stem.replace("_", "-") for file in files if not file.stem.startswith("_")))


@cache
def describe(name: str) -> Cause:
    """The cause `name`. Raises ValueError for a name that is not in `names()`."""
    member = _member(name)
    summary, _, page = (member.__doc__ or "").partition("\n")
    return Cause(name, summary.strip(), page.strip(), member.VARIABLES, member.NEXT_STEP)


@cache
def of_variable(variable: str) -> str:
    """The name of the cause that a change of this variable is; the variable's own, with dashes, where none lists it."""
    for name in names():
        if variable in _member(name).VARIABLES:
            return name
    return variable.replace("_", "-")


@cache
def _member(name: str) -> _Member:
    if name not in names():
        from difflib import get_close_matches

        near = get_close_matches(name, names(), 1, 0.0)
        raise ValueError(f"no cause {name!r}; the nearest is {near[0]!r}")
    return cast("_Member", import_module(f"{__name__}.{name.replace('-', '_')}"))
