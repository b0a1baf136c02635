"""``python -m breakeven.config.document``: schema.json and the key tables of config/README.md, from the models."""

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticUndefined

from breakeven.config.models import (
    Config,
    Criterion,
    Data,
    MeasuredStudy,
    Mlperf,
    MlperfStudy,
    Platform,
    PointsStudy,
    RunSettings,
    Study,
    Sweep,
    WorkloadConfig,
)
from breakeven.schema.files import write_text

TABLES: tuple[type[BaseModel], ...] = (
    Config, Criterion, Mlperf, MeasuredStudy, WorkloadConfig, Data, RunSettings, Sweep, MlperfStudy, PointsStudy,
    Platform,
)  # fmt: skip


def schema() -> dict[str, Any]:
    """One JSON schema whose `$defs` hold every file's model, for editors that complete and check YAML."""
    definitions: dict[str, Any] = {}
    roots: dict[str, Any] = {"Config": Config, "Study": Study, "Platform": Platform, "RunSettings": RunSettings}
    for name, root in roots.items():
        found = TypeAdapter(root).json_schema(ref_template="#/$defs/{model}")
        definitions |= found.pop("$defs", {})
        definitions[name] = found
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Breakeven",
        "$ref": "#/$defs/Config",
        "$defs": dict(sorted(definitions.items())),
    }


def key_table(model: type[BaseModel]) -> str:
    properties = model.model_json_schema()["properties"]
    rows = ["| key | type | default | means |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        means = field.description or ""
        rows.append(f"| `{name}` | {type_words(properties[name])} | {_default(field)} | {means} |")
    return "\n".join(rows)


def type_words(schema: Mapping[str, Any]) -> str:
    """A JSON schema's type as a person would say it."""
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_words(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "$ref" in schema:
        return "keys, see below"
    if schema.get("type") == "array":
        return f"list of {type_words(schema['items'])}"
    words = {"integer": "whole number", "object": "keys", "string": "text", "boolean": "true or false"}
    return words.get(schema.get("type", ""), str(schema.get("type", "any")))


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        made = field.default_factory()
        return "its own" if isinstance(made, BaseModel) else f"`{json.dumps(made)}`"
    return "none" if field.default in (None, "") else f"`{json.dumps(field.default)}`"


def fill(readme: str) -> str:
    """The README with every `<!-- keys: Model -->` ... `<!-- end -->` block replaced by that model's table."""
    tables = {model.__name__: key_table(model) for model in TABLES}

    def replace(match: re.Match[str]) -> str:
        return f"<!-- keys: {match[1]} -->\n{tables[match[1]]}\n<!-- end -->"

    return re.sub(r"<!-- keys: (\w+) -->.*?<!-- end -->", replace, readme, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("config"))
    args = parser.parse_args()
    write_text(args.folder / "schema.json", json.dumps(schema(), indent=1) + "\n")
    readme = args.folder / "README.md"
    write_text(readme, fill(readme.read_text()))


if __name__ == "__main__":
    main()
