"""Renderings of a record, one file per format, found by its name: `render(record, style) -> str`.

A rendering reads the record and nothing else, and ends in a newline.
"""

from dataclasses import dataclass

FORMATS = ("text", "yaml", "json")


@dataclass(frozen=True, kw_only=True)
class Style:
    """How text may look: with ANSI colour or without, and how wide."""

    color: bool = False
    width: int = 110
