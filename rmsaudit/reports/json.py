"""json: the record for other programs; the same keys in the same order as the YAML."""

from typing import TYPE_CHECKING

from rmsaudit.reports import Style

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord
    from rmsaudit.record import AcceptanceRecord


def render(record: "AcceptanceRecord | ModelRecord", style: Style) -> str:  # noqa: ARG001  JSON has no style
    """The record as indented JSON text."""
    return record.model_dump_json(by_alias=True, indent=2) + "\n"
