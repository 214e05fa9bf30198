"""rmsaudit compare: two implementations, the battery, one record."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmsaudit.cli._options import FILE, exit_code, output_format, print_record

if TYPE_CHECKING:
    from rmsaudit.audit import Judgement
    from rmsaudit.documents.implementation import Implementation
    from rmsaudit.record import Environment, Replay


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
@click.option("--allow-code", is_flag=True, help="Run the code that a file names (also: RMSAUDIT_ALLOW_CODE=1).")
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
    from rmsaudit.cli._progress import progress
    from rmsaudit.cli._sides import consent, party
    from rmsaudit.documents.record import refuse_to_overwrite_a_decision, write_record

    if out is not None:
        refuse_to_overwrite_a_decision(out)
    overrides = _overrides(settings, width)
    sides, judgement = _read(reference, candidate, tolerance, overrides)
    chosen = audit.Plan(rows=rows, seed=seed, categories=_known(categories), ladder=ladder)
    facts = audit.Facts(
        version=__version__,
        today=datetime.now(UTC).date(),
        environment=_environment(),
        replay=_replay(sides, tolerance, judgement.digest),
    )
    with ExitStack() as stack:
        parties = [party(side, consent(allow_code), stack) for side in sides]
        notify = stack.enter_context(progress())
        record = audit.run(parties[0], parties[1], chosen, facts=facts, judgement=judgement, notify=notify)
    if out is not None:
        write_record(out, record)
    print_record(record, output_format)
    return exit_code(record.outcome)


def _overrides(settings: tuple[str, ...], width: int | None) -> dict[str, dict[str, str]]:
    """What `--set` and `--width` say, by side: {"ref": {"ref.eps": "1e-6"}, "cand": {}}."""
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


def _read(
    reference: Path, candidate: Path, tolerance: Path | None, overrides: dict[str, dict[str, str]]
) -> "tuple[list[Implementation], Judgement]":
    """Both sides and the tolerance; the problems of all files are reported together."""
    from rmsaudit import battery
    from rmsaudit.audit import Judgement
    from rmsaudit.cli._sides import look_into
    from rmsaudit.documents.implementation import read_implementation
    from rmsaudit.documents.tolerance import read_tolerance, refuse_inexpressible
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.formats import coarser

    problems: list[Problem] = []
    sides: list[Implementation] = []
    for path, side in ((reference, "ref"), (candidate, "cand")):
        try:
            sides.append(read_implementation(path, overrides[side], look_into))
        except InputProblem as found:
            problems += found.problems
    judged = None
    try:
        judged = read_tolerance(tolerance, battery.names()) if tolerance else None
    except InputProblem as found:
        problems += found.problems
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    _refuse_different_widths(*sides)
    if judged is None:
        return sides, Judgement()
    dtype = coarser(sides[0].spec.output_dtype, sides[1].spec.output_dtype)
    refuse_inexpressible(judged, {(name, dtype) for name in battery.names()})
    return sides, Judgement(policy=judged.policy, digest=judged.digest)


def _refuse_different_widths(reference: "Implementation", candidate: "Implementation") -> None:
    from rmsaudit.errors import InputProblem, Problem

    widths = reference.spec.width, candidate.spec.width
    if widths[0] != widths[1]:
        says = (
            f"width {widths[1]} ({candidate.resolved['width'].source}) is not the reference's {widths[0]}"
            f" ({reference.resolved['width'].source}); no input fits both"
        )
        raise InputProblem([Problem(path=str(candidate.path), says=says, kind="width-mismatch")])


def _known(categories: tuple[str, ...]) -> tuple[str, ...] | None:
    """The categories asked for, or None for all. Raises BadParameter for an unknown one, with the nearest."""
    from difflib import get_close_matches

    from rmsaudit import battery

    for name in categories:
        if name not in battery.names():
            near = get_close_matches(name, battery.names(), 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(battery.names())}"
            raise click.BadParameter(f"{name!r} is no category; {hint}", param_hint="--category")
    return categories or None


def _environment() -> "Environment":
    """What could change the numbers of declared sides: the libraries that round, and the processor's instruction
    set."""
    import platform
    import sys
    from importlib.metadata import version

    from rmsaudit.record import Environment

    return Environment(
        changes_numbers={name: version(name) for name in ("numpy", "ml_dtypes")},
        informative={"python": platform.python_version(), "machine": platform.machine(), "system": sys.platform},
    )


def _replay(sides: "list[Implementation]", tolerance: Path | None, digest: str | None) -> "Replay":
    """The command as given, with file names instead of paths, and what the files held."""
    import shlex
    import sys

    from rmsaudit.record import Replay

    files = {side.path: side.digest for side in sides}
    if tolerance is not None and digest is not None:
        files[tolerance] = digest
    given = zip(["", *sys.argv[1:]], sys.argv[1:], strict=False)
    words = [
        Path(word).name if Path(word) in files else word for before, word in given if "--out" not in (before, word)
    ]
    return Replay(command=shlex.join(["rmsaudit", *words]), inputs={path.name: found for path, found in files.items()})
