"""yaml: the record as `--out` writes it."""

from typing import TYPE_CHECKING

from rmsaudit.documents.record import to_text
from rmsaudit.reports import Style

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord
    from rmsaudit.record import AcceptanceRecord


def render(record: "AcceptanceRecord | ModelRecord", style: Style) -> str:  # noqa: ARG001  YAML has no style
    """The record as YAML text."""
    return to_text(record)
