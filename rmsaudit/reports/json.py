"""json: the record for other programs; the same keys in the same order as the YAML."""

from rmsaudit.record import AcceptanceRecord
from rmsaudit.reports import Style


def render(record: AcceptanceRecord, style: Style) -> str:  # noqa: ARG001  JSON has no style
    """The record as indented JSON text."""
    return record.model_dump_json(by_alias=True, indent=2) + "\n"
