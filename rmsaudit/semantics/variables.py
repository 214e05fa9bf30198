"""What a variable is: one field of a `NormSpec` that can differ between two implementations.

A variable is declared once, as a field of its stage. The YAML reader, the JSON Schema, the ladder, the record and the
docs table are derived from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["integer", "number", "flag", "word", "dtype", "axes", "order"]

TOKENS = {
    "input": "input_dtype",
    "gain": "gain_dtype",
    "compute": "compute_dtype",
    "accumulate": "accumulate_dtype",
    "statistic": "statistic_dtype",
    "normalized": "normalized_dtype",
    "product": "gain_product_dtype",
}
"""Words a dtype variable takes beside a dtype itself: the resolved dtype of another variable."""

PROMOTE = "promote"  # the promoted dtype of input and gain
OPERANDS = "operands"  # the promoted dtype of the two operands of this very operation


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable's name, stage, meaning and the values it takes.

    words: for kind "word", all of them; for other kinds, the words allowed instead of a number or a dtype.
    default: as it would be written in YAML; None stands for "must be given".
    """

    name: str
    stage: str
    kind: Kind
    means: str
    default: Any
    words: tuple[str, ...] = ()


def variable(means: str, kind: Kind, *, default: Any, words: tuple[str, ...] = (), initial: Any = None) -> Any:
    """A dataclass field that is a variable. `initial` is the spec's value where `default` is only a word to resolve."""
    return field(
        default=default if initial is None else initial,
        metadata={"means": means, "kind": kind, "default": default, "words": words},
    )


def read_field(name: str, stage: str, metadata: Mapping[str, Any]) -> Variable:
    """The variable that a field made by `variable` stands for."""
    return Variable(
        name=name,
        stage=stage,
        kind=metadata["kind"],
        means=metadata["means"],
        default=metadata["default"],
        words=metadata["words"],
    )
