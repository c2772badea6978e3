"""The promotion of a replica that lacks commits, and what people do after it.

Such a promotion really loses what was acknowledged, whatever the daemons do. Then the
promises are others, and the ledger of each store compares these:

* A daemon says that commits are missing, and every store is held: nothing is sent for
  a store before the platform's stock history was read again.
* Nothing takes effect twice, not even if people say everything of this time again. The
  platform shows what was sent by commands that nobody knows any more.
* A webhook that was acknowledged in this time may be missing. What it told of is in
  the mirror after a full pass: at the end the mirror is equal to the platform.
* A scan, a row of a file or of the ERP that was heard in this time is carried out after
  it was said again, and one of any other time without that.
* A notification that reached the ERP in this time may reach it once more. None is
  missing, and none of any other time comes twice.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from faults.cluster_floor import Loss
from scenes.cluster import POLL_SECONDS, TTL_SECONDS
from scenes.cluster_logs import LOST
from scenes.daemon import backhaul
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from faults.cluster_floor import Floor, News
    from scenes.cluster import Cluster
    from scenes.cluster_logs import ClusterLogs
    from scenes.cluster_stores import ClusterStore

HISTORY = b"/inventory/history"
LOST_SECONDS = (0.0, 3.0)
"""The least time for which commits are missing in the replica."""
NOTICE_SECONDS = (0.1, 1.5)
SAID_BEFORE_SECONDS = 60.0
"""Records submitted this long before may be among the missing commits."""


async def promote_wrong(
    cluster: Cluster, logs: ClusterLogs, rng: random.Random
) -> Loss:
    """Promote the replica that lacks commits; the other servers become copies of it.

    Returns after the daemons noticed it and read the platform's history, when each
    store sends again.
    """
    nodes = cluster.nodes
    behind, ahead = rng.sample(nodes.standbys, k=2)
    before = {each.name: _told(each) for each in cluster.stores}
    began = time.monotonic()
    await asyncio.to_thread(nodes.stall, behind)
    for store in cluster.stores:
        await cluster.sent_after(began, store)
    await asyncio.sleep(rng.uniform(*LOST_SECONDS))
    killed = time.monotonic(), time.time()
    lost = await asyncio.to_thread(nodes.kill_primary)
    await asyncio.to_thread(ahead.kill)
    await asyncio.sleep(rng.uniform(*NOTICE_SECONDS))
    await asyncio.to_thread(nodes.promote, behind)
    ended = time.monotonic()
    told = {each.name: _told(each) - before[each.name] for each in cluster.stores}
    await asyncio.to_thread(nodes.clone, ahead)
    noticed = await _noticed(logs, killed[1])
    await asyncio.to_thread(nodes.clone, lost)
    await cluster.until_serving()
    for store in cluster.stores:
        await _require_audit(cluster, store, max(noticed, killed[0]) + TTL_SECONDS)
    return Loss(began, ended, told)


async def make_good(floors: Sequence[Floor], loss: Loss) -> None:
    """Repeat everything that may be lost, and compare the mirror with the platform.

    The daemon would run the full sync automatically, some hours later.
    """
    for floor in floors:
        await floor.say_again(loss.began - SAID_BEFORE_SECONDS, loss.ended)
        config = floor.cluster.members[0].replica.office.config
        words = ("jobs", "run", "reconcile_full", "--store", floor.store.name)
        said = await asyncio.to_thread(
            backhaul, *words, config=config, seconds=HANG_SECONDS
        )
        assert said.code == 0, said.err


def _told(store: ClusterStore) -> set[News]:
    """Return the notifications that the store's ERP received."""
    return {(row["topic"], row["order_id"]) for row in store.erp.received().news}


async def _noticed(logs: ClusterLogs, since: float) -> float:
    """Wait until a daemon reports missing commits; return the time."""
    async with asyncio.timeout(HANG_SECONDS):
        while not (found := await asyncio.to_thread(logs.since, since, LOST)):  # noqa: ASYNC110 - of files
            await asyncio.sleep(POLL_SECONDS)
    return time.monotonic() - (time.time() - found[0].at)


async def _require_audit(cluster: Cluster, store: ClusterStore, since: float) -> None:
    """Check that nothing was sent after `since` before the history was read.

    A request that was claimed before may still leave until then.
    """
    first = await cluster.sent_after(since, store)
    asked = [
        each.at
        for each in cluster.proxy.requests("GET")
        if HISTORY in each.passing.head and store.sent(each) and each.forwarded
    ]
    audits = [at for at in asked if since - TTL_SECONDS < at < first]
    assert audits, f"store {store.name}: sent before the history was read"
