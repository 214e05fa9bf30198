"""rmsaudit compare: two implementations, the battery, one record."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmsaudit.cli._options import FILE, exit_code, output_format, print_record

if TYPE_CHECKING:
    from rmsaudit.audit import Party
    from rmsaudit.documents.implementation import Implementation
    from rmsaudit.record import AcceptanceRecord


@click.command(name="compare")
@click.option("--ref", "reference", type=FILE, required=True, help="The reference's implementation file.")
@click.option("--cand", "candidate", type=FILE, required=True, help="The candidate's implementation file.")
@click.option("--tolerance", type=FILE, help="Tolerance file to judge by; without one nothing is judged.")
@click.option("--out", type=FILE, help="Write the acceptance record here. A reviewed record is never overwritten.")
@click.option(
    "--set", "settings", multiple=True, metavar="SIDE.VARIABLE=VALUE", help="Override a variable: cand.eps=1e-6."
)
@click.option("--category", "categories", multiple=True, metavar="NAME", help="Only this category; may be repeated.")
@click.option(
    "--battery", "version", type=click.Choice(("1",)), default="1", show_default=True, help="Battery version."
)
@click.option("--width", type=click.IntRange(min=1), help="Width of both sides, in place of the declared one.")
@click.option("--rows", type=click.IntRange(min=1), default=16, show_default=True, help="Rows per case.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the drawn inputs.")
@click.option("--ladder/--no-ladder", default=True, show_default=True, help="Change one variable at a time.")
@output_format
def command(
    reference: Path,
    candidate: Path,
    tolerance: Path | None,
    out: Path | None,
    settings: tuple[str, ...],
    categories: tuple[str, ...],
    version: str,  # noqa: ARG001  there is one; the flag is there so that a script can pin it
    width: int | None,
    rows: int,
    seed: int,
    ladder: bool,
    output_format: str,
) -> int:
    """Compare two implementations and say what differs, how much, and why.

    \b
    Example: rmsaudit compare --ref a.yaml --cand b.yaml --tolerance t.yaml --out record.yaml
    """  # noqa: D301
    from datetime import UTC, datetime

    from rmsaudit import __version__, audit
    from rmsaudit.cli._progress import progress
    from rmsaudit.documents.record import refuse_to_overwrite_a_decision, write_record

    if out is not None:
        refuse_to_overwrite_a_decision(out)
    overrides = _overrides(settings, width)
    sides, judgement = _read(reference, candidate, tolerance, overrides)
    parties = [_party(side) for side in sides]
    chosen = audit.Plan(rows=rows, seed=seed, categories=_known(categories), ladder=ladder)
    facts = audit.Facts(
        version=__version__,
        today=datetime.now(UTC).date(),
        environment=_environment(),
        replay=_replay(sides, tolerance, judgement.digest),
    )
    with progress() as notify:
        record = audit.run(*parties, chosen, facts=facts, judgement=judgement, notify=notify)
    if out is not None:
        write_record(out, record)
    print_record(record, output_format)
    return exit_code(record.outcome)
