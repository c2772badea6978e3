"""The JSON Schema of the configuration, with which editors complete and check it.

It says less than `check-config`: rules between settings, and what a URL or a path must
look like, are no part of it. Values that come from the environment cannot be known to
an editor, so no secret is required.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.connect import registry
from backhaul.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Set

    from pydantic import BaseModel

    from backhaul_sdk import Spec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "Configuration of Backhaul"
_FROM_FILE = "File that contains the value of `{}`."


def configuration_schema() -> dict[str, Any]:
    """Return the schema of `backhaul.toml`, with every installed connector."""
    schema = _schema_of(Settings, "")
    definitions = schema.pop("$defs")
    connection = definitions["Connector"]
    kinds = []
    for name, connector in registry.importable().items():
        options = _options_of(name, connector.spec)
        definitions |= options.pop("$defs", {})
        properties = options["properties"] | connection["properties"]
        # A preset gives what is required otherwise.
        required = () if "preset" in properties else options.get("required", ())
        kinds.append(
            {
                "if": {
                    "properties": {"type": {"const": name}},
                    "required": ["type"],
                },
                "then": {
                    "properties": properties,
                    "required": list(required),
                    "additionalProperties": False,
                },
            }
        )
    # A connector that is not installed here, or lacks a library, may have any settings.
    connection |= {"required": ["type"], "additionalProperties": True, "allOf": kinds}
    return {"$schema": DIALECT, "title": TITLE, **schema, "$defs": definitions}


def _options_of(type_name: str, spec: Spec) -> dict[str, Any]:
    schema = _schema_of(spec.settings, f"{type_name}.")
    _let_files_give(schema, spec.secret_fields)
    return schema


def _schema_of(model: type[BaseModel], prefix: str) -> dict[str, Any]:
    """Return a model's schema, its definitions under names that begin with `prefix`."""
    template = f"#/$defs/{prefix}{{model}}"
    schema = model.model_json_schema(ref_template=template)
    definitions = schema.get("$defs", {})
    schema["$defs"] = {f"{prefix}{name}": each for name, each in definitions.items()}
    for table in _tables(schema):
        table.pop("title", None)
        for option in table.get("properties", {}).values():
            option.pop("title", None)
            # It is the parsed value, such as seconds, and not what a person writes.
            option.pop("default", None)
        options = table.get("properties", {})
        _let_files_give(table, {name for name in options if _hides(options[name])})
    return schema


def _tables(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    yield from schema["$defs"].values()


def _hides(option: Any) -> bool:
    """Return whether a value in an option is a secret, also within a list."""
    if isinstance(option, dict):
        return bool(option.get("writeOnly")) or any(map(_hides, option.values()))
    return isinstance(option, list) and any(map(_hides, option))


def _let_files_give(table: dict[str, Any], names: Set[str]) -> None:
    """Allow `NAME_file` for each secret; then the secret itself is not required."""
    for name in sorted(names):
        file = {"type": "string", "description": _FROM_FILE.format(name)}
        table["properties"].setdefault(f"{name}_file", file)
    if required := table.get("required"):
        table["required"] = [name for name in required if name not in names]
