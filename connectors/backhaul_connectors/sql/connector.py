"""Reads rows from tables as records, and writes changes into tables."""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from backhaul_connectors.sql.cursor import OverlapWindow, SqlCursor
from backhaul_connectors.sql.database import Database, words
from backhaul_connectors.sql.parsing import ParsingRules
from backhaul_connectors.sql.reader import SourceReader
from backhaul_connectors.sql.settings import TOPICS, Settings
from backhaul_connectors.sql.stock_list import ListProgress
from backhaul_connectors.sql.writer import TableWriter
from backhaul_sdk import Batch, Capability, CheckFailed, Connector, Spec, Uncertain
from backhaul_sdk.fields import zone_named

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from backhaul_connectors.sql.reader import RowPage
    from backhaul_sdk import Bad, Change, LookedUp, Pushed


KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")
MOST_REMEMBERED = 10_000
"""Unreadable rows that are remembered, so that they are reported once."""


def shared(one: Settings, other: Settings, is_one_store: bool) -> str:
    """Return which rows both connections would read for one store.

    Two stores may have the same stock, so a table may be read for each of them, unless
    rows are marked after reading.
    """
    if one.url != other.url:
        return ""
    for kind in KINDS:
        mine, theirs = getattr(one, kind), getattr(other, kind)
        if mine is None or theirs is None:
            continue
        applies = is_one_store or mine.processed_at or theirs.processed_at
        if applies and (mine.table, mine.query) == (theirs.table, theirs.query):
            return f"the rows of {mine.table or 'one query'} ({kind})"
    return ""


SPEC = Spec(
    name="sql",
    version="1.0",
    summary="Reads and writes tables: PostgreSQL, MariaDB, MySQL, SQLite.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"url", "password"}),
    topics=TOPICS,
    shared=shared,
)


class Sql(Connector["Settings"]):
    """A database of the back office. A failing source does not stop the others.

    `clock` returns seconds that never go back.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(instance, settings)
        self._database = Database(instance, settings)
        family = self._database.family
        own = zone_named(settings.timezone), settings.batch_rows
        rules = self._rules = ParsingRules(
            settings.negative_is_zero,
            settings.reason_map,
            settings.same_sku,
            settings.absent,
            settings.absent_limit,
        )
        self._readers = [
            SourceReader(kind, source, family, *own, rules)
            for kind, source in settings.sources().items()
        ]
        self._writer = TableWriter(settings.write, family)
        self._lag = timedelta(seconds=settings.lag_seconds)
        self._overlaps = {
            reader.kind: OverlapWindow(settings.overlap_seconds, clock)
            for reader in self._readers
        }
        self._told: set[str] = set()
        self._unread: set[str] = set()

    async def check(self) -> None:
        looking = Database(self.instance, self.settings)
        await looking.open()
        try:
            problems = [each async for each in self._problems(looking)]
        finally:
            await looking.close()
        if problems:
            raise CheckFailed("; ".join(problems))

    async def open(self) -> None:
        self._told.clear()
        self._unread.clear()
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    async def pull(self, cursor: str | None) -> AsyncGenerator[Batch]:
        read = SqlCursor.from_text(cursor)
        failed: list[str] = []
        for reader in self._readers:
            try:
                await self._database.run(reader.find_reason)
                async with aclosing(self._batches(reader, read)) as batches:
                    async for batch, behind in batches:
                        read = behind
                        yield batch
            except SQLAlchemyError as error:
                failed.append(_failure(reader, error))
        if failed:
            raise CheckFailed("; ".join(failed))

    def restart_stock(self, cursor: str | None) -> str | None:
        return SqlCursor.from_text(cursor).moved("stock_levels", None).to_text()

    def topics(self) -> frozenset[str]:
        """Return the change topics that have a table in the settings."""
        return frozenset(topic for each in self.settings.write for topic in each.topics)

    async def push(self, change: Change) -> Pushed:
        try:
            return await self._database.run(partial(self._writer.push, change=change))
        except CheckFailed as error:
            return Uncertain(str(error))

    async def lookup(self, change: Change) -> LookedUp:
        try:
            return await self._database.run(partial(self._writer.lookup, change=change))
        except SQLAlchemyError as error:
            raise CheckFailed(words(error)) from None

    async def _problems(self, looking: Database) -> AsyncGenerator[str]:
        for reader in self._readers:
            if problem := await looking.run(reader.problem):
                yield f"{reader.kind}: {problem}"
        for problem in await looking.run(self._writer.problems):
            yield f"write: {problem}"

    async def _batches(
        self, reader: SourceReader, read: SqlCursor
    ) -> AsyncGenerator[tuple[Batch, SqlCursor]]:
        if bad := await self._unplaced(reader):
            yield Batch(records=bad, cursor=read.to_text()), read
            self._remember(bad)
        source = reader.source
        if source.processed_at:
            follow = self._unprocessed(reader, read)
        elif source.changed_at:
            follow = self._changed(reader, read)
        else:
            follow = self._whole(reader, read)
        async with aclosing(follow) as batches:
            async for each in batches:
                yield each

    async def _unplaced(self, reader: SourceReader) -> list[Bad]:
        """Return, once after `open`, the rows that no page would ever contain."""
        if reader.kind in self._told:
            return []
        self._told.add(reader.kind)
        # Without an index this may time out; that must not stop the reading.
        with suppress(SQLAlchemyError):
            return await self._database.run(reader.without_order)
        return []

    def _remember(self, bad: list[Bad]) -> None:
        """Remember reported rows, now that they are stored.

        Rows beyond the limit are reported again; the host ignores their known keys.
        """
        room = MOST_REMEMBERED - len(self._unread)
        self._unread.update(each.key for each in bad[:room])

    async def _changed(
        self, reader: SourceReader, read: SqlCursor
    ) -> AsyncGenerator[tuple[Batch, SqlCursor]]:
        async with aclosing(self._late(reader, read)) as batches:
            async for batch, read in batches:
                yield batch, read
        overlap = self._overlaps[reader.kind]
        place, behind, more = read.places.get(reader.kind), None, True
        while more:
            page = await self._database.run(
                partial(reader.changed, place=place, behind=behind, lag=self._lag)
            )
            behind, more = page.behind, page.more
            bad = [each for each in page.unread if each.key not in self._unread]
            if page.place is not None:
                moved = overlap.remember(page.rows, page.place)
                read = read.moved(reader.kind, moved)
            if page.records or bad:
                yield Batch(records=[*bad, *page.records], cursor=read.to_text()), read
                self._remember(bad)

    async def _late(
        self, reader: SourceReader, read: SqlCursor
    ) -> AsyncGenerator[tuple[Batch, SqlCursor]]:
        """Submit the rows that were committed late; the position stays."""
        place, overlap = read.places.get(reader.kind), self._overlaps[reader.kind]
        if place is None or not overlap.is_due(place):
            return
        overlap.resume(place)
        behind, more = None, True
        while more:
            page = await self._database.run(
                partial(
                    reader.window,
                    place=place,
                    behind=behind,
                    seconds=overlap.seconds,
                    lag=self._lag,
                )
            )
            behind, more = page.behind, page.more
            if records := overlap.new(page.rows):
                read = read.moved(reader.kind, overlap.remember(page.rows, place))
                yield Batch(records=records, cursor=read.to_text()), read
        overlap.was_read(place, is_past=page.is_past)

    async def _unprocessed(
        self, reader: SourceReader, read: SqlCursor
    ) -> AsyncGenerator[tuple[Batch, SqlCursor]]:
        place, more = None, True
        while more:
            page = await self._database.run(partial(reader.unprocessed, place=place))
            place, more = page.place, page.more
            if page.records:
                ack = partial(self._mark, reader, page)
                yield Batch(records=page.records, cursor=read.to_text(), ack=ack), read

    async def _whole(
        self, reader: SourceReader, read: SqlCursor
    ) -> AsyncGenerator[tuple[Batch, SqlCursor]]:
        more, listed = True, await self._database.run(reader.begin_list)
        progress = ListProgress(read.places.get(reader.kind) is None)
        while more:
            place = read.places.get(reader.kind)
            page = await self._database.run(
                partial(reader.whole, place=place, listed=listed)
            )
            more = page.more
            read = read.moved(reader.kind, page.place if more else None)
            progress.add(len(page.ids), page.records)
            records = [*page.records]
            if not more and reader.kind == "stock_levels":
                records += progress.end_of(listed, self._rules, reader.name)
            if records or place is not None:
                yield Batch(records=records, cursor=read.to_text()), read

    async def _mark(self, reader: SourceReader, page: RowPage) -> None:
        try:
            await self._database.run(partial(reader.mark, ids=page.ids))
        except SQLAlchemyError as error:
            raise CheckFailed(_failure(reader, error)) from None


def _failure(reader: SourceReader, error: SQLAlchemyError) -> str:
    return f"{reader.kind}: {reader.name} cannot be used: {words(error)}"
