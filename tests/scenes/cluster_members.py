"""Members of a cluster on one PostgreSQL database, in one process."""

from __future__ import annotations

from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.store.ownership import ROLES, Member
from backhaul.store.postgres.connection import Connection
from backhaul.store.postgres.database import PostgresStore, open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

LONG_AGO = "UPDATE members SET beat_at = beat_at - interval '1 hour' WHERE id = 'a'"


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with closing(Connection(url)) as connection:
        result = connection.execute(statement)
        return [tuple(row) for row in result] if result.description else []


def member(name: str, roles: tuple[str, ...] = ROLES) -> Member:
    return Member(name, f"host of {name}", "0.1.0", roles=roles)


@asynccontextmanager
async def joined(
    url: str,
    name: str,
    stores: Collection[str] = ("main",),
    pins: Mapping[str, str] | None = None,
    roles: tuple[str, ...] = ROLES,
) -> AsyncIterator[PostgresStore]:
    """Open the database as a member that owns no store yet."""
    store = open_store(url, SystemClock(), member(name, roles))
    store.start()
    await store.ownership.join(stores, pins)
    try:
        yield store
    finally:
        await store.stop()


async def owning(store: PostgresStore) -> None:
    """Take all stores, and begin to fold their events."""
    for name in (await store.ownership.balance()).taken:
        store.ownership.begin_folding(name)


async def became_owner(
    store: PostgresStore, stores: Collection[str] = ("main",)
) -> bool:
    """Join and take all stores; return True if the member got any."""
    await store.ownership.join(stores)
    await owning(store)
    return bool(store.ownership.owned())


async def in_contact(store: PostgresStore) -> None:
    """Make a member's contact old enough, so that it may take over from others."""
    await store.engine.writer.heartbeat()
    fence = store.engine._fence
    assert fence is not None
    fence._in_contact_since = 0.0


def owners(url: str) -> set[object]:
    """Return the members that own a store, and None if a store has no owner."""
    rows = run(url, "SELECT DISTINCT member FROM owners WHERE store != '*'")
    return {member for (member,) in rows}


async def share(*stores: PostgresStore) -> list[tuple[str, ...]]:
    """Let each member balance once; return the stores that each took."""
    return [(await store.ownership.balance()).taken for store in stores]
