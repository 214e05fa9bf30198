"""rmsaudit show: a stored record as the tables that compare printed."""

from pathlib import Path

import click

from rmsaudit.cli._options import FILE, exit_code, output_format, print_record


@click.command(name="show")
@click.argument("record", type=FILE)
@output_format
def command(record: Path, output_format: str) -> int:
    """Print a stored record as compare printed it; the exit code is the record's outcome.

    \b
    Example: rmsaudit show record.yaml
    """
    from rmsaudit.documents.record import read_record

    stored = read_record(record)
    print_record(stored, output_format)
    return exit_code(stored.outcome)
