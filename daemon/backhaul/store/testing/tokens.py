"""Tests of the tokens of the HTTP API, and of records that programs submit."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.errors import BackhaulError
from backhaul.store.records import Matched, NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at, audit_entries, in_brief
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.records import match
from backhaul.store.testing.scenes import StoreConformance
from backhaul.store.tokens import ListedToken, Scope

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.records import Submitted
    from backhaul.store.testing.scenes import TestClock

DAY = 86_400.0


async def create(store: Store, name: str = "app", seconds: float | None = None) -> None:
    """Create a token that may operate."""
    await store.tokens.create(name, Scope.OPERATE, f"digest {name}", seconds, "ann")


async def found(store: Store, name: str = "app") -> ListedToken:
    """Return a token that exists."""
    token = await store.tokens.find(f"digest {name}")
    assert token is not None
    return token


class TokensConformance(StoreConformance):
    """Tests of `Store.tokens`."""

    async def test_a_token_is_created_with_an_audit_entry(
        self, store: Store, clock: TestClock
    ) -> None:
        await create(store, seconds=DAY)
        now, until = at(clock), clock.after(DAY)
        expected = ListedToken("app", "operate", now, "ann", until, None, None)
        assert await found(store) == expected
        assert await store.read(lambda reader: reader.tokens()) == [expected]
        (entry,) = await audit_entries(store)
        said = f"app with the scope operate until {until}"
        assert in_brief(entry) == ("ann", "tokens create", said)

    async def test_an_unknown_digest_has_no_token(self, store: Store) -> None:
        await create(store)
        assert await store.tokens.find("another digest") is None

    async def test_a_revoked_token_keeps_its_name(
        self, store: Store, clock: TestClock
    ) -> None:
        await create(store)
        await store.tokens.revoke("app", "bob")
        assert (await found(store)).revoked_at == at(clock)
        newest, _ = await audit_entries(store)
        assert in_brief(newest) == ("bob", "tokens revoke", "app")
        with pytest.raises(BackhaulError, match="choose another name"):
            await create(store)
        with pytest.raises(BackhaulError, match="already revoked"):
            await store.tokens.revoke("app", "bob")

    async def test_a_token_that_does_not_exist_cannot_be_revoked(
        self, store: Store
    ) -> None:
        with pytest.raises(BackhaulError, match="no token is called app"):
            await store.tokens.revoke("app", "bob")

    async def test_the_last_use_is_recorded(
        self, store: Store, clock: TestClock
    ) -> None:
        await create(store)
        clock.advance(5)
        await store.tokens.record_use("app")
        assert (await found(store)).last_used_at == at(clock)


def record(key: str = "note-1", order: str = "1001", raw: str = "one") -> NewRecord:
    """Return a record that names an order."""
    payload = b'{"kind":"note","record":{"order":"%s"}}' % order.encode()
    return NewRecord(key, payload, raw, "", f"{key} (token app)")


async def submit(store: Store, new: NewRecord, name: str = "main") -> Submitted:
    """Submit a record of a program."""
    return await store.records.submit("api", name, new, match)


class SubmissionsConformance(StoreConformance):
    """Tests of `Store.records.submit`."""

    async def test_a_record_is_planned(self, store: Store) -> None:
        await show_order(store, "ord_1", number=1001)
        done = await submit(store, record())
        assert done.outcome is not None
        assert (done.record.state, done.record.command_state) == ("accepted", "planned")
        assert done.record.kind == "note"

    async def test_a_record_waits_for_its_order(self, store: Store) -> None:
        first = await submit(store, record())
        assert (first.record.state, first.record.command_id) == ("waiting", None)
        await show_order(store, "ord_1", number=1001)
        await store.records.match(match, 9)
        id_ = first.record.id
        now = await store.read(lambda reader: reader.record(id_))
        assert now is not None
        assert (now.state, now.command_state) == ("accepted", "planned")

    async def test_a_repeated_record_changes_nothing(self, store: Store) -> None:
        await show_order(store, "ord_1", number=1001)
        first = await submit(store, record())
        again = await submit(store, record())
        assert again.outcome is None
        assert again.is_same
        assert again.record == first.record
        assert len(await store.read(lambda reader: reader.last_records("api", 9))) == 1

    async def test_another_record_with_a_known_key_is_not_stored(
        self, store: Store
    ) -> None:
        first = await submit(store, record())
        for other in (record(raw="two"), record(order="1002", raw="two")):
            done = await submit(store, other)
            assert (done.outcome, done.is_same) == (None, False)
            assert done.record == first.record
        elsewhere = await submit(store, record(), "second")
        assert not elsewhere.is_same
        assert len(await store.read(lambda reader: reader.last_records("api", 9))) == 1

    async def test_a_quarantined_record_stays_when_it_is_repeated(
        self, store: Store
    ) -> None:
        def refuse(*_: object) -> Unmatched | Matched:
            return Unmatched("no such order", final=True)

        first = await store.records.submit("api", "main", record(), refuse)
        assert first.record.state == "quarantined"
        assert first.record.quarantine_id is not None
        again = await submit(store, record())
        assert (again.outcome, again.is_same) == (None, True)
        assert again.record == first.record

    async def test_there_is_no_record_with_an_unknown_number(
        self, store: Store
    ) -> None:
        assert await store.read(lambda reader: reader.record(1)) is None
        assert await store.read(lambda reader: reader.record(2**63 - 1)) is None
