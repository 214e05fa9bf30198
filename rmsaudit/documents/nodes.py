"""A document as it was written: texts, lists and mappings, each with its line and column, none of them typed yet."""

from dataclasses import dataclass
from typing import NamedTuple

from rmsaudit.errors import Problem


class Mark(NamedTuple):
    """Where a value begins; both count from 1, columns in characters."""

    line: int
    column: int


class Scalar(NamedTuple):
    """One value as text. plain: it stood without quotes, so that other YAML readers might take it for a number."""

    text: str
    plain: bool
    mark: Mark | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    items: tuple["Node", ...]
    mark: Mark | None


class Entry(NamedTuple):
    """A key's own place, and its value."""

    key: Mark | None
    value: "Node"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys, in the order they were written, with their values."""

    entries: dict[str, Entry]
    mark: Mark | None


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A file (or the text of a flag) as nodes.

    path: as it stands in messages. digest: sha256 of the bytes, in hex. Marks are None in the text of a flag. problems:
    what is wrong with the text without being in the way of reading on (a key given twice); whoever reads on reports it.
    """

    path: str
    digest: str
    root: Node
    problems: tuple[Problem, ...] = ()

    def at(self, *steps: str | int) -> Node | None:
        """The node that keys and indices lead to, or None."""
        node: Node | None = self.root
        for step in steps:
            node = child(node, step)
        return node

    def mark_of(self, *steps: str | int) -> Mark | None:
        """Where that node stands; None where there is none, or where nothing has a place (a flag)."""
        node = self.at(*steps)
        return node.mark if node is not None else None


def child(node: Node | None, step: str | int) -> Node | None:
    """The value under a key, or at an index; None where there is no such thing."""
    match node, step:
        case Mapping(), str() if step in node.entries:
            return node.entries[step].value
        case Sequence(), int() if 0 <= step < len(node.items):
            return node.items[step]
    return None
