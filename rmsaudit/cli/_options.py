"""Options that several commands share."""

from pathlib import Path
from typing import Any

import click

FILE = click.Path(path_type=Path)
MODEL_DTYPES = ("float32", "bfloat16", "float16")  # that models are run in


def output_format(command: Any) -> Any:
    """`--format text|yaml|json`."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(("text", "yaml", "json")),
        default="text",
        show_default=True,
        help="What to print.",
    )(command)


def overrides_of(settings: tuple[str, ...]) -> dict[str, str]:
    """What `--set VARIABLE=VALUE` says, where there is one side only. Raises BadParameter for anything else."""
    overrides = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"{setting!r} is not VARIABLE=VALUE", param_hint="--set")
        overrides[name] = value
    return overrides


def known_categories(categories: tuple[str, ...]) -> tuple[str, ...] | None:
    """The categories asked for, or None for all. Raises BadParameter for an unknown one, with the nearest."""
    from difflib import get_close_matches

    from rmsaudit.categories import names

    for name in categories:
        if name not in names():
            near = get_close_matches(name, names(), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names())}"
            raise click.BadParameter(f"{name!r} is no category; {hint}", param_hint="--category")
    return categories or None


def print_record(record: Any, output_format: str) -> None:
    """Renders a record to standard output: colour only on a terminal, and not under NO_COLOR."""
    import os
    import shutil
    import sys
    from importlib import import_module

    from rmsaudit.reports import Style

    terminal = sys.stdout.isatty()
    color = terminal and not os.environ.get("NO_COLOR")
    width = max(80, min(shutil.get_terminal_size((110, 24)).columns, 140)) if terminal else 110
    render = import_module(f"rmsaudit.reports.{output_format}").render
    click.echo(render(record, Style(color=color, width=width)), nl=False, color=color)


def exit_code(outcome: str) -> int:
    """The exit code that an outcome means."""
    from rmsaudit.errors import Exit

    codes = {
        "rejected": Exit.REJECTED,
        "reference_suspect": Exit.REJECTED,
        "could_not_run": Exit.COULD_NOT_RUN,
        "nothing_compared": Exit.NOTHING_COMPARED,
    }
    return codes.get(outcome, Exit.OK)
