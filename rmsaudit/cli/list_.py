"""rmsaudit list: the vocabulary, a line each."""

from collections.abc import Callable, Iterator

import click


def _variables() -> Iterator[tuple[str, str]]:
    from rmsaudit.semantics import variables

    for variable in variables().values():
        values = f" ({', '.join(variable.words)})" if variable.kind == "word" else ""
        yield variable.name, f"[{variable.stage}] {variable.means}{values}"


def _categories() -> Iterator[tuple[str, str]]:
    from rmsaudit import battery

    for name in battery.names():
        category = battery.describe(name)
        yield name, f"{category.summary} (reveals {', '.join(category.reveals)})"


def _presets() -> Iterator[tuple[str, str]]:
    from rmsaudit.documents.preset import preset_names, read_preset

    for name in preset_names():
        preset = read_preset(name)
        yield name, f"{preset.about} ({preset.source.project} {preset.source.version})"


def _rules() -> Iterator[tuple[str, str]]:
    from rmsaudit.tolerance import RULES

    for name, rule in RULES.items():
        yield name, " ".join((rule.__doc__ or "").split())


def _causes() -> Iterator[tuple[str, str]]:
    from rmsaudit import pages

    for name in pages.names():
        yield name, pages.summary(name)


LISTS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "variables": _variables,
    "categories": _categories,
    "presets": _presets,
    "rules": _rules,
    "causes": _causes,
}


@click.command(name="list")
@click.argument("what", type=click.Choice(tuple(LISTS)))
def command(what: str) -> None:
    """Print the vocabulary, a line each: variables, categories, presets, rules or causes.

    \b
    Example: rmsaudit list categories
    """
    rows = list(LISTS[what]())
    widest = max(len(name) for name, _ in rows)
    for name, says in rows:
        click.echo(f"{name:<{widest}}  {says}")
