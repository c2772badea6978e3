"""Which object a delivery of an unknown topic is about, so that it can be fetched.

A delivery may come without any topic, or under one that the specification does not name
(`orders/edited`). Its signature is right all the same, so something happened to the
object that it names. What happened is not guessed: the object is read by its id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.errors import Unusable
from backhaul.shop.fields import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

Object: TypeAlias = tuple[str, str]
"""Kind and id, as an object is fetched by them."""

_KEYS: Mapping[str, str] = {
    "order": "id",
    "product": "id",
    "customer": "id",
    "level": "productId",
}
_FAMILIES: Mapping[str, str] = {
    "orders": "order",
    "products": "product",
    "customers": "customer",
    "inventory": "level",
}
"""The kind of object by the first part of a topic."""
_SIGNS: Mapping[str, frozenset[str]] = {
    "order": frozenset({"financialStatus", "fulfillmentStatus", "items", "totals"}),
    "level": frozenset({"productId", "levels", "stock", "adjustmentId"}),
    "product": frozenset({"variants", "handle", "title"}),
    "customer": frozenset({"email", "phone", "ordersCount", "totalSpent"}),
}
"""Members that show what kind of object a body is; two of them are enough."""


def named(topic: str, data: Mapping[str, Any]) -> Object | None:
    """Return the object that a delivery names, by its topic or else by its members."""
    kind = _FAMILIES.get(topic.partition("/")[0]) or _shown(data)
    if kind is None:
        return None
    try:
        return kind, identity(data.get(_KEYS[kind]))
    except Unusable:
        return None


def _shown(data: Mapping[str, Any]) -> str | None:
    """Return the only kind that the members of a body fit."""
    fitting = [kind for kind, signs in _SIGNS.items() if len(signs & data.keys()) > 1]
    return fitting[0] if len(fitting) == 1 else None
