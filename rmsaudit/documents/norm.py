"""The `norm:` section: a pydantic model with one optional key per variable, derived from `semantics.variables()`."""

from dataclasses import fields
from functools import cache, partial
from re import fullmatch
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, WithJsonSchema, create_model

from rmsaudit.documents import scalars
from rmsaudit.documents.binding import ReadBy
from rmsaudit.documents.eps import EpsPlace
from rmsaudit.documents.nodes import Node, Scalar, Sequence
from rmsaudit.documents.problems import Refused, did_you_mean, quoted
from rmsaudit.formats import ALIASES, FORMATS, canonical
from rmsaudit.semantics import NormSpec, variables
from rmsaudit.semantics.statistic import ORDERS, ORDERS_WITH_A_NUMBER
from rmsaudit.semantics.variables import Variable
from rmsaudit.tolerance import Part

ABOVE_ZERO = frozenset({"eps", "eps_min", "input_clamp", "output_clamp"})  # other numbers may have either sign
AXES = ((-1,), (-2,), (-2, -1))


class NormSection(Part):
    """The variables of one RMSNorm, flat. A key that is left out keeps the preset's value, or the default."""

    def declared(self) -> dict[str, Any]:
        """What was written, in stage order; dtypes by their full name, words that name another variable as they are."""
        return {name: getattr(self, name) for name in variables() if name in self.model_fields_set}


@cache
def norm_section() -> type[NormSection]:
    """As an implementation file has it: eps is a number or where to read it."""
    return _section("NormOfImplementation", _eps() | EpsPlace)


@cache
def preset_section() -> type[NormSection]:
    """As a preset has it: eps is a number, or null for torch's None."""
    return _section("NormOfPreset", _eps() | None)


def _section(name: str, eps: Any) -> type[NormSection]:
    keys = {v.name: (eps if v.name == "eps" else _annotation(v), _field(v)) for v in variables().values()}
    return create_model(name, __base__=NormSection, __doc__=NormSection.__doc__, **keys)
