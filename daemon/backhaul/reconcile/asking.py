"""Asking the platform for one object that a walk over its list did not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.core import strict_json
from backhaul.reconcile.kinds import PRODUCTS
from backhaul.shop import objects, wire
from backhaul.shop.client import ReadRefused

if TYPE_CHECKING:
    from backhaul.core.budget import Priority
    from backhaul.errors import Unusable
    from backhaul.reconcile.kinds import Kind
    from backhaul.shop.client import ShopClient

CLOSED = frozenset({401, 429})
"""Answers that tell of the key or the load, and so of no single object."""


class Asked(Struct, frozen=True):
    """What the platform says of one object.

    `parent` is the list that was asked: levels are asked for by their product. `body`
    is what it holds, None where that is gone as well.
    """

    is_gone: bool
    parent: Kind
    body: bytes | None


async def ask(
    client: ShopClient, kind: Kind, id_: str, asked: str, priority: Priority
) -> Asked:
    """Ask for the object of an id by the id `asked`. Raises Unusable."""
    parent = PRODUCTS if kind.singular == "level" else kind
    answer = await client.find(parent.path, asked, priority)
    if answer is None:
        return Asked(is_gone=True, parent=parent, body=None)
    body = objects.read(answer, asked)
    is_there = parent is kind or id_ in wire.variant_ids(
        strict_json.decode_object(body)
    )
    return Asked(not is_there, parent, body)


def is_about_all(error: Unusable) -> bool:
    """Tell whether a refusal would meet every other object as well."""
    return isinstance(error, ReadRefused) and error.status in CLOSED
