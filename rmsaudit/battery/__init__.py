"""The battery: fixed, seeded inputs, chosen so that each variable is visible to some of them.

A category is a file in this folder: `near_eps.py` is `near-eps`. Its docstring begins with its name and what it holds;
it declares VERSION (raised when its numbers change), REVEALS (the variables that it makes visible) and, where it is not
for every pair of sides, SIDES. `build(setup)` yields its cases, and a `Skipped` for what it cannot build. Files whose
names begin with an underscore are no categories.

Categories come in the order of `categories.READING_ORDER`: by scale, from nothing to the edge; by shape; about a law;
about values that are not finite; about the gain. A category that is not named there comes last.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, cast

from rmsaudit.battery._common import CommonFormat, common_format
from rmsaudit.battery._setup import Setup, Skipped, cases
from rmsaudit.case import Case
from rmsaudit.categories import names

__all__ = [
    "VERSION",
    "Category",
    "CommonFormat",
    "Setup",
    "Skipped",
    "build",
    "cases",
    "common_format",
    "describe",
    "names",
]

VERSION = 1

Sides = Literal["any", "running"]


@dataclass(frozen=True, kw_only=True)
class Category:
    """What a category says of itself.

    summary: one line. reveals: names of variables. sides: "running" where only sides that run code can show anything.
    """

    name: str
    summary: str
    reveals: tuple[str, ...]
    version: int
    sides: Sides = "any"


class _Member(Protocol):
    VERSION: int
    REVEALS: tuple[str, ...]

    def build(self, setup: Setup) -> Iterator[Case | Skipped]: ...


def describe(name: str) -> Category:
    """The category `name`. Raises ValueError for a name that is not in `names()`."""
    member = _member(name)
    first_line = (member.__doc__ or "").partition("\n")[0]
    return Category(
        name=name,
        summary=first_line.removeprefix(f"{name}:").strip(),
        reveals=member.REVEALS,
        version=member.VERSION,
        sides=getattr(member, "SIDES", "any"),
    )


def build(setup: Setup, names: Iterable[str] | None = None) -> Iterator[tuple[Category, tuple[Case, ...]] | Skipped]:
    """Each category of `names` (all of them where that is None) with its cases, one at a time, in reading order.

    What cannot be built comes as a `Skipped`, in place of the category, or after it where only a part is missing.
    Raises ValueError, before anything is built, for a name that is no category.
    """
    chosen = None if names is None else set(names)
    described = [describe(name) for name in _in_order(chosen)]
    return (part for category in described for part in _build(category, setup))


def _in_order(chosen: set[str] | None) -> tuple[str, ...]:
    known = names()
    if chosen is None:
        return known
    unknown = sorted(chosen.difference(known))
    if unknown:
        raise ValueError(_unknown(unknown[0]))
    return tuple(name for name in known if name in chosen)


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(name, names(), n=1, cutoff=0.0)
    return f"no category {name!r}; the nearest is {nearest[0]!r}"


def _build(category: Category, setup: Setup) -> Iterator[tuple[Category, tuple[Case, ...]] | Skipped]:
    if category.sides == "running" and not setup.running:
        yield Skipped(category.name, "it shows something only where both sides run code")
        return
    parts = tuple(_member(category.name).build(setup))
    cases = tuple(part for part in parts if isinstance(part, Case))
    reasons = [part.reason for part in parts if isinstance(part, Skipped)]
    if cases:
        yield category, cases
    if reasons:
        yield Skipped(category.name, "; ".join(reasons))


def _member(name: str) -> _Member:
    if name not in names():
        raise ValueError(_unknown(name))
    return cast("_Member", import_module(f"{__name__}.{name.replace('-', '_')}"))
