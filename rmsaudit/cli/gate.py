"""rmsaudit gate: a stored record, judged again under other limits, without running anything."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rmsaudit.cli._options import FILE, exit_code, output_format, print_record

if TYPE_CHECKING:
    from datetime import date

    from rmsaudit.documents.tolerance import ToleranceFile
    from rmsaudit.model_record import ModelRecord
    from rmsaudit.record import AcceptanceRecord


@click.command(name="gate")
@click.argument("record", type=FILE)
@click.option("--tolerance", type=FILE, required=True, help="Tolerance file to judge by.")
@click.option("--out", type=FILE, help="Write the record with its new verdicts here.")
@output_format
def command(record: Path, tolerance: Path, out: Path | None, output_format: str) -> int:
    """Judge a stored record again. The verdict is the one that compare would have given under the same file.

    \b
    Example: rmsaudit gate record.yaml --tolerance other.yaml
    """
    from datetime import UTC, datetime

    from rmsaudit import categories
    from rmsaudit.documents.record import read_record, refuse_to_overwrite_a_decision, write_record
    from rmsaudit.documents.tolerance import read_tolerance, refuse_inexpressible

    if out is not None:
        refuse_to_overwrite_a_decision(out)
    stored = read_record(record)
    policy = read_tolerance(tolerance, (*categories.names(), categories.REAL_ROWS))
    refuse_inexpressible(policy, {(name, result.output_dtype) for name, result in stored.results.items()})
    judged = _judged(stored, policy, datetime.now(UTC).date())
    if out is not None:
        write_record(out, judged)
    print_record(judged, output_format)
    return exit_code(judged.outcome)


def _judged(
    stored: "AcceptanceRecord | ModelRecord", tolerance: "ToleranceFile", today: "date"
) -> "AcceptanceRecord | ModelRecord":
    from rmsaudit.gate import judge
    from rmsaudit.record import AcceptanceRecord

    if isinstance(stored, AcceptanceRecord):
        from rmsaudit.summary import summarise

        pair = judge(stored, tolerance.policy, digest=tolerance.digest, today=today)
        return pair.model_copy(update={"summary": summarise(pair)})
    from rmsaudit import model_summary

    model = judge(stored, tolerance.policy, digest=tolerance.digest, today=today)
    model = model.model_copy(update={"sites": model_summary.rows_judged_again(model)})
    return model.model_copy(update={"summary": model_summary.summarise(model)})
