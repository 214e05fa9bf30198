"""JSON Schemas of the documents, for editors and for other languages; nothing at run time reads them.

`python -m rmsaudit.documents.schema DIR` writes one file per document type, `--check` compares.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from rmsaudit.documents.implementation import implementation_model
from rmsaudit.documents.preset import preset_model

DIALECT = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: dict[str, Callable[[], type[BaseModel]]] = {
    "implementation": implementation_model,
    "preset": preset_model,
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


@click.command(name="schema")
@click.option("--check", is_flag=True, help="Compare with what is there, and write nothing.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.pass_context
def main(context: click.Context, check: bool, folder: Path) -> None:
    """Write the JSON Schema of every document type into FOLDER. With --check, exit 1 where one differs."""
    stale = False
    for name, text in schemas().items():
        path = folder / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale = True
        if not check:
            path.write_text(text, encoding="utf-8")
        click.echo(f"{path}: {'differs from the models; run without --check' if check else 'written'}")
    context.exit(int(check and stale))


if __name__ == "__main__":
    main()
