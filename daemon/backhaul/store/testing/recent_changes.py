"""Tests of the changes that a stream of the HTTP API shows."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import State
from backhaul.store.commands import Decision
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import claimed, plan
from backhaul.store.testing.event_scenes import arrive
from backhaul.store.testing.mirror_scenes import show_level, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store import Store


async def places(store: Store) -> dict[str, int]:
    """Return the end of each source."""
    return await store.read(lambda reader: reader.change_places())


async def seen(
    store: Store, since: Mapping[str, int], source: str, limit: int = 9
) -> list[tuple[str, str, str]]:
    """Return type, id and state of what a source shows behind its place."""
    found = await store.read(lambda reader: reader.recent_changes(since, limit))
    return [(row.type, row.id, row.state) for row in found[source] if row.type]


class RecentChangesConformance(StoreConformance):
    """Tests of `Reader.recent_changes`."""

    async def test_an_event_is_open_until_it_is_folded(self, store: Store) -> None:
        begin = await places(store)
        number = await arrive(store, b"{}", "main")
        found = await store.read(lambda reader: reader.recent_changes(begin, 9))
        (row,) = found["inbox"]
        assert (row.type, row.id, row.store) == ("event", str(number), "main")
        assert (row.state, row.is_open) == ("received", 1)

    async def test_a_folded_event_is_closed(self, store: Store) -> None:
        begin = await places(store)
        await show_order(store, "ord_1", number=1001)
        (row,) = await seen(store, begin, "inbox")
        assert row[2] == "folded"

    async def test_a_command_is_seen_by_its_attempt(self, store: Store) -> None:
        begin = await places(store)
        command = await plan(store)
        assert await seen(store, begin, "commands") == [("command", command, "planned")]
        begin = await places(store)
        await claimed(store)
        assert await seen(store, begin, "commands") == []
        assert await seen(store, begin, "attempts") == [("command", command, "sending")]
        found = await store.read(lambda reader: reader.recent_changes(begin, 9))
        assert found["attempts"][0].is_open == 1

    async def test_an_operator_is_seen_by_the_decision(self, store: Store) -> None:
        command = await plan(store)
        begin = await places(store)
        await store.decisions.decide(
            Decision(command, "park", "ann", "wait"), State.PLANNED
        )
        assert await seen(store, begin, "audit") == [("command", command, "parked")]

    async def test_a_quarantined_row_is_seen_when_it_is_dropped(
        self, store: Store
    ) -> None:
        begin = await places(store)
        bad = NewRecord("k", None, "a;b", "no order", "file:1")
        await store.records.accept("courier", "main", [bad], None, _match_nothing)
        (row,) = await seen(store, begin, "quarantine")
        assert row == ("quarantine", row[1], "open")
        begin = await places(store)
        await store.quarantine.discard(int(row[1]), "ann", "a test")
        assert await seen(store, begin, "audit") == [("quarantine", row[1], "dropped")]

    async def test_other_audit_entries_only_move_the_place(self, store: Store) -> None:
        begin = await places(store)
        await store.users.record_login("ann", "from 192.0.2.1")
        assert await seen(store, begin, "audit") == []
        found = await store.read(lambda reader: reader.recent_changes(begin, 9))
        assert [row.number for row in found["audit"]] == [begin["audit"] + 1]

    async def test_a_limit_cuts_each_source(self, store: Store) -> None:
        begin = await places(store)
        first, second, _ = [await plan(store, target=f"ord_{n}") for n in range(3)]
        found = await seen(store, begin, "commands", limit=2)
        assert [row[1] for row in found] == [first, second]


class StockLevelsConformance(StoreConformance):
    """Tests of `Reader.stock_levels`."""

    async def test_pages_follow_each_other(self, store: Store) -> None:
        for number in range(5):
            await show_level(store, number, product=f"prod_{number}")
        read, after = [], ("", "")
        while rows := await store.read(
            lambda reader, after=after: reader.stock_levels(None, None, 2, after)  # type: ignore[misc]  # mypy infers no default
        ):
            read += [(row.variant_id, row.stock) for row in rows]
            after = rows[-1].store, rows[-1].variant_id
        assert read == [(f"var_{number}", number) for number in range(5)]


def _match_nothing(*_: object) -> Unmatched:
    raise AssertionError("a bad row is not matched")
