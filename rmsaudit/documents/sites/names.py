"""A file that says which norm of one checkpoint is which of another: `candidate name: reference name`, a line each."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from rmsaudit.documents import scalars
from rmsaudit.documents.nodes import Entry, Mark, Tree
from rmsaudit.documents.nodes import Mapping as MappingNode
from rmsaudit.documents.problems import Problems, Refused, did_you_mean, quoted
from rmsaudit.documents.source import read_source
from rmsaudit.errors import InputProblem


@dataclass(frozen=True, kw_only=True)
class Names:
    """Reference name by candidate name. path: of the file, for messages. marks: where both of a line stand."""

    path: str = ""
    pairs: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, tuple[Mark | None, Mark | None]] = field(default_factory=dict)

    def check(self, candidate: Collection[str], reference: Collection[str]) -> None:
        """Raises InputProblem with every name that no norm has, and every one that two norms would have."""
        problems = Problems(self.path)
        for own, name in self.pairs.items():
            key, value = self.marks[own]
            if own not in candidate:
                problems.add(key, f"no norm of the candidate is called {quoted(own)}; {_hint(own, candidate)}", UNKNOWN)
            if name not in reference:
                says = f"no norm of the reference is called {quoted(name)}; {_hint(name, reference)}"
                problems.add(value, says, UNKNOWN)
            elif name in candidate and name not in self.pairs and own in candidate:
                says = f"the candidate has a norm called {quoted(name)} as well; give that one a name too, or drop this"
                problems.add(value, says, "name-given-twice")
        problems.raise_any()


UNKNOWN = "unknown-name"


def _hint(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known) or "`rmsaudit sites` lists their names"


def read_names(path: Path) -> Names:
    """The names in a file. Raises InputProblem with every name that is no text, or given twice."""
    tree = _read(path)
    problems = Problems(tree.path, tree.problems)
    names: dict[str, str] = {}
    marks: dict[str, tuple[Mark | None, Mark | None]] = {}
    first: dict[str, str] = {}
    assert isinstance(tree.root, MappingNode)
    for candidate, entry in tree.root.entries.items():
        reference = _text(candidate, entry, problems)
        if reference is None:
            continue
        if reference in first:
            says = f"{quoted(candidate)} and {quoted(first[reference])} cannot both be {quoted(reference)}; drop one"
            problems.add(entry.value.mark, says, "name-given-twice")
        first.setdefault(reference, candidate)
        names[candidate] = reference
        marks[candidate] = entry.key, entry.value.mark
    problems.raise_any()
    return Names(path=tree.path, pairs=names, marks=marks)


def _read(path: Path) -> Tree:
    """As `read_source`, whose advice on what is no mapping is for documents with a schema."""
    try:
        return read_source(path)
    except InputProblem as found:
        says = "names come as a mapping; write `candidate name: reference name`, a line each"
        raise InputProblem(
            replace(each, says=says) if each.kind == "wrong-shape" else each for each in found.problems
        ) from None


def _text(candidate: str, entry: Entry, problems: Problems) -> str | None:
    try:
        return scalars.text(entry.value)
    except Refused as refused:
        problems.add(entry.value.mark, f"{quoted(candidate)} {refused.says}", refused.kind)
        return None
