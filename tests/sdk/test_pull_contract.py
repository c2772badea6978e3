"""The pull contract passes correct connectors and catches broken ones."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk import Bad, Batch, Capability, Connector, Spec, StockAdjustment
from backhaul_sdk.testing import Bench, MemoryHost, PullContract
from scenes.loop_guard import on_purpose
from sdk.ledger import PASSWORD, Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from backhaul_sdk import Record


class Source(Connector[Settings]):
    """Reads a list of rows, ten at a time; the cursor is how many were taken."""

    spec = Spec(
        name="source",
        version="1",
        summary="Reads rows.",
        capabilities=frozenset({Capability.PULL}),
        settings=Settings,
        secret_fields=frozenset({"password"}),
    )

    def __init__(self, rows: Rows) -> None:
        super().__init__("source", Settings.model_validate({"password": PASSWORD}))
        self.rows = rows

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        self.reach()
        place = int(cursor or 0)
        while rows := self.rows.given[place : place + 10]:
            records = [self.read(row, place + n) for n, row in enumerate(rows)]
            place += len(rows)
            await asyncio.sleep(0)
            yield Batch(records=records, cursor=str(place))

    def reach(self) -> None:
        if self.rows.away:
            raise OSError("nobody answers")

    def read(self, row: dict[str, Any], place: int) -> Record | Bad:
        if "sku" not in row:
            return Bad(key=f"row {place}", raw=str(row), reason="it has no sku")
        return StockAdjustment(key=row["key"], sku=row["sku"], delta=1)


class Rows(Bench):
    """A list of rows that may be away."""

    secrets = (PASSWORD,)

    def __init__(self, source: type[Source] = Source) -> None:
        self.given: list[dict[str, Any]] = []
        self.away = False
        self.checked = 0
        self._source = source

    def connector(self) -> Source:
        return self._source(self)

    def offer(self, first: int, number: int) -> None:
        numbers = range(first, first + number)
        self.given += [{"key": str(n), "sku": "LS-S"} for n in numbers]

    def offer_a_bad_one_among(self, good: int) -> None:
        self.offer(0, good // 2)
        self.given.append({"key": "bad"})
        self.offer(good // 2, good - good // 2)

    def offer_with_unknown_field(self, number: int) -> None:
        self.given.append({"key": str(number), "sku": "LS-S", "colour": "red"})

    def state(self) -> object:
        return (self.checked, list(self.given))

    def example(self) -> Mapping[str, object]:
        return {"type": "source", "every": "5s", "password": PASSWORD}

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    async def unplug(self) -> None:
        self.away = True

    async def plug_in(self) -> None:
        self.away = False


class TestSource(PullContract):
    """The source's connector keeps the contract."""

    @pytest.fixture
    def bench(self) -> Bench:
        return Rows()


class ChecksByWriting(Source):
    async def check(self) -> None:
        self.rows.checked += 1


class KeysByMemory(Source):
    def read(self, row: dict[str, Any], place: int) -> Record | Bad:
        return StockAdjustment(key=str(id(row)), sku="LS-S", delta=1)


class StopsAtBad(Source):
    def read(self, row: dict[str, Any], place: int) -> Record | Bad:
        return StockAdjustment(key=row["key"], sku=row["sku"], delta=1)


class Strict(Source):
    def read(self, row: dict[str, Any], place: int) -> Record | Bad:
        if row.keys() - {"key", "sku"}:
            return Bad(key=row["key"], raw="", reason="an unknown field")
        return super().read(row, place)


class Forgets(Source):
    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        async for batch in super().pull(cursor):
            self.rows.given.clear()
            yield batch


class NoCursor(Source):
    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        async for batch in super().pull(cursor):
            yield Batch(records=batch.records, cursor=None)


class RestartsAll(Source):
    def restart_stock(self, cursor: str | None) -> str | None:
        return None


class Hoarder(Source):
    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        batches = [batch async for batch in super().pull(cursor)]
        for batch in batches:
            yield batch


class HidesTrouble(Source):
    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        if not self.rows.away:
            async for batch in super().pull(cursor):
                yield batch


class Talkative(Source):
    def reach(self) -> None:
        if self.rows.away:
            logging.getLogger("source").warning("it is down")
        super().reach()


class Leaky(Source):
    def reach(self) -> None:
        password = self.settings.password.get_secret_value()
        logging.getLogger("source").debug("reads with %s", password)


CATCHES: Mapping[str, tuple[type[Source], ...]] = {
    "check_changes_nothing": (ChecksByWriting,),
    "keys_are_stable_and_duplicates_collapse": (KeysByMemory,),
    "a_bad_record_never_stops_the_good_ones": (StopsAtBad,),
    "unknown_fields_are_tolerated": (Strict,),
    "pulling_twice_from_a_cursor_yields_the_same_or_more": (Forgets,),
    "what_was_acknowledged_does_not_come_again": (NoCursor,),
    "stock_counts_alone_are_read_again": (RestartsAll,),
    "many_records_need_little_memory": (Hoarder,),
    "unplugged_often_it_says_nothing_and_works_again": (HidesTrouble, Talkative),
    "no_secret_shows": (Leaky,),
}


@pytest.mark.parametrize(
    ("invariant", "source"),
    [(name, source) for name, sources in CATCHES.items() for source in sources],
)
async def test_a_broken_connector_is_caught(
    invariant: str, source: type[Source], request: pytest.FixtureRequest
) -> None:
    check = getattr(PullContract(), f"test_{invariant}")
    wanted = inspect.signature(check).parameters.keys() - {"bench"}
    given: dict[str, Any] = {name: request.getfixturevalue(name) for name in wanted}
    caught = pytest.raises((AssertionError, KeyError, pytest.fail.Exception))
    with caught, on_purpose():  # what is broken may block as well
        await check(bench=Rows(source), **given)
