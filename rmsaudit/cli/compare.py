"""rmsaudit compare: two implementations, the battery, one record."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmsaudit.cli._inputs import Inputs, input_options, refuse_different_widths
from rmsaudit.cli._options import FILE, exit_code, output_format, print_record

if TYPE_CHECKING:
    from rmsaudit.audit import Judgement
    from rmsaudit.documents.implementation import Implementation


@click.command(name="compare")
@input_options
@click.option("--tolerance", type=FILE, help="Tolerance file to judge by; without one nothing is judged.")
@click.option("--out", type=FILE, help="Write the acceptance record here. A reviewed record is never overwritten.")
@click.option("--ladder/--no-ladder", default=True, show_default=True, help="Change one variable at a time.")
@click.option(
    "--behaviours/--no-behaviours",
    default=True,
    show_default=True,
    help="Ask sides that run code how they behave beside their numbers.",
)
@click.option(
    "--explain/--no-explain",
    default=True,
    show_default=True,
    help="Search for what explains a side that does not compute what it declares.",
)
@click.option("--allow-code", is_flag=True, help="Run the code that a file names (also: RMSAUDIT_ALLOW_CODE=1).")
@output_format
def command(
    inputs: Inputs,
    tolerance: Path | None,
    out: Path | None,
    ladder: bool,
    behaviours: bool,
    explain: bool,
    allow_code: bool,
    output_format: str,
) -> int:
    """Compare two implementations and say what differs, how much, and why.

    \b
    Example: rmsaudit compare --ref a.yaml --cand b.yaml --tolerance t.yaml --out record.yaml
    """
    from contextlib import ExitStack
    from datetime import UTC, datetime

    from rmsaudit import __version__, audit
    from rmsaudit.cli._facts import environment, replay
    from rmsaudit.cli._progress import progress
    from rmsaudit.cli._sides import consent, parties, preset_words
    from rmsaudit.documents.record import refuse_to_overwrite_a_decision, write_record

    if out is not None:
        refuse_to_overwrite_a_decision(out)
    sides, judgement = _read(inputs, tolerance)
    facts = audit.Facts(
        version=__version__,
        today=datetime.now(UTC).date(),
        environment=environment(),
        replay=replay(_files(sides, tolerance, judgement.digest)),
    )
    with ExitStack() as stack:
        reference, candidate = parties(sides, consent(allow_code), stack)
        notify = stack.enter_context(progress())
        chosen = inputs.plan(ladder=ladder, behaviours=behaviours, explain=explain)
        record = audit.run(
            reference, candidate, chosen, facts=facts, judgement=judgement, notify=notify, presets=preset_words
        )
    if out is not None:
        write_record(out, record)
    print_record(record, output_format)
    return exit_code(record.outcome)


def _read(inputs: Inputs, tolerance: Path | None) -> "tuple[list[Implementation], Judgement]":
    """Both sides and the tolerance; the problems of all files are reported together."""
    from rmsaudit import battery
    from rmsaudit.audit import Judgement
    from rmsaudit.documents.tolerance import read_tolerance, refuse_inexpressible
    from rmsaudit.errors import InputProblem
    from rmsaudit.formats import coarser

    sides, problems = inputs.read()
    judged = None
    try:
        judged = read_tolerance(tolerance, battery.names()) if tolerance else None
    except InputProblem as found:
        problems += found.problems
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    refuse_different_widths(*sides)
    if judged is None:
        return sides, Judgement()
    dtype = coarser(sides[0].spec.output_dtype, sides[1].spec.output_dtype)
    refuse_inexpressible(judged, {(name, dtype) for name in battery.names()})
    return sides, Judgement(policy=judged.policy, digest=judged.digest)


def _files(sides: "list[Implementation]", tolerance: Path | None, digest: str | None) -> dict[Path, str]:
    """Every file that was read, with what it held."""
    files = {side.path: side.digest for side in sides}
    return files if tolerance is None or digest is None else files | {tolerance: digest}
