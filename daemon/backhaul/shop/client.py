"""Typed calls to one store's API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.errors import Unusable
from backhaul.shop import wire
from backhaul.shop.transport import Answer, InDoubt, NotSent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from backhaul.shop.transport import Transport

PAGE_ROWS = 100
LISTS = ("/orders", "/products", "/inventory")
"""Lists that any useful key can read at least one of."""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What the platform says about the store; empty where it says nothing."""

    store_id: str = ""
    currency: str = ""


class ReadRefused(Unusable):
    """A read was answered, but not with what was asked for."""

    def __init__(self, path: str, answer: Answer) -> None:
        self.status = answer.status
        super().__init__(f"GET {path} was answered {answer.said()}")


class ShopClient:
    """Reads of one store. Each may raise NotSent, InDoubt, ReadRefused or Unusable."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def facts(self) -> StoreFacts:
        """Read the store's own record; platforms without one say nothing."""
        answer = await self.answer_of("/store")
        if answer.status == 429 or answer.status >= 500:
            raise ReadRefused("/store", answer)
        if not answer.ok:
            return StoreFacts()
        data = wire.resource(answer.json())
        return StoreFacts(str(data.get("id") or ""), str(data.get("currency") or ""))

    async def read(self, path: str) -> dict[str, Any]:
        """Read one object."""
        return wire.resource((await self._get(path, {})).json())

    async def answer_of(self, path: str) -> Answer:
        """Read an object or the first rows of a list, whatever the answer."""
        return await self._transport.get(path, {"limit": 1} if path in LISTS else {})

    async def pages(self, path: str) -> AsyncIterator[list[bytes]]:
        """Yield a list page by page, each row as its own exact JSON bytes.

        Ends at an empty page or at one without a new row: a platform may ignore `page`.
        """
        seen: set[bytes] = set()
        for number in range(1, 1_000_000):
            params = {"page": number, "limit": PAGE_ROWS}
            page = _raw_rows(await self._get(path, params))
            fresh = [row for row in page if row not in seen]
            if not fresh:
                return
            yield fresh
            seen = set(page)

    async def opens(self) -> bool:
        """Tell whether any list can be read: the store's door is open."""
        for path in LISTS:
            try:
                answer = await self.answer_of(path)
                wire.rows(answer.json())
            except (Unusable, NotSent, InDoubt):
                continue
            if answer.ok:
                return True
        return False

    async def _get(self, path: str, params: Mapping[str, str | int]) -> Answer:
        answer = await self._transport.get(path, params)
        if not answer.ok:
            raise ReadRefused(path, answer)
        return answer


def _raw_rows(answer: Answer) -> list[bytes]:
    """Return the bytes of each row; a list may be wrapped in `data` or bare."""
    wire.rows(answer.json())
    try:
        wrapped = msgspec.json.decode(answer.body, type=dict[str, msgspec.Raw])
        raw: bytes | msgspec.Raw = wrapped["data"]
    except msgspec.ValidationError:
        raw = answer.body
    return [bytes(row) for row in msgspec.json.decode(raw, type=list[msgspec.Raw])]
