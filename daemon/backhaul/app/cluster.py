"""Joins the daemons of a PostgreSQL database that keeps what it confirms."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

from loguru import logger

from backhaul.errors import Busy, ConfigurationError
from backhaul.store import database_at
from backhaul.store.ownership import new_member

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.core.clock import Clock
    from backhaul.settings import Settings
    from backhaul.store.ownership import Member, Ownership

CHECK_SECONDS = 60.0
STANDBYS = "pg_stat_replication"
"""What shows that no standby confirms now: commits wait then, and lose nothing."""


def joining(
    settings: Settings, public_url: str = "", admin_url: str = ""
) -> Member | None:
    """Return this run as a member of its database's cluster; None for a file.

    Raises ConfigurationError if the server may lose what it confirms, BackhaulError.
    """
    if not isinstance(settings.place, str):
        return None
    require_durability(settings)
    given = settings.cluster
    return new_member(public_url, admin_url, given.ttl, given.hold)


def require_durability(settings: Settings) -> None:
    """Check how the server keeps commits. Raises ConfigurationError, BackhaulError.

    With `durability = "single"` it only warns.
    """
    quorum = settings.cluster.durability == "quorum"
    found = database_at(settings.place).durability(quorum=quorum)
    lasting = [each for each in found if each.key != STANDBYS]
    if lasting and quorum:
        raise ConfigurationError(lasting)
    for each in found:
        logger.bind(action="database.durability").warning("{}", each)


@asynccontextmanager
async def kept(ownership: Ownership) -> AsyncIterator[None]:
    """Give signs of life meanwhile."""
    try:
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(ownership.keep())
            try:
                yield
            finally:
                keeping.cancel()
    except BaseExceptionGroup as found:
        if len(found.exceptions) == 1:
            raise found.exceptions[0] from None
        raise


async def watch_durability(settings: Settings, clock: Clock) -> NoReturn:
    """Check again each minute: somebody may change the server while this runs."""
    while True:
        await clock.sleep(CHECK_SECONDS)
        if isinstance(settings.place, str):
            with suppress(Busy):
                await asyncio.to_thread(require_durability, settings)
