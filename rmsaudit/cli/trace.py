"""rmsaudit trace: one row, step by step, both sides and the oracle beside each other."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmsaudit.categories import names
from rmsaudit.cli._options import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmsaudit.audit import Plan
    from rmsaudit.documents.implementation import Implementation
    from rmsaudit.loaders import Side
    from rmsaudit.trace import Fed, Step, Trace, Value

CELL = 27
NARROW = 19


@click.command(name="trace")
@click.argument("reference", type=FILE)
@click.argument("candidate", type=FILE, required=False)
@click.option("--category", type=click.Choice(names()), required=True, metavar="NAME", help="Where the row is from.")
@click.option("--case", "label", help="The case within the category, as the record names it.")
@click.option("--row", type=click.IntRange(min=0), help="The row within its case; left out: the one farthest apart.")
@click.option("--column", type=click.IntRange(min=0), help="The element shown; left out: the one farthest apart.")
@click.option("--rows", type=click.IntRange(min=1), default=16, show_default=True, help="Rows per case.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the drawn inputs.")
@click.option("--allow-code", is_flag=True, help="Run the code that a file names (also: RMSAUDIT_ALLOW_CODE=1).")
def command(
    reference: Path,
    candidate: Path | None,
    category: str,
    label: str | None,
    row: int | None,
    column: int | None,
    rows: int,
    seed: int,
    allow_code: bool,
) -> None:
    """Show one row step by step: what each side has at every intermediate, and the first step that departs.

    \b
    Example: rmsaudit trace a.yaml b.yaml --category near-eps --row 3
    """
    from contextlib import ExitStack

    from rmsaudit.audit import Plan
    from rmsaudit.cli._sides import consent, parties
    from rmsaudit.trace import Place, trace

    read = _read([reference] if candidate is None else [reference, candidate])
    with ExitStack() as stack:
        sides = [each.side for each in parties(read, consent(allow_code), stack)]
        fed = list(_fed(sides, Plan(rows=rows, seed=seed, categories=(category,))))
        if not fed:
            raise click.UsageError(f"{category} cannot be built for these sides; `compare` says why")
        at = Place(label=label, row=row, column=column)
        try:
            found = trace(sides[0], sides[1] if candidate else None, fed, at)
        except ValueError as problem:
            cases = ", ".join(dict.fromkeys(each.reference.label or "(no label)" for each in fed))
            raise click.UsageError(f"{problem}; the cases of {category}: {cases}") from problem
    for line in _table(found, [each.name for each in read]):
        click.echo(line)


def _read(paths: list[Path]) -> "list[Implementation]":
    from rmsaudit.cli._inputs import refuse_different_widths
    from rmsaudit.cli._sides import look_into
    from rmsaudit.documents.implementation import read_implementation
    from rmsaudit.errors import InputProblem, Problem

    read: list[Implementation] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            read.append(read_implementation(path, {}, look_into))
        except InputProblem as found:
            problems += found.problems
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    refuse_different_widths(read[0], read[-1])
    return read


def _fed(sides: "list[Side]", chosen: "Plan") -> "Iterator[Fed]":
    """The cases of the chosen category as `compare` feeds them."""
    from rmsaudit import battery
    from rmsaudit.audit import Gains, setup_of
    from rmsaudit.battery import Skipped
    from rmsaudit.trace import Fed

    first, last = sides[0], sides[-1]
    gains = Gains(first.gain, last.gain)
    for built in battery.build(setup_of((first.spec, last.spec), gains, chosen), chosen.categories):
        if not isinstance(built, Skipped):
            for case in built[1]:
                yield Fed(reference=case, candidate=gains.for_candidate(case))


def _table(found: "Trace", sides: list[str]) -> "Iterator[str]":
    case = f", case {found.label}" if found.label else ""
    yield f"{found.category}{case}: row {found.row}, column {found.column} of {found.width}"
    for role, name in zip(("reference", "candidate"), sides, strict=False):
        yield f"  {role}: {name}"
    yield ""
    heads = ["reference", "candidate"][: len(sides)]
    yield click.style(_row("  step", [*heads, "oracle of the reference"]), bold=True)
    for step in found.steps:
        yield from _lines(step, len(sides))
    yield ""
    departing = next((step for step in found.steps if step.departs), None)
    if departing is not None:
        where = f"in {departing.differing} of {found.width} columns of this row"
        yield f"The first step that departs is {departing.name}: {where}."
    elif len(sides) == 2:
        yield "No step of this row departs."


def _lines(step: "Step", sides: int) -> "Iterator[str]":
    """A step as two lines: the values with their dtypes, and below them the bits."""
    values = [*(step.reference, step.candidate)[:sides], step.oracle]
    first = _row(f"{'>' if step.departs else ' '} {step.name}", [_decimal(value) for value in values])
    yield click.style(first, fg="yellow", bold=True) if step.departs else first
    yield click.style(_row("", [_hex(value) for value in values]), dim=True)


def _row(name: str, cells: list[str]) -> str:
    return (f"{name:<{NARROW + 4}}" + "".join(f"{cell:<{CELL}}" for cell in cells)).rstrip()


def _decimal(value: "Value | None") -> str:
    if value is None:
        return "-"
    return f"{value.value:.9g} {value.dtype or 'exact'}"


def _hex(value: "Value | None") -> str:
    from rmsaudit.arrays import hex_of

    return "" if value is None else hex_of(value.value)
