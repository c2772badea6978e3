"""Extracts searchable text and keeps the search index current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger

from backhaul.core import strict_json
from backhaul.errors import Unusable
from backhaul.runtime.loop import Loop
from backhaul.store.read_models import SearchText

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.core.clock import Clock
    from backhaul.store.read_models import SearchIndex
    from backhaul.store.read_records import TimelineEntry


_TITLES = {"order": "name", "product": "title", "customer": "name"}
_SEARCHED = frozenset(
    {
        *("name", "firstName", "lastName", "company", "email", "phone"),
        *("address1", "address2", "city", "province", "zip"),
        *("number", "externalId", "note", "tags", "discountCode"),
        *("trackingNumber", "trackingCompany", "transactionId"),
        *("title", "variantTitle", "sku", "barcode", "handle", "vendor"),
    }
)
_SUMMARIZED = {
    "orders": {
        "status": "status",
        "financialStatus": "payment",
        "fulfillmentStatus": "fulfillment",
    },
    "products": {"status": "status"},
    "inventory": {"reason": "reason", "stock": "stock"},
}
"""The members of a body that its summary has, by the first part of the topic."""


def describe(kind: str, document: str) -> SearchText:
    """Return what an object can be found by."""
    tree = msgspec.json.decode(document)
    title = tree.get(_TITLES[kind]) or tree.get("number") or tree.get("email") or ""
    # Each word once: an order of ten shirts is not ten times as much about shirts.
    words = dict.fromkeys(_words(tree, is_searched=False))
    return SearchText(str(title), "\n".join(words))


def detail_of(entry: TimelineEntry) -> str:
    """Return an entry's detail; an event's begins with a summary of its body."""
    summary = _summary(entry.name or "", entry.body) if entry.body else ""
    detail = (entry.detail or "").removeprefix("; ")
    return "; ".join(part for part in (summary, detail) if part)


def _summary(topic: str, body: bytes) -> str:
    try:
        document = strict_json.decode_object(body)
    except Unusable:
        return ""
    inner = document.get("data")
    data = inner if isinstance(inner, dict) else document
    family = topic.partition("/")[0]
    return ", ".join(
        f"{label} {value}"
        for name, label in _SUMMARIZED.get(family, {}).items()
        if isinstance(value := data.get(name), str | int)
    )


def _words(node: Any, *, is_searched: bool) -> Iterator[str]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from _words(inner, is_searched=name in _SEARCHED)
    elif isinstance(node, list):
        for inner in node:
            yield from _words(inner, is_searched=is_searched)
    elif is_searched and isinstance(node, str | int):
        yield str(node)


SLICE_SECONDS = 0.005
YIELD_SECONDS = 0.25
"""Rest between two slices while events wait to be folded: a fiftieth of the time."""


class Indexer:
    """Indexes what changed, then waits to be woken."""

    def __init__(self, index: SearchIndex, clock: Clock) -> None:
        self._index = index
        self._clock = clock
        self._loop = Loop(clock, _log_busy)

    def wake(self) -> None:
        """Tell that the mirror has changed."""
        self._loop.wake()

    async def run(self) -> None:
        """Index for ever. Cancel to stop: a slice is whole or not at all."""
        await self._loop.run(self._index_changes)

    async def _index_changes(self) -> None:
        while (step := await self._index.follow(describe, SLICE_SECONDS)).more:
            if step.folding:
                await self._clock.sleep(YIELD_SECONDS)


def _log_busy(error: Exception) -> None:
    logger.bind(action="search.busy").warning("{}", error)
