"""rmsaudit placement: at which boundary of its layer each norm sits."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rmsaudit.cli._options import output_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rmsaudit.arrays import Array
    from rmsaudit.documents.sites import Site
    from rmsaudit.placement import Placement

Found = dict[str, tuple["Placement", ...]]
"""By site: that of the reference, and that of the candidate where there is one."""


@click.command(name="placement")
@click.argument("reference")
@click.argument("candidate", required=False)
@click.option("--model", required=True, metavar="PATH", help="The checkpoint that the gains and eps are taken from.")
@click.option(
    "--rows", type=click.IntRange(min=1), default=16, show_default=True, help="Rows of each tensor looked at."
)
@output_format
def command(reference: str, candidate: str | None, model: str, rows: int, output_format: str) -> int:
    """Say where each norm sits: before a sublayer, after it, after the residual addition, or on the residual.

    REFERENCE, and CANDIDATE where given, are safetensors with what ran inside the layers of the model:
    model.layers.0/input, model.layers.0.self_attn/input and /output, model.layers.0/after_attention, and so on
    (docs/activations.md). Exit code 1 where a norm of the candidate sits elsewhere, 4 where no norm has a place in
    both.

    \b
    Example: rmsaudit placement hf.safetensors engine.safetensors --model llama-tiny/
    """
    import os

    from rmsaudit.errors import Exit
    from rmsaudit.placement import disagreement

    files = [each for each in (reference, candidate) if each]
    found = _placed(files, model, rows)
    apart = {site: says for site, sides in found.items() if len(sides) == 2 and (says := disagreement(*sides))}
    if output_format == "text":
        for line in _lines(files, model, found, apart):
            click.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    else:
        click.echo(_document(found, apart, output_format), nl=False)
    if apart:
        return Exit.REJECTED
    return Exit.OK if candidate is None or _compared(found) else Exit.NOTHING_COMPARED


def _compared(found: Found) -> int:
    """How many norms have a place in both files."""
    return sum(all(side.places for side in sides) for sides in found.values())


# --- reading ---------------------------------------------------------------------------------------------------------


class _Norms(NamedTuple):
    """model: the path they are from."""

    model: str
    sites: "Mapping[str, Site]"
    gains: "Mapping[str, Array]"


def _placed(files: list[str], model: str, rows: int) -> Found:
    """Raises InputProblem."""
    from rmsaudit.cli._models import refuse_unreadable
    from rmsaudit.documents.checkpoints.opening import open_checkpoint
    from rmsaudit.documents.sites.find import find_sites
    from rmsaudit.loaders import tensors
    from rmsaudit.placement import Placement
    from rmsaudit.storage import path_of

    sites_found = find_sites(open_checkpoint(path_of(model)))
    refuse_unreadable(path_of(model), sites_found)
    sites = {site.name: site for site in sites_found.sites if site.tensor}
    gains = {name: tensors.load(site.tensor).reshape(-1) for name, site in sites.items() if site.tensor}
    norms = _Norms(model, sites, gains)
    sides = [_side(path_of(file), norms, rows) for file in files]
    nothing = Placement(trials=())  # recorded in the other file only
    names = dict.fromkeys(site for side in sides for site in side)
    return {name: tuple(side.get(name, nothing) for side in sides) for name in names}


def _side(path: Path, norms: _Norms, rows: int) -> "dict[str, Placement]":
    """Every site of a layer of which something was recorded."""
    from rmsaudit.documents.problems import printable
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.placement import place_sites, run_dtype

    recorded = _recorded(path, rows)
    word = run_dtype(list(recorded.values()))
    layers: dict[str, list[str]] = {}
    for site in norms.sites:
        layers.setdefault(site.rpartition(".")[0], []).append(site)
    found: dict[str, Placement] = {}
    for layer, names in layers.items():
        if any(name.startswith(f"{layer}/") for name in recorded) and layer.rpartition(".")[2].isdigit():
            specs = {name: (_spec(norms, name, word), norms.gains[name]) for name in names}
            try:
                found |= place_sites(layer, specs, recorded)
            except ValueError as problem:
                raise InputProblem([Problem(path=str(path), says=str(problem), kind="shapes")]) from None
    if not found:
        says = f"records too little around the layers of {printable(norms.model)} to place a norm"
        says = f"{says}; docs/activations.md has the names of its tensors"
        raise InputProblem([Problem(path=str(path), says=says, kind="no-layers")])
    return found


def _recorded(path: Path, rows: int) -> "dict[str, Array]":
    """The first rows of each tensor whose name has a stroke in it. Raises InputProblem."""
    from rmsaudit.activations.rows import blocks, why_no_rows
    from rmsaudit.documents.problems import printable
    from rmsaudit.documents.tensors import read_tensors
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.formats import FORMATS

    places = {name: place for name, place in read_tensors(path).items() if "/" in name}
    unusable = [f"{printable(name)} {reason}" for name, place in places.items() if (reason := why_no_rows(place))]
    if unusable:
        raise InputProblem([Problem(path=str(path), says=says, kind="no-rows") for says in unusable])
    return {
        name: next(blocks(place, place.shape[-1], rows * place.shape[-1] * FORMATS[place.dtype].bits // 8))
        for name, place in places.items()
    }


def _spec(norms: _Norms, name: str, word: str) -> Any:
    """Raises InputProblem for words that do not hold together."""
    from rmsaudit.documents.preset import read_preset
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.semantics.resolve import CannotResolve, resolve

    site = norms.sites[name]
    words = {**read_preset(site.preset).values, **site.declared}
    try:
        return resolve({**words, "input_dtype": word, "gain_dtype": word})
    except CannotResolve as problem:
        says = f"{name} cannot be computed: {problem}"
        raise InputProblem([Problem(path=norms.model, says=says, kind="cannot-resolve")]) from None


# --- output ----------------------------------------------------------------------------------------------------------


def _lines(files: list[str], model: str, found: Found, apart: dict[str, str]) -> "Iterator[str]":
    """A line for the sites that sit alike in different layers; those that differ come first."""
    from rmsaudit.documents.problems import printable

    names = [printable(Path(file).name) for file in files]
    yield f"{' beside '.join(names)}; norms of {printable(Path(model).name)}"
    yield ""
    lines = [(site, tuple(each.says for each in sides)) for site, sides in _grouped(found, apart)]
    heads = ("reference", "candidate")[: len(files)]
    first, second = (max(map(len, column)) for column in (["site", *(s for s, _ in lines)], [p[0] for _, p in lines]))
    for site, says in (("site", heads), *lines):
        line = f"{site:<{first}}  {says[0]:<{second}}  {says[1] if len(says) > 1 else ''}".rstrip()
        yield click.style(line, bold=True) if says is heads else line
    if len(files) > 1:
        yield ""
        yield from _counts(found, apart)
    lost = sum(sides[-1].is_unexplained for sides in found.values())
    if lost:
        who = "the candidate" if len(files) > 1 else "this file"
        yield f"{lost} of {len(found)} norms explain nothing in {who}: gains, eps or the boundary are others there."


def _counts(found: Found, apart: dict[str, str]) -> "Iterator[str]":
    """How many sites sit elsewhere, of those that have a place in both files, and how many have not."""
    count, total = len(apart), _compared(found)
    if not total:
        yield "No norm has a place in both files, so nothing was compared."
        return
    yield f"{count} of {total} site{'s' * (total > 1)} {'sits' if 1 in (count, total) else 'sit'} at another boundary."
    if left := len(found) - total:
        has, was = ("has", "was") if left == 1 else ("have", "were")
        yield f"{left} of {len(found)} sites {has} no place in one of the files, and {was} not compared."


def _grouped(found: Found, apart: dict[str, str]) -> "list[tuple[str, tuple[Placement, ...]]]":
    from rmsaudit.activations.layers import without_layer
    from rmsaudit.model.names import compact

    groups: dict[Any, list[str]] = {}
    for site in sorted(found, key=lambda site: site not in apart):
        says = tuple(each.says for each in found[site])
        groups.setdefault((without_layer(site), says), []).append(site)
    return [(compact(names)[0], found[names[0]]) for names in groups.values()]


def _document(found: Found, apart: dict[str, str], output_format: str) -> str:
    """The same as data, with every formula that was tried."""
    document = {
        "schema": "rmsaudit/placement/1",
        "apart": apart,
        "sites": {
            site: {side: _told(each) for side, each in zip(("reference", "candidate"), sides, strict=False)}
            for site, sides in found.items()
        },
    }
    if output_format == "json":
        import json

        return json.dumps(document, indent=2) + "\n"
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text


def _told(placement: "Placement") -> dict[str, Any]:
    from rmsaudit.placement import WORDS

    trials = {
        f"{trial.sublayer}/{trial.tensor}: {WORDS[trial.boundary].format(trial.sublayer)}": (
            trial.says or {"of_rounding": float(f"{trial.share:.3g}"), "relative": float(f"{trial.relative:.3g}")}
        )
        for trial in placement.trials
    }
    return {"says": placement.says, "open": list(placement.open_), "trials": trials}
