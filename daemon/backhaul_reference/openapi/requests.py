"""Schemas of request bodies, taken from the models that validate them."""

from typing import Any

from backhaul_reference.documents import Document
from backhaul_reference.web.bodies import Body


def request_schema(
    body: type[Body], prefix: str, schemas: Document, *, keep_defaults: bool
) -> Document:
    """The body's schema; what it refers to goes to the components, prefixed."""
    template = f"#/components/schemas/{prefix}.{{model}}"
    schema: Document = body.model_json_schema(ref_template=template)
    _drop_defaults(schema, keep=keep_defaults)
    _drop_titles(schema)
    for name, part in schema.pop("$defs", {}).items():
        schemas[f"{prefix}.{name}"] = part
    return schema


def _drop_defaults(node: Any, *, keep: bool) -> None:
    """What stands for "not sent" inside is no default to publish."""
    if isinstance(node, dict):
        if "default" in node and not (keep and node["default"] is not None):
            del node["default"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        _drop_defaults(child, keep=keep)


def _drop_titles(node: Any) -> None:
    """Generators name classes by titles, and models of several bodies share one."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        _drop_titles(child)
