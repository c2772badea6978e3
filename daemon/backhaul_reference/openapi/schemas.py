"""JSON schemas of the response models, made from their types."""

from typing import Any, is_typeddict

import msgspec

from backhaul_reference.openapi.schema_helpers import ref
from backhaul_reference.platform import models, order_models
from backhaul_reference.platform.json_codec import Document


def _types() -> list[Any]:
    found = [*vars(models).values(), *vars(order_models).values()]
    return [one for one in dict.fromkeys(map(_hashable, found)) if is_typeddict(one)]


def _hashable(value: Any) -> Any:
    return value if isinstance(value, type) else None


def components() -> Document:
    """Every response model's schema, by the name of its type."""
    template = ref("{name}")["$ref"]
    _, made = msgspec.json.schema_components(_types(), ref_template=template)
    for schema in made.values():
        del schema["title"]
    # msgspec reads no union of two objects, and gives a name to classes only.
    quote = {"oneOf": [ref("Quote"), ref("NoQuote")]}
    menus = {"type": "object", "additionalProperties": ref("Menu")}
    return {**made, "ShippingQuote": quote, "Menus": menus}
