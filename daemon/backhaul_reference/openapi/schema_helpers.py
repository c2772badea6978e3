"""Helpers that build JSON schemas of responses."""

from backhaul_reference.platform.json_codec import Document

TEXT: Document = {"type": "string"}
NUMBER: Document = {"type": "integer"}
INSTANT: Document = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
}


def object_of(**members: Document) -> Document:
    """An object that carries every member; others may join them at any time."""
    return {"type": "object", "required": [*members], "properties": members}


def list_of(items: Document) -> Document:
    return {"type": "array", "items": items}


def one_of(*words: str) -> Document:
    return {"type": "string", "enum": [*words]}


def ref(name: str) -> Document:
    return {"$ref": f"#/components/schemas/{name}"}


def enveloped(schema: Document) -> Document:
    return object_of(data=schema)


def paged(schema: Document) -> Document:
    return object_of(data=list_of(schema), meta=ref("PageMeta"))
