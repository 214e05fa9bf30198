"""yaml: the record as `--out` writes it."""

from rmsaudit.documents.record import to_text
from rmsaudit.record import AcceptanceRecord
from rmsaudit.reports import Style


def render(record: AcceptanceRecord, style: Style) -> str:  # noqa: ARG001  YAML has no style
    """The record as YAML text."""
    return to_text(record)
