"""rmsaudit explain: a page on one cause."""

import click


@click.command(name="explain")
@click.argument("cause")
def command(cause: str) -> None:
    """Print a page on CAUSE: what it is, how it shows, what to check, public cases. Variables are understood as well.

    \b
    Example: rmsaudit explain eps-placement
    """
    from rmsaudit import pages

    name = pages.of_word(cause)
    if name is None:
        raise click.BadParameter(_nearest(cause, pages.names()), param_hint="CAUSE")
    click.echo(click.style(name, bold=True))
    click.echo(pages.page(name))


def _nearest(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "`rmsaudit list causes` shows them all"
    return f"{word!r} is no cause; {hint}"
