"""The options that choose two sides and the inputs for them, and how both sides are read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmsaudit.cli._options import FILE, known_categories

if TYPE_CHECKING:
    from rmsaudit.audit import Plan
    from rmsaudit.documents.implementation import Implementation
    from rmsaudit.errors import Problem

_OPTIONS = (
    click.option("--ref", "reference", type=FILE, required=True, help="The reference's implementation file."),
    click.option("--cand", "candidate", type=FILE, required=True, help="The candidate's implementation file."),
    click.option(
        "--set", "settings", multiple=True, metavar="SIDE.VARIABLE=VALUE", help="Override a variable: cand.eps=1e-6."
    ),
    click.option(
        "--category", "categories", multiple=True, metavar="NAME", help="Only this category; may be repeated."
    ),
    click.option(
        "--battery", "version", type=click.Choice(("1",)), default="1", show_default=True, help="Its version."
    ),
    click.option("--width", type=click.IntRange(min=1), help="Width of both sides, in place of the declared one."),
    click.option("--rows", type=click.IntRange(min=1), default=16, show_default=True, help="Rows per case."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the drawn inputs."),
)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the options chose. overrides: what `--set` and `--width` say, by side: {"ref": {"ref.eps": "1e-6"}}."""

    reference: Path
    candidate: Path
    overrides: dict[str, dict[str, str]]
    categories: tuple[str, ...] | None
    rows: int
    seed: int

    def plan(self, *, ladder: bool, behaviours: bool = False, explain: bool = True) -> "Plan":
        from rmsaudit.audit import Plan

        return Plan(
            rows=self.rows,
            seed=self.seed,
            categories=self.categories,
            ladder=ladder,
            behaviours=behaviours,
            explain=explain,
        )

    def read(self) -> "tuple[list[Implementation], list[Problem]]":
        """The sides that could be read, and everything that is wrong with the others."""
        from rmsaudit.cli._sides import look_into
        from rmsaudit.documents.implementation import read_implementation
        from rmsaudit.errors import InputProblem

        problems: list[Problem] = []
        sides: list[Implementation] = []
        for path, side in ((self.reference, "ref"), (self.candidate, "cand")):
            try:
                sides.append(read_implementation(path, self.overrides[side], look_into))
            except InputProblem as found:
                problems += found.problems
        return sides, problems


def input_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options to a command, which gets them as one `inputs`."""

    @wraps(command)
    def gathered(
        *,
        reference: Path,
        candidate: Path,
        settings: tuple[str, ...],
        categories: tuple[str, ...],
        version: str,  # noqa: ARG001  there is one; the flag is there so that a script can pin it
        width: int | None,
        rows: int,
        seed: int,
        **others: Any,  # the command's own options
    ) -> int:
        chosen = Inputs(
            reference=reference,
            candidate=candidate,
            overrides=_overrides(settings, width),
            categories=known_categories(categories),
            rows=rows,
            seed=seed,
        )
        return command(inputs=chosen, **others)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


def refuse_different_widths(reference: "Implementation", candidate: "Implementation") -> None:
    """Raises InputProblem where no input fits both sides."""
    from rmsaudit.errors import InputProblem, Problem

    widths = reference.spec.width, candidate.spec.width
    if widths[0] != widths[1]:
        says = (
            f"width {widths[1]} ({candidate.resolved['width'].source}) is not the reference's {widths[0]}"
            f" ({reference.resolved['width'].source}); no input fits both"
        )
        raise InputProblem([Problem(path=str(candidate.path), says=says, kind="width-mismatch")])


def _overrides(settings: tuple[str, ...], width: int | None) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"ref": {}, "cand": {}}
    for setting in settings:
        target, equals, value = setting.partition("=")
        side, dot, _ = target.partition(".")
        if not equals or not dot or side not in found:
            raise click.BadParameter(
                f"{setting!r} is not SIDE.VARIABLE=VALUE with SIDE ref or cand; write, for example, cand.eps=1e-6",
                param_hint="--set",
            )
        if target in found[side]:
            raise click.BadParameter(f"{target} is set twice", param_hint="--set")
        found[side][target] = value
    if width is not None:
        for side, values in found.items():
            values.setdefault(f"{side}.width", str(width))
    return found
