"""Reads the lists of a JSON API page by page, and sends it changes."""

from __future__ import annotations

import time
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from backhaul_connectors.http_json.client import (
    JsonApi,
    ListFailed,
    ListPosition,
    PageTrail,
    cursor_in,
    cursor_of,
    first_url,
    lookup,
    next_url,
    positions_of,
    push,
)
from backhaul_connectors.http_json.settings import Settings
from backhaul_sdk import (
    Bad,
    Batch,
    Capability,
    CheckFailed,
    Connector,
    Rejected,
    Spec,
    Uncertain,
    Unknown,
)
from backhaul_sdk.calls import LateArrivals
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.contract import TOPICS
from backhaul_sdk.fields import Unusable, rfc3339
from backhaul_sdk.json_items import ItemParser, digest_of, moment, text_of
from backhaul_sdk.json_paths import find
from backhaul_sdk.stock_list_items import StockListItems

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from yarl import URL

    from backhaul_connectors.http_json.settings import List
    from backhaul_sdk import Change, LookedUp, Pushed, Record
    from backhaul_sdk.calls import Answer

    Read: TypeAlias = Record | Bad


MOST_SEEN = 10_000
BATCH_RECORDS = 1_000
"""Items of a full stock list that are submitted and committed together."""
AHEAD = timedelta(minutes=5)
"""How far the system's clock may be ahead of our clock."""


def shared(one: Settings, other: Settings, is_one_store: bool) -> str:
    """Return which list both connections would read for one store."""
    if not is_one_store or one.base_url.rstrip("/") != other.base_url.rstrip("/"):
        return ""
    theirs = [(each.kind, each.path, each.query) for each in other.lists.values()]
    for mine in one.lists.values():
        if (mine.kind, mine.path, mine.query) in theirs:
            return f"the list {mine.path} ({mine.kind})"
    return ""


SPEC = Spec(
    name="http_json",
    version="1.0",
    summary="Reads lists of any JSON API, and posts the store's changes to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"token"}),
    topics=frozenset(TOPICS),
    shared=shared,
)


class ListPass(Struct):
    """One pass over a list, from `place`, and what it has seen so far.

    Items that changed after `latest` are not remembered: nothing would be new until
    then.
    """

    name: str
    settings: List
    place: ListPosition
    reader: ItemParser
    latest: str
    _reached: ListPosition = field(default_factory=ListPosition)
    _seen: dict[str, str] = field(default_factory=dict)
    _list: StockListItems = field(default_factory=lambda: StockListItems(adds_up=False))

    def __post_init__(self) -> None:
        self._reached = self.place
        self._list = StockListItems(adds_up=self.settings.same_sku == "sum")

    def take(
        self, items: list[Any], texts: list[str], *, is_last: bool
    ) -> list[Record | Bad]:
        """Return the records to submit after a page; a stock list comes at its end.

        A list whose pages continue at the next pull has no end.
        """
        told = zip(items, texts, strict=True)
        new = [each for each in told if self._is_new(*each)]
        if self.settings.kind != "stock_level" or self.settings.keep_cursor:
            return [self.reader.read(*each) for each in new]
        for item, text in new:
            record = self.reader.read(item, text)
            self._list.add(record, self.reader.number, self.reader.article(item))
        return self._list.records() if is_last else []

    def _is_new(self, item: Any, text: str) -> bool:
        if self.settings.since is None:
            return True
        try:
            changed = moment(find(self.settings.since, item), "since")
        except Unusable:
            changed = None
        # An item without a time comes again; the host knows its key.
        if changed is None or changed > self.latest:
            return True
        digest = digest_of(text)
        self._seen[digest] = changed
        if len(self._seen) >= MOST_SEEN:
            self.reached()
        return digest not in self.place.recent

    def reached(self) -> ListPosition:
        """Return the position after everything that was seen."""
        if self.settings.since is not None:
            overlap = self.settings.overlap_seconds
            self._reached = self._reached.moved(self._seen, overlap)
            self._seen.clear()
        return self._reached


class HttpJson(Connector["Settings"]):
    """A system with a JSON API over HTTP.

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
        self._system = JsonApi(settings, clock)
        self._late_arrivals = LateArrivals(settings.late_request_seconds, clock)

    async def check(self) -> None:
        self._system.check()

    async def open(self) -> None:
        self._late_arrivals.request_may_run()
        await self.check()

    async def close(self) -> None:
        await self._system.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        places = positions_of(cursor)
        failed: list[str] = []
        for name in self.settings.lists:
            try:
                async with aclosing(
                    self._pages(self._read_list(name, places))
                ) as pages:
                    async for records, place in pages:
                        if place != places.get(name):
                            places[name] = place
                            cursor = cursor_of(places)
                        elif not records:
                            continue
                        yield Batch(records=records, cursor=cursor)
            except ListFailed as error:
                failed.append(f"{name}: {error}")
        if failed:
            raise CheckFailed("; ".join(failed))

    def _read_list(self, name: str, places: dict[str, ListPosition]) -> ListPass:
        settings = self.settings.lists[name]
        now = datetime.fromtimestamp(self._now(), UTC)
        latest = rfc3339(now + AHEAD, "milliseconds")
        place = places.get(name, ListPosition()).trusted(latest)
        reader = ItemParser(name, settings, rfc3339(now, "milliseconds"))
        return ListPass(name, settings, place, reader, latest)

    def restart_stock(self, cursor: str | None) -> str | None:
        lists = self.settings.lists
        return cursor_of(
            {
                name: place
                for name, place in positions_of(cursor).items()
                if name not in lists or lists[name].kind != "stock_level"
            }
        )

    def topics(self) -> frozenset[str]:
        """Return the change topics that have a request in the settings."""
        return self.spec.topics & self.settings.pushes.keys()

    async def push(self, change: Change) -> Pushed:
        settings = self.settings.pushes.get(change.topic)
        if settings is None:
            return Rejected(
                "the configuration of the connection has no entry in pushes for the"
                f" topic {change.topic}"
            )
        said: Pushed = Uncertain("the request was cancelled")
        try:
            said = await push(self._system, self.settings.base_url, settings, change)
        finally:
            if isinstance(said, Uncertain):
                self._late_arrivals.request_may_run()
        return said

    async def lookup(self, change: Change) -> LookedUp:
        settings = self.settings.pushes.get(change.topic)
        if settings is None:
            return Unknown(
                "the configuration of the connection has no entry in pushes for the"
                f" topic {change.topic}"
            )
        base = self.settings.base_url
        return await self._late_arrivals.lookup(
            partial(lookup, self._system, base, settings, change)
        )

    async def _pages(
        self, list_pass: ListPass
    ) -> AsyncGenerator[tuple[list[Record | Bad], ListPosition]]:
        """Yield each page with the position after it, which moves at the last page.

        Not before: lists need not be sorted by change time. A system's own cursor moves
        with each page.
        """
        settings, place = list_pass.settings, list_pass.place
        url: URL | None = first_url(self.settings.base_url, settings, place)
        is_first, trail = True, PageTrail()
        while url is not None:
            trail.enter(url)
            answer = await self._page(url, place if is_first else ListPosition())
            if answer.status == 304:
                return
            document = answer.json()
            items = _items(list_pass, document)
            texts = list(map(text_of, items))
            trail.bring(texts)
            following = trail.onward(
                next_url(settings, url, answer, document, len(items))
            )
            records = list_pass.take(items, texts, is_last=following is None)
            if settings.keep_cursor:
                place = replace(place, next=cursor_in(settings, document) or place.next)
            if following is None:
                etag = answer.headers.get("etag", "") if is_first else ""
                place = replace(
                    list_pass.reached(),
                    next=place.next,
                    etag=etag,
                    url=str(url) if etag else "",
                )
            *before, last = _chunks(records)
            for chunk in before:
                yield chunk, list_pass.place
            yield last, place
            url, is_first = following, False

    async def _page(self, url: URL, place: ListPosition) -> Answer:
        known = place.etag if place.etag and place.url == str(url) else ""
        answer = await self._system.read(url, {"If-None-Match": known} if known else {})
        if answer.status == 404 or (answer.status == 304 and not known):
            raise ListFailed(
                f"the server answered the path {url.path} with {answer.status};"
                " check path"
            )
        return answer


def _chunks(records: list[Record | Bad]) -> list[list[Record | Bad]]:
    """Return the records in batches; at least one, possibly empty."""
    starts = range(0, max(len(records), 1), BATCH_RECORDS)
    return [records[start : start + BATCH_RECORDS] for start in starts]


def _items(list_pass: ListPass, document: Any) -> list[Any]:
    try:
        items = find(list_pass.settings.items, document)
    except Unusable as error:
        raise ListFailed(str(error)) from None
    if not isinstance(items, list):
        place = list_pass.settings.items
        raise ListFailed(
            f"the response of the server has no list at {place!r}, which items names"
        )
    return items
