"""The record as stable YAML text, and back.

Fixed key order, one line for every small mapping, no clock and no path in it. Floats are shortest round-trip decimals
with a dot and a signed exponent, which every YAML version reads as floats; strings that YAML 1.2 would read as numbers
are quoted.
"""

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rmsaudit.documents.binding import read_model
from rmsaudit.documents.nodes import Scalar
from rmsaudit.documents.scalars import NULLS
from rmsaudit.documents.source import read_source
from rmsaudit.documents.writing import write_beside_and_rename
from rmsaudit.errors import InputProblem, Problem
from rmsaudit.record import SCHEMA, AcceptanceRecord, plain

if TYPE_CHECKING:
    from rmsaudit.model_record import ModelRecord

_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
HEADER = "# yaml-language-server: $schema={schema}\n"
SCHEMAS = "https://raw.githubusercontent.com/rmsaudit/rmsaudit/main/schemas"
MODEL_SCHEMA = "rmsaudit/model-record/1"  # `model_record.SCHEMA`, whose module is imported only where such a record is
LINE = 120
DETAIL = 2  # levels below which a mapping may run over several lines
LONGEST_KEY = 18  # of those that stand before a mapping
_LOOKS_LIKE_A_NUMBER = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")


def to_text(record: "AcceptanceRecord | ModelRecord") -> str:
    """The record as YAML, ending in a newline."""
    node = _Dumper(StringIO(), sort_keys=False).represent_data(plain(record))
    _lay_out(node, depth=0)
    if record.schema_ == MODEL_SCHEMA:
        _run_on_where_nothing_differs(node)
    body = yaml.serialize(node, Dumper=_Dumper, width=LINE, allow_unicode=True)
    kind = record.schema_.split("/")[1]
    return HEADER.format(schema=f"{SCHEMAS}/{kind}.schema.json") + body


def read_record(path: Path) -> "AcceptanceRecord | ModelRecord":
    """The record in a file, of a pair or of a model. Raises InputProblem with every problem."""
    tree = read_source(path)
    schema = tree.at("schema")
    if isinstance(schema, Scalar) and schema.text.startswith(MODEL_SCHEMA.rstrip("1")):  # of another version: told so
        from rmsaudit.model_record import ModelRecord

        return read_model(ModelRecord, tree)
    return read_model(AcceptanceRecord, tree)


def write_record(path: Path, record: "AcceptanceRecord | ModelRecord") -> None:
    """Writes beside and renames, so that a reader sees the old file or the new one, never half of one."""
    write_beside_and_rename(path, to_text(record))


def refuse_to_overwrite_a_decision(path: Path) -> None:
    """Raises InputProblem where `path` holds something that must not be lost: a reviewed record, or no record at
    all."""
    if not path.exists():
        return
    try:
        tree = read_source(path)
        schema, decision = tree.at("schema"), tree.at("review", "decision")
    except InputProblem:
        schema = decision = None
    if not (isinstance(schema, Scalar) and schema.text in (SCHEMA, MODEL_SCHEMA)):
        says = "this file is no record, and is not overwritten; move it away, or give another --out"
        raise InputProblem([Problem(path=str(path), says=says, kind="not-a-record")])
    if isinstance(decision, Scalar) and decision.text not in NULLS:
        says = f"this record has been reviewed (decision: {decision.text}) and is not overwritten; give another --out"
        raise InputProblem([Problem(path=str(path), says=says, kind="reviewed-record")])


class _Dumper(_SafeDumper):  # type: ignore[misc]  # one of two classes, chosen by what the wheel has
    """PyYAML's safe dumper, in C where the wheel has it, with our numbers and strings."""

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


def _lay_out(node: yaml.Node, depth: int, *, in_list: bool = False) -> bool:
    """Sets flow style on what is short, and on lists, list items and details without long text. Returns whether it
    did."""
    if not isinstance(node, yaml.CollectionNode):
        return not (isinstance(node, yaml.ScalarNode) and node.style == ">")
    listing = isinstance(node, yaml.SequenceNode)
    children = node.value if listing else [value for _, value in node.value]
    flat = [_lay_out(child, depth + 1, in_list=listing) for child in children]
    fits = _flow_length(node) + 2 * depth + LONGEST_KEY <= LINE
    plain_inside = not any(isinstance(child, yaml.MappingNode) for child in children)
    wraps = plain_inside and (listing or in_list or depth > DETAIL)
    node.flow_style = depth > 0 and all(flat) and (fits or wraps)
    return node.flow_style


def _run_on_where_nothing_differs(record: yaml.Node) -> None:
    """Sets flow style on the results of categories without a difference: a model that is the same stays short."""
    results = dict(_entries(record)).get("results")
    for _, result in [] if results is None else _entries(results):
        values = dict(_entries(result))
        if values["differing_share"].value == float_text(0.0) and not any(
            isinstance(value, yaml.ScalarNode) and value.style == ">" for value in values.values()
        ):
            result.flow_style = True


def _entries(mapping: yaml.Node) -> list[tuple[str, Any]]:
    return [(key.value, value) for key, value in mapping.value]


def _flow_length(node: yaml.Node) -> int:
    """About how many characters the node takes on one line."""
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + (2 if node.style or ": " in node.value else 0)
    if isinstance(node, yaml.MappingNode):
        return sum(_flow_length(k) + _flow_length(v) + 4 for k, v in node.value)
    return sum(_flow_length(item) + 2 for item in node.value)
