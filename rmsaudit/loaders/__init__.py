"""Sides: how a declaration becomes something that can be run. One file per `kind`.

A side answers `observe(case)` with `Ran` or `Failed`; it never raises for what its own code does. It states what it is
believed to be as declared words (a variable may name another one), from which `spec` follows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rmsaudit.arrays import Array
from rmsaudit.case import Case
from rmsaudit.semantics import NormSpec


@dataclass(frozen=True, eq=False)
class Ran:
    """What a side returned: [rows, width] in its own output dtype."""

    output: Array


@dataclass(frozen=True)
class Failed:
    """Why a side returned nothing usable, in its own words. died: its process did not survive the call."""

    says: str
    died: bool = False


Observation = Ran | Failed


class Side(Protocol):
    """One implementation, ready to be fed.

    declared: every variable as it was written, words included. spec: the same, resolved. gain: the declared gains
    [width], or None for the battery's own.
    """

    @property
    def declared(self) -> Mapping[str, Any]: ...
    @property
    def spec(self) -> NormSpec: ...
    @property
    def gain(self) -> Array | None: ...
    def observe(self, case: Case) -> Observation: ...


def only_width(sides: Iterable[Side]) -> str | None:
    """Why a side takes no other width than the declared one, in its own words; None where all take any.

    Such a side has an attribute `only_width` with those words.
    """
    return next((why for side in sides if (why := getattr(side, "only_width", None))), None)


def only_rows(side: Side) -> str | None:
    """Why a side does not take any number of rows; None where it does. Such a side has an attribute of that name."""
    why: str | None = getattr(side, "only_rows", None)
    return why
