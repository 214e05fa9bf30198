"""JSON Schemas of the documents, for editors and for other languages; nothing at run time reads them.

`python .ci/generated.py` writes them into `schemas/`, and its `--check` compares.
"""

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rmsaudit.documents.implementation import implementation_model
from rmsaudit.documents.preset import preset_model
from rmsaudit.model_record import ModelRecord
from rmsaudit.record import AcceptanceRecord
from rmsaudit.tolerance import Policy

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: dict[str, Callable[[], type[BaseModel]]] = {
    "implementation": implementation_model,
    "preset": preset_model,
    "tolerance": lambda: Policy,
    "record": lambda: AcceptanceRecord,
    "model-record": lambda: ModelRecord,
}


class _Generator(GenerateJsonSchema):
    """pydantic's generator without what says nothing: titles made from keys, and null as the default of absence."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  pydantic's signature
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        generated = super().default_schema(schema)
        if generated.get("default", "") is None:
            del generated["default"]
        return generated


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a document type."""
    return {"$schema": DIALECT, **model.model_json_schema(schema_generator=_Generator)}


def schemas() -> dict[str, str]:
    """Every file that is checked in, name to text."""
    return {
        f"{name}.schema.json": json.dumps(schema_of(model()), indent=2, ensure_ascii=False) + "\n"
        for name, model in DOCUMENTS.items()
    }
