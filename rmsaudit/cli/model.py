"""rmsaudit model: every norm of a checkpoint beside the one of its conversion, one record."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rmsaudit.cli._options import FILE, MODEL_DTYPES, exit_code, known_categories, output_format, print_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmsaudit.audit import Facts, Judgement
    from rmsaudit.documents.sites.names import Names
    from rmsaudit.documents.tensors import TensorPlace
    from rmsaudit.errors import Problem
    from rmsaudit.model.matched import Model


@click.command(name="model")
@click.option(
    "--ref", "reference", required=True, metavar="PATH", help="The model: a folder, .safetensors, .gguf, .onnx."
)
@click.option("--cand", "candidate", required=True, metavar="PATH", help="Its conversion, in any of these formats.")
@click.option("--map", "names", type=FILE, help="YAML that gives sites of the candidate the reference's names.")
@click.option("--activations", metavar="PATH", help="Real rows too: safetensors, a tensor per norm, under its path.")
@click.option("--tolerance", type=FILE, help="Tolerance file to judge by; without one nothing is judged.")
@click.option("--out", type=FILE, help="Write the record here. A reviewed record is never overwritten.")
@click.option(
    "--dtype",
    type=click.Choice(MODEL_DTYPES),
    default="float32",
    show_default=True,
    help="Of every norm's input and output.",
)
@click.option("--category", "categories", multiple=True, metavar="NAME", help="Only this category; may be repeated.")
@click.option("--rows", type=click.IntRange(min=1), default=4, show_default=True, help="Rows per case.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the drawn inputs.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes to work in.")
@click.option("--scheduler", metavar="ADDRESS", help="Work on a Dask cluster instead: tcp://host:8786.")
@output_format
def command(
    reference: str,
    candidate: str,
    names: Path | None,
    activations: str | None,
    tolerance: Path | None,
    out: Path | None,
    dtype: str,
    categories: tuple[str, ...],
    rows: int,
    seed: int,
    jobs: int,
    scheduler: str | None,
    output_format: str,
) -> int:
    """Audit every norm of a model against its conversion: gains, eps, conventions, then the battery.

    Paths may be URLs (s3://, hf://, memory://) with `pip install 'rmsaudit[remote]'`. Only the norms are read.

    \b
    Example: rmsaudit model --ref llama-tiny/ --cand llama-tiny.gguf --tolerance t.yaml --out record.yaml
    """
    from rmsaudit.cli._executors import executor
    from rmsaudit.cli._progress import progress
    from rmsaudit.documents.record import refuse_to_overwrite_a_decision, write_record
    from rmsaudit.model import audit

    if out is not None:
        refuse_to_overwrite_a_decision(out)
        _refuse_unwritable(out)
    chosen = audit.Plan(dtype=dtype, rows=rows, seed=seed, categories=known_categories(categories))
    sides, judgement, real_rows = _read((reference, candidate), names, activations, tolerance, dtype)
    with executor(jobs, scheduler) as workers, progress() as notify:
        record = audit.run(
            *sides,
            chosen,
            facts=_facts((reference, candidate), tolerance, judgement),
            judgement=judgement,
            executor=workers,
            notify=notify,
            real_rows=real_rows,
        )
    if out is not None:
        write_record(out, record)
    print_record(record, output_format)
    return exit_code(record.outcome)


def _refuse_unwritable(out: Path) -> None:
    """Raises InputProblem now, and not after the work."""
    import os

    from rmsaudit.errors import InputProblem, Problem

    if not os.access(out.parent, os.W_OK | os.X_OK):
        missing = not out.parent.exists()
        says = f"its folder {'does not exist' if missing else 'cannot be written to'}; give another --out"
        raise InputProblem([Problem(path=str(out), says=says, kind="not-writable")])


def _read(
    paths: tuple[str, str], names: Path | None, activations: str | None, tolerance: Path | None, dtype: str
) -> "tuple[tuple[Model, Model], Judgement, Mapping[str, TensorPlace] | None]":
    """Both models, the tolerance and the rows; the problems of all are reported together."""
    from rmsaudit.cli._models import read_model
    from rmsaudit.errors import InputProblem
    from rmsaudit.storage import path_of

    problems: list[Problem] = []

    def attempt(read: Any) -> Any:
        try:
            return read()
        except InputProblem as found:
            problems.extend(found.problems)
            return None

    given = attempt(lambda: _names(names))
    reference = attempt(lambda: read_model(path_of(paths[0]), dtype))
    candidate = attempt(lambda: read_model(path_of(paths[1]), dtype))
    judgement = attempt(lambda: _judgement(tolerance, dtype))
    rows = attempt(lambda: _rows(activations))
    if problems:
        raise InputProblem(dict.fromkeys(problems))
    if given is not None:
        given.check(candidate.sites, reference.sites)
        candidate = candidate.renamed(given.pairs)
    return (reference, candidate), judgement, rows


def _names(path: Path | None) -> "Names | None":
    if path is None:
        return None
    from rmsaudit.documents.sites.names import read_names

    return read_names(path)


def _rows(activations: str | None) -> "Mapping[str, TensorPlace] | None":
    """The tensors of rows that entered norms; those of placements, which have a slash in their names, are none."""
    if activations is None:
        return None
    from rmsaudit.documents.problems import printable
    from rmsaudit.documents.tensors import read_tensors
    from rmsaudit.errors import InputProblem, Problem
    from rmsaudit.storage import path_of

    tensors = read_tensors(path_of(activations), activations)
    rows = {printable(name): place for name, place in tensors.items() if "/" not in name}
    if not rows:
        says = f"holds no rows of a norm, but {len(tensors)} tensors of placements" if tensors else "holds no tensor"
        says = f"{says}; docs/activations.md tells what a file of rows has"
        raise InputProblem([Problem(path=activations, says=says, kind="no-rows")])
    return rows


def _judgement(tolerance: Path | None, dtype: str) -> "Judgement":
    from rmsaudit import categories
    from rmsaudit.audit import Judgement
    from rmsaudit.documents.tolerance import read_tolerance, refuse_inexpressible

    if tolerance is None:
        return Judgement()
    known = (*categories.names(), categories.REAL_ROWS)
    read = read_tolerance(tolerance, known)
    refuse_inexpressible(read, {(name, dtype) for name in known})
    return Judgement(policy=read.policy, digest=read.digest)


def _facts(paths: tuple[str, str], tolerance: Path | None, judgement: "Judgement") -> "Facts":
    from datetime import UTC, datetime

    from rmsaudit import __version__
    from rmsaudit.audit import Facts
    from rmsaudit.cli._facts import environment, replay

    files = {} if tolerance is None or judgement.digest is None else {tolerance: judgement.digest}
    return Facts(
        version=__version__,
        today=datetime.now(UTC).date(),
        environment=environment(),
        replay=replay(files, paths),
    )
