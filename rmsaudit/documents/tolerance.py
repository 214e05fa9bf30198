"""The tolerance file: read, typed, and refused where its rows cannot mean what they say."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.nodes import Mark, Tree
from rmsaudit.documents.problems import Problems, did_you_mean, quoted
from rmsaudit.documents.source import read_source
from rmsaudit.formats import FORMATS
from rmsaudit.semantics import variables
from rmsaudit.tolerance import Policy, inexpressible, ties


@dataclass(frozen=True, kw_only=True)
class ToleranceFile:
    """A policy with the file it stands in: its nodes know where every row is."""

    policy: Policy
    tree: Tree

    @property
    def digest(self) -> str:
        """sha256 of the file's bytes, in hex."""
        return self.tree.digest


def read_tolerance(path: Path, categories: Iterable[str] = ()) -> ToleranceFile:
    """The file at `path`. categories: the known ones, so that a row for an unknown one is refused; none: any word goes.

    Raises InputProblem with every problem.
    """
    tree = read_source(path)
    policy = read_model(Policy, tree)
    problems = Problems(tree.path)
    _check_words(policy, tree, problems, tuple(categories))
    _check_ties(policy, tree, problems)
    problems.raise_any()
    return ToleranceFile(policy=policy, tree=tree)


def refuse_inexpressible(file: ToleranceFile, cells: Iterable[tuple[str, str]]) -> None:
    """Raises InputProblem for rows that judge one of the cells (category, output dtype) by less than its dtype
    expresses."""
    problems = Problems(file.tree.path)
    seen = set()
    for category, dtype in sorted(cells):
        row = file.policy.row_for(category, dtype)
        if row is None or (id(row), dtype) in seen:
            continue
        seen.add((id(row), dtype))
        says = inexpressible(row, dtype)
        if says:
            index = next(i for i, each in enumerate(file.policy.rules) if each is row)
            problems.add(_mark(file.tree, "rules", index, "rtol"), says, "below-resolution")
    problems.raise_any()


def _check_words(policy: Policy, tree: Tree, problems: Problems, categories: tuple[str, ...]) -> None:
    """Names that nothing answers to would make a row or a waiver silently void."""
    for index, row in enumerate(policy.rules):
        dtype, category = row.when.output_dtype, row.when.category
        if dtype is not None and dtype not in FORMATS:
            unknown = _unknown(dtype, "dtype", FORMATS)
            problems.add(_mark(tree, "rules", index, "when", "output_dtype"), unknown, "unknown-dtype")
        elif dtype is not None and (says := inexpressible(row, dtype)):
            problems.add(_mark(tree, "rules", index, "rtol"), says, "below-resolution")
        _check_category(category, _mark(tree, "rules", index, "when", "category"), problems, categories)
    for index, waiver in enumerate(policy.waivers):
        _check_category(waiver.category, _mark(tree, "waivers", index, "category"), problems, categories)
        if waiver.variable not in variables():
            says = _unknown(waiver.variable, "variable", variables())
            problems.add(_mark(tree, "waivers", index, "variable"), says, "unknown-variable")


def _check_category(name: str | None, mark: Mark | None, problems: Problems, categories: tuple[str, ...]) -> None:
    if name is not None and categories and name not in categories:
        problems.add(mark, _unknown(name, "category", categories), "unknown-category")


def _unknown(word: str, what: str, known: Iterable[str]) -> str:
    hint = did_you_mean(word, known) or f"there are {', '.join(known)}"
    return f"{quoted(word)} is no {what}; {hint}"


def _mark(tree: Tree, *steps: str | int) -> Mark | None:
    node = tree.at(*steps)
    return node.mark if node else None


def _check_ties(policy: Policy, tree: Tree, problems: Problems) -> None:
    for first, second in ties(policy.rules):
        rows = policy.rules
        says = (
            f"this row ({rows[second].when}) and row {first + 1} ({rows[first].when}) claim the same cell with equal"
            " right; make one of them more specific"
        )
        problems.add(_mark(tree, "rules", second), says, "tie")
