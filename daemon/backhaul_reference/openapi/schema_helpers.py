"""Helpers that build JSON schemas of responses."""

from backhaul_reference.platform.json_codec import Document

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}
COUNT: Document = {"type": "integer", "minimum": 0}
FLAG: Document = {"type": "boolean"}
MONEY: Document = {
    "type": "string",
    "pattern": r"^-?[0-9]+(\.[0-9]{1,3})?$",
    "description": "A decimal with the fraction digits of the store's currency.",
}
INSTANT: Document = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
}
WORDS: Document = {"type": "array", "items": TEXT}
BY_NAME: Document = {"type": "object", "additionalProperties": TEXT}
YES: Document = {"type": "boolean", "const": True}


def object_of(**members: Document) -> Document:
    """An object that carries every member; others may join them at any time."""
    return {"type": "object", "required": [*members], "properties": members}


def extended(schema: Document, **members: Document) -> Document:
    """An object with more members than another."""
    return object_of(**schema["properties"], **members)


def list_of(items: Document) -> Document:
    return {"type": "array", "items": items}


def one_of(*words: str) -> Document:
    return {"type": "string", "enum": [*words]}


def nullable(schema: Document) -> Document:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    found = {**schema, "type": [schema["type"], "null"]}
    return found | {"enum": [*schema["enum"], None]} if "enum" in schema else found


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def enveloped(schema: Document) -> Document:
    return object_of(data=schema)


def paged(schema: Document) -> Document:
    return object_of(data=list_of(schema), meta=ref("Meta"))
