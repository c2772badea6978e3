"""Typed calls to one store's API."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct

from backhaul.core.rate_limit import Priority
from backhaul.errors import Unusable
from backhaul.platform import decoding, responses
from backhaul.platform.transport import (
    NotSent,
    OutcomeUnknown,
    ResponseTooLong,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.platform.responses import Listing, Response
    from backhaul.platform.transport import Transport

PAGE_ROWS = 100
LISTS = ("/orders", "/products", "/inventory")
"""Lists that any useful key can read at least one of."""
_FEWER = {100: 50, 50: 25, 25: 5, 5: 1}
"""Smaller page size to request when a page is too long."""
_NO_IDS = frozenset({"", ".", ".."})
"""In a URL these name the list itself, or its parent."""


class StoreFacts(Struct, frozen=True):
    """What the platform says about the store; empty members if it says nothing.

    `tracking` names the members for a parcel's carrier and number; it is configured.
    """

    store_id: str = ""
    currency: str = ""
    features: tuple[str, ...] = ()
    tracking: decoding.Tracking = decoding.TRACKING


NOT_OFFERED = frozenset({403, 404, 405})
"""Statuses of a list that the key or the platform does not offer."""


class ReadRefused(Unusable):
    """The platform answered a read, but not with the requested object."""

    def __init__(self, path: str, answer: Response) -> None:
        self.status = answer.status
        super().__init__(f"the platform answered GET {path} with {answer.said()}")


class PlatformClient:
    """Reads one store. Calls raise NotSent, OutcomeUnknown, ReadRefused or Unusable."""

    def __init__(
        self, transport: Transport, tracking: decoding.Tracking = decoding.TRACKING
    ) -> None:
        self.transport = transport
        self.tracking = tracking

    @property
    def key_fingerprint(self) -> str:
        """A fingerprint of the API key in use."""
        return self.transport.key_fingerprint

    async def facts(self, priority: Priority = Priority.REREAD) -> StoreFacts:
        """Read the store's own record; empty if the platform has none."""
        answer = await self.answer_of("/store", priority)
        if answer.status == 429 or answer.status >= 500:
            raise ReadRefused("/store", answer)
        if not answer.ok:
            return StoreFacts(tracking=self.tracking)
        data = decoding.resource(answer.json())
        features = data.get("features")
        return StoreFacts(
            str(data.get("id") or ""),
            str(data.get("currency") or ""),
            tuple(map(str, features)) if isinstance(features, list) else (),
            self.tracking,
        )

    async def read(self, path: str) -> dict[str, Any]:
        """Read one object."""
        return decoding.resource((await self._get(path, {})).json())

    async def ask(
        self, path: str, object_id: str, priority: Priority = Priority.REREAD
    ) -> Response:
        """Request one object of a list and return any response."""
        return await self.answer_of(_object_path(path, object_id), priority)

    async def find(
        self, path: str, object_id: str, priority: Priority = Priority.REREAD
    ) -> Response | None:
        """Read one object of a list; None if it was deleted.

        An object counts as deleted if it is not found while its list can be read.
        """
        answer = await self.ask(path, object_id, priority)
        if answer.ok:
            return answer
        if answer.status == 404 and (await self.answer_of(path, priority)).ok:
            return None
        raise ReadRefused(_object_path(path, object_id), answer)

    async def answer_of(
        self, path: str, priority: Priority = Priority.REREAD
    ) -> Response:
        """Read an object or the first row of a list and return any response."""
        params = {"limit": 1} if path in LISTS else {}
        return await self.transport.get(path, params, priority)

    async def page(
        self,
        path: str,
        number: int,
        priority: Priority,
        filters: Mapping[str, str | int] = MappingProxyType({}),
    ) -> Listing:
        """Read one page of a list, each row as its own exact JSON bytes.

        A page that is too long for one response is read in parts.
        """
        params = {"page": number, "limit": PAGE_ROWS, **filters}
        try:
            return responses.read_page(await self._get(path, params, priority))
        except ResponseTooLong:
            rows = int(params["limit"])
            if rows not in _FEWER:
                raise
        return await self._parts(path, number, priority, filters, rows)

    async def _parts(
        self,
        path: str,
        number: int,
        priority: Priority,
        filters: Mapping[str, str | int],
        rows: int,
    ) -> Listing:
        fewer = {**filters, "limit": _FEWER[rows]}
        count = rows // _FEWER[rows]
        parts: list[Listing] = []
        for part in range(count * (number - 1) + 1, count * number + 1):
            parts.append(await self.page(path, part, priority, fewer))
            if not parts[-1].rows or parts[-1].has_more is False:
                break
        return responses.joined(parts)

    async def opens(self) -> bool:
        """Return True if any list can be read: the key and the address work."""
        for path in LISTS:
            try:
                answer = await self.answer_of(path)
            except (NotSent, OutcomeUnknown):
                continue
            if answer.ok and _is_list(answer):
                return True
        return False

    async def probe(self) -> bool:
        """Return True if any list can be read.

        Stops after one read if the platform fails or its rate limit is reached.
        """
        for path in LISTS:
            try:
                answer = await self.transport.probe(path, {"limit": 1})
            except (NotSent, OutcomeUnknown):
                return False
            if answer.status == 429 or answer.status >= 500:
                return False
            if answer.ok and _is_list(answer):
                return True
        return False

    async def _get(
        self,
        path: str,
        params: Mapping[str, str | int],
        priority: Priority = Priority.REREAD,
    ) -> Response:
        answer = await self.transport.get(path, params, priority)
        if not answer.ok:
            raise ReadRefused(path, answer)
        return answer


def _is_list(answer: Response) -> bool:
    try:
        decoding.rows(answer.json())
    except Unusable:
        return False
    return True


def _object_path(path: str, object_id: str) -> str:
    """Return an object's path; an id cannot change the list. Raises Unusable."""
    if object_id in _NO_IDS:
        raise Unusable(
            f"the object's id {object_id!r} cannot be part of the URL {path}"
        )
    return f"{path}/{quote(object_id, safe='')}"
