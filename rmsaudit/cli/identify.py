"""rmsaudit identify: what is this implementation?"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmsaudit.cli._options import FILE, overrides_of

if TYPE_CHECKING:
    from rmsaudit.identify import Identity

NEAREST = 8


@click.command(name="identify")
@click.argument("implementation", type=FILE)
@click.option("--set", "settings", multiple=True, metavar="VARIABLE=VALUE", help="Override a variable: width=1024.")
@click.option("--rows", type=click.IntRange(min=1), default=16, show_default=True, help="Rows per case.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the drawn inputs.")
@click.option("--allow-code", is_flag=True, help="Run the code that a file names (also: RMSAUDIT_ALLOW_CODE=1).")
def command(implementation: Path, settings: tuple[str, ...], rows: int, seed: int, allow_code: bool) -> int:
    """Say what an implementation computes: the spec that re-creates it, and the presets nearest to it.

    \b
    Example: rmsaudit identify cand.yaml --allow-code
    """
    from contextlib import ExitStack

    from rmsaudit.cli._sides import consent, look_into, parties, preset_words
    from rmsaudit.documents.implementation import read_implementation
    from rmsaudit.errors import CouldNotRun
    from rmsaudit.identify import identify

    read = read_implementation(implementation, overrides_of(settings), look_into)
    with ExitStack() as stack:
        side = parties([read], consent(allow_code), stack)[0].side
        found = identify(side, preset_words(), rows=rows, seed=seed)
    if not found.nearest and found.failures:
        raise CouldNotRun(f"{read.name} ran on no input; {found.failures[0]}")
    for line in _lines(read.name, read.spec.width, found):
        click.echo(line)
    return 0


def _lines(name: str, width: int, found: "Identity") -> Iterator[str]:
    if found.words is None:
        yield f"{name}: no spec that was tried re-creates it at width {width}"
    else:
        how = "bit for bit" if found.word == "bit-equal" else f"up to the order of the sum ({found.worst} ulp)"
        yield f"{name}: re-created {how} at width {width} by"
        yield ""
        yield "  norm:"
        yield from (f"    {key}: {_yaml(value)}" for key, value in _told(found.words))
        if found.same:
            yield ""
            yield "  not told apart by these inputs:"
            yield from (
                f"    {', '.join(f'{k}: {_yaml(v)}' for k, v in each.items())}" for each in found.same[:NEAREST]
            )
    yield ""
    yield "Nearest presets"
    yield from _presets(found)
    if found.told:
        yield ""
        yield f"Read from its outputs alone: {found.told}"
    for failure in found.failures[:3]:
        yield f"not run: {failure}"


def _told(words: Any) -> list[tuple[str, Any]]:
    """What differs from the defaults, and the width."""
    from rmsaudit.semantics import variables

    return [(name, value) for name, value in words.items() if name not in variables() or _own(name, value)]


def _own(name: str, value: Any) -> bool:
    from rmsaudit.semantics import variables

    return name in ("width", "eps", "input_dtype") or bool(value != variables()[name].default)


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return f"{value:g}" if isinstance(value, float) else "null" if value is None else str(value)


def _presets(found: "Identity") -> Iterator[str]:
    equal = [near for near in found.nearest if near.word is not None]
    for near in equal:
        yield f"  {near.name:<44}  {near.word}"
    for near in found.nearest[len(equal) : len(equal) + max(NEAREST - len(equal), 3)]:
        yield f"  {near.name:<44}  {100 * near.equal:5.1f} % of the outputs equal, up to {near.worst} ulp"
