"""rmsaudit gate: a stored record, judged again under other limits, without running anything."""

from pathlib import Path

import click

from rmsaudit.cli._options import FILE, exit_code, output_format, print_record


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
    from rmsaudit.gate import judge
    from rmsaudit.summary import summarise

    if out is not None:
        refuse_to_overwrite_a_decision(out)
    stored = read_record(record)
    policy = read_tolerance(tolerance, categories.names())
    refuse_inexpressible(policy, {(name, result.output_dtype) for name, result in stored.results.items()})
    judged = judge(stored, policy.policy, digest=policy.digest, today=datetime.now(UTC).date())
    judged = judged.model_copy(update={"summary": summarise(judged)})
    if out is not None:
        write_record(out, judged)
    print_record(judged, output_format)
    return exit_code(judged.outcome)
