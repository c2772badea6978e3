"""Reads the lists of a system page by page, and sends it the store's news."""

from __future__ import annotations

import time
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from backhaul_connectors.http_json.calling import System
from backhaul_connectors.http_json.cursor import Place, cursor_of, places_of
from backhaul_connectors.http_json.manifest import SPEC
from backhaul_connectors.http_json.paging import cursor_in, first_url, next_url
from backhaul_connectors.http_json.parsing import (
    Reader,
    digest_of,
    find,
    moment,
    text_of,
)
from backhaul_connectors.http_json.pushing import lookup, push
from backhaul_sdk import Batch, CheckFailed, Connector, Rejected, Unknown
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.reading import Unusable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yarl import URL

    from backhaul_connectors.http_json.settings import List, Settings
    from backhaul_sdk import Bad, Change, LookedUp, Pushed, Record
    from backhaul_sdk.calls import Answer


MOST_SEEN = 10_000


@dataclass(slots=True)
class Walk:
    """One walk over a list, from `place`: what it has seen so far."""

    name: str
    settings: List
    place: Place
    reader: Reader
    _reached: Place = field(default_factory=Place)
    _seen: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reached = self.place

    def records(self, items: list[Any]) -> list[Record | Bad]:
        """Return what is new of a page."""
        told = ((item, text_of(item)) for item in items)
        return [self.reader.read(*each) for each in told if self._is_new(*each)]

    def _is_new(self, item: Any, text: str) -> bool:
        if self.settings.since is None:
            return True
        try:
            changed = moment(find(self.settings.since, item), "since")
        except Unusable:
            # Without a time it is not remembered, and comes again: its key is known.
            return True
        digest = digest_of(text)
        self._seen[digest] = changed
        if len(self._seen) >= MOST_SEEN:
            self.reached()
        return digest not in self.place.recent

    def reached(self) -> Place:
        """Return the place behind all that was seen."""
        if self.settings.since is not None:
            overlap = self.settings.overlap_seconds
            self._reached = self._reached.moved(self._seen, overlap)
            self._seen.clear()
        return self._reached


class HttpJson(Connector["Settings"]):
    """A system that is asked over HTTP and answers in JSON.

    `clock` returns seconds that never go back, `now` the seconds since 1970.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = seconds_since_1970,
    ) -> None:
        super().__init__(instance, settings)
        self._now = now
        self._system = System(settings, clock)

    async def check(self) -> None:
        self._system.check()

    async def open(self) -> None:
        await self.check()

    async def close(self) -> None:
        await self._system.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        places = places_of(cursor)
        for name, settings in self.settings.lists.items():
            now = datetime.fromtimestamp(self._now(), UTC)
            reader = Reader(name, settings, moment(now, "now"))
            walk = Walk(name, settings, places.get(name, Place()), reader)
            async with aclosing(self._pages(walk)) as pages:
                async for records, place in pages:
                    if place != places.get(name):
                        places[name] = place
                        cursor = cursor_of(places)
                    elif not records:
                        continue
                    yield Batch(records=records, cursor=cursor)

    def topics(self) -> frozenset[str]:
        """Return the news that there is a request for."""
        return self.spec.topics & self.settings.pushes.keys()

    async def push(self, change: Change) -> Pushed:
        settings = self.settings.pushes.get(change.topic)
        if settings is None:
            return Rejected(f"pushes says nothing of {change.topic}")
        return await push(self._system, self.settings.base_url, settings, change)

    async def lookup(self, change: Change) -> LookedUp:
        settings = self.settings.pushes.get(change.topic)
        if settings is None:
            return Unknown(f"pushes says nothing of {change.topic}")
        return await lookup(self._system, self.settings.base_url, settings, change)

    async def _pages(
        self, walk: Walk
    ) -> AsyncGenerator[tuple[list[Record | Bad], Place]]:
        """Yield each page with the place after it, which moves at the last page.

        Not before: lists need not be in the order of their changes. A system's own
        cursor moves with each page.
        """
        settings, place = walk.settings, walk.place
        url: URL | None = first_url(self.settings.base_url, settings, place)
        is_first = True
        while url is not None:
            answer = await self._page(url, place if is_first else Place())
            if answer.status == 304:
                return
            document = answer.json()
            items = _items(walk, document)
            following = next_url(settings, url, answer, document, len(items))
            records = walk.records(items)
            if settings.keep_cursor:
                place = replace(place, next=cursor_in(settings, document) or place.next)
            if following is None:
                etag = answer.headers.get("etag", "") if is_first else ""
                place = replace(
                    walk.reached(),
                    next=place.next,
                    etag=etag,
                    url=str(url) if etag else "",
                )
            yield records, place
            url, is_first = following, False

    async def _page(self, url: URL, place: Place) -> Answer:
        known = place.etag if place.etag and place.url == str(url) else ""
        answer = await self._system.read(url, {"If-None-Match": known} if known else {})
        if answer.status == 404 or (answer.status == 304 and not known):
            raise CheckFailed(f"{url.path} answered {answer.status}: check path")
        return answer


def _items(walk: Walk, document: Any) -> list[Any]:
    try:
        items = find(walk.settings.items, document)
    except Unusable as error:
        raise CheckFailed(f"{walk.name}: {error}") from None
    if not isinstance(items, list):
        place = walk.settings.items
        raise CheckFailed(f"{walk.name}: there is no list at {place!r} of the answer")
    return items
