"""The record as stable YAML text, and back.

Fixed key order, one line for every small mapping, no clock and no path in it. Floats are shortest round-trip decimals
with a dot and a signed exponent, which every YAML version reads as floats; strings that YAML 1.2 would read as numbers
are quoted.
"""

import re
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.source import read_source
from rmsaudit.documents.writing import write_beside_and_rename
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.record import AcceptanceRecord, plain

HEADER = "# yaml-language-server: $schema={schema}\n"
SCHEMA_URL = "https://raw.githubusercontent.com/rmsaudit/rmsaudit/main/schemas/record.schema.json"
LINE = 120
_LOOKS_LIKE_A_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")


def to_text(record: AcceptanceRecord) -> str:
    """The record as YAML, ending in a newline."""
    node = _Dumper(StringIO()).represent_data(plain(record))
    _lay_out(node, depth=0)
    body = yaml.serialize(node, Dumper=_Dumper, width=LINE, allow_unicode=True)
    return HEADER.format(schema=SCHEMA_URL) + body


def read_record(path: Path) -> AcceptanceRecord:
    """The record in a file. Raises InputProblem with every problem."""
    return read_model(AcceptanceRecord, read_source(path))


def write_record(path: Path, record: AcceptanceRecord) -> None:
    """Writes beside and renames, so that a reader sees the old file or the new one, never half of one."""
    write_beside_and_rename(path, to_text(record))


def refuse_to_overwrite_a_decision(path: Path) -> None:
    """Raises InputProblem where `path` holds something that must not be lost: a reviewed record, or no record at
    all."""
    if not path.exists():
        return
    decision = read_record(path).review.decision
    if decision is not None:
        says = f"this record has been reviewed (decision: {decision}) and is not overwritten; give another --out"
        raise InputProblem([Problem(path=str(path), says=says, kind="reviewed-record")])


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper with our numbers and strings."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  a record repeats values, it has no references
        return True


def _represent_float(dumper: yaml.SafeDumper, value: float) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:float", float_text(value))


def _represent_text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    style = None
    if _LOOKS_LIKE_A_NUMBER.fullmatch(value):
        style = "'"
    elif len(value) > LINE - 20:
        style = ">"
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(float, _represent_float)
_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(tuple, yaml.SafeDumper.represent_list)


def float_text(value: float) -> str:
    """Shortest decimal that reads back as `value`, as YAML 1.1 and 1.2 both read floats: 1.0e-05, 0.5, -3.0."""
    text = repr(float(value))
    mantissa, e, exponent = text.partition("e")
    if not e:
        return text if "." in text or "n" in text else text + ".0"
    if "." not in mantissa:
        mantissa += ".0"
    sign = exponent[0] if exponent[0] in "+-" else "+"
    return f"{mantissa}e{sign}{exponent.lstrip('+-'):0>2}"


def _lay_out(node: yaml.Node, depth: int) -> bool:
    """Sets flow style on every collection that fits on one line and holds no long text. Returns whether it is flat."""
    if not isinstance(node, yaml.CollectionNode):
        return not (isinstance(node, yaml.ScalarNode) and node.style == ">")
    children = [v for pair in node.value for v in pair[1:]] if isinstance(node, yaml.MappingNode) else node.value
    flat = all(list(map(partial(_lay_out, depth=depth + 1), children)))  # every child is laid out, also after a no
    fits = not node.value or _flow_length(node) + 2 * depth + 24 <= LINE
    node.flow_style = depth > 0 and flat and fits
    return node.flow_style


def _flow_length(node: yaml.Node) -> int:
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 2
    if isinstance(node, yaml.MappingNode):
        return 2 + sum(_flow_length(k) + _flow_length(v) + 2 for k, v in node.value)
    return 2 + sum(_flow_length(item) for item in node.value)
