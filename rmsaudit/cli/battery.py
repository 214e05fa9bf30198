"""rmsaudit battery: the inputs themselves, to be run where rmsaudit is not."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmsaudit.cli._inputs import Inputs, input_options, refuse_different_widths
from rmsaudit.cli._options import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmsaudit.case import Case
    from rmsaudit.documents.implementation import Implementation


@click.group(name="battery")
def command() -> None:
    """Take the inputs of a comparison to where one side runs.

    \b
    Example: rmsaudit battery export --ref a.yaml --cand b.yaml --out inputs.safetensors
    """


@command.command(name="export")
@input_options
@click.option("--out", type=FILE, required=True, help="Write the inputs here (safetensors).")
@click.option(
    "--for",
    "side",
    type=click.Choice(("ref", "cand")),
    help="The side that runs elsewhere: its dtypes and gains. Default: the one of kind recorded, or else cand.",
)
def export(inputs: Inputs, out: Path, side: str | None) -> int:
    """Write every input that compare would feed to one side into a file.

    Run the norm on them anywhere, bring its outputs back, and name them in a `recorded:` section. Nothing that a file
    names is run. docs/commands.md has the file's layout and two scripts to start from.

    \b
    Example: rmsaudit battery export --ref a.yaml --cand recorded.yaml --out inputs.safetensors
    """
    from rmsaudit import battery
    from rmsaudit.cli._progress import progress
    from rmsaudit.errors import InputProblem
    from rmsaudit.loaders.recorded import Origin, export_cases

    sides, problems = inputs.read()
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    refuse_different_widths(*sides)
    index = _index(sides, side)
    origin = Origin(
        battery=battery.VERSION,
        seed=inputs.seed,
        eps={name: each.spec.eps for name, each in zip(("reference", "candidate"), sides, strict=True)},
    )
    with progress() as notify:
        count = export_cases(_fed(inputs, sides, index, notify), out, origin)
    click.echo(f"{count} inputs for {sides[index].name}, width {sides[index].spec.width}, in {out}")
    return 0


def _index(sides: "list[Implementation]", side: str | None) -> int:
    """0 for the reference, 1 for the candidate."""
    if side is not None:
        return ("ref", "cand").index(side)
    return 0 if [each.kind == "recorded" for each in sides] == [True, False] else 1


def _fed(
    inputs: Inputs, sides: "list[Implementation]", index: int, notify: "Callable[[str], None]"
) -> "Iterator[Case]":
    """What the audit would feed to that side. Raises InputProblem where an input does not exist in its dtypes."""
    from rmsaudit import audit, battery
    from rmsaudit.cli._sides import gain_of
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.loaders.exchange import UnusableTensors, fed

    chosen = inputs.plan(ladder=False)
    gains = audit.Gains(*map(gain_of, sides))
    setup = audit.setup_of((sides[0].spec, sides[1].spec), gains, chosen)
    for built in battery.build(setup, chosen.categories):
        if isinstance(built, battery.Skipped):
            continue
        category, cases = built
        notify(category.name)
        for case in cases:
            try:
                yield fed(gains.for_candidate(case) if index == 1 else case, sides[index].spec)
            except UnusableTensors as problem:
                raise InputProblem([Problem(path=str(sides[index].path), says=problem.says, kind="not-held")]) from None
