"""rmsaudit resolve: every variable of one side, its value, and where it came from."""

from pathlib import Path

import click

from rmsaudit.cli._options import FILE, overrides_of


@click.command(name="resolve")
@click.argument("implementation", type=FILE)
@click.option("--set", "settings", multiple=True, metavar="VARIABLE=VALUE", help="Override a variable: eps=1e-6.")
def command(implementation: Path, settings: tuple[str, ...]) -> None:
    """Print every variable of an implementation file: value, and the source it was resolved from.

    \b
    Example: rmsaudit resolve a.yaml
    """
    from rmsaudit.cli._sides import look_into
    from rmsaudit.documents.implementation import read_implementation
    from rmsaudit.reports._drawing import number

    read = read_implementation(implementation, overrides_of(settings), look_into)
    click.echo(f"{read.name} (kind {read.kind})")
    rows = [(name, number(found.value), found.source, found.written) for name, found in read.resolved.items()]
    widest = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    for name, value, source, written in rows:
        word = f", written {written}" if written else ""
        click.echo(f"  {name:<{widest[0]}}  {value:<{widest[1]}}  {source}{word}")
    if read.gain is None:
        click.echo("  gains: the battery's own")
    else:
        place = read.gain.place
        click.echo(f"  gains: {place.name}, {place.dtype}[{place.shape[0]}], {place.path.name}")
