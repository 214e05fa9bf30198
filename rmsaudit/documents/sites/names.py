"""A file that says which norm of one checkpoint is which of another: `candidate name: reference name`, a line each."""

from collections.abc import Mapping
from pathlib import Path

from rmsaudit.documents import scalars
from rmsaudit.documents.nodes import Entry
from rmsaudit.documents.nodes import Mapping as MappingNode
from rmsaudit.documents.problems import Problems, Refused, quoted
from rmsaudit.documents.source import read_source


def read_names(path: Path) -> Mapping[str, str]:
    """Reference name by candidate name. Raises InputProblem with every name that is no text, or given twice."""
    tree = read_source(path)
    problems = Problems(tree.path, tree.problems)
    names: dict[str, str] = {}
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
    problems.raise_any()
    return names


def _text(candidate: str, entry: Entry, problems: Problems) -> str | None:
    try:
        return scalars.text(entry.value)
    except Refused as refused:
        problems.add(entry.value.mark, f"{quoted(candidate)} {refused.says}", refused.kind)
        return None
