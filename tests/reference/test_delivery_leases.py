"""Leases: one attempt at a time for each delivery, and none of a paused webhook."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.webhook_outbox import (
    Attempt,
    claim,
    clear_leases,
    due,
    record,
)
from backhaul_reference.platform.state.writer import Tx
from scenes.reference_shop import Receiver, Shop, open_shop, subscribe


async def deliveries(shop: Shop, webhook: Any) -> Any:
    return (await shop.v1("GET", f"/webhooks/{webhook['id']}/deliveries")).data


async def settled(shop: Shop, webhook: Any, status: str, count: int = 1) -> Any:
    """Read the delivery list until so many have a status."""
    while True:
        found = await deliveries(shop, webhook)
        if sum(one["status"] == status for one in found) >= count:
            return found


async def test_a_delivery_in_flight_is_never_sent_concurrently(
    shop: Shop, receiver: Receiver
) -> None:
    """Pausing, going on and replaying leave an attempt alone."""
    receiver.gate = asyncio.Event()
    webhook = await subscribe(shop, receiver, "products/create")
    product = await shop.product()
    await receiver.until(1)
    path = f"/webhooks/{webhook['id']}"
    for status in ("PAUSED", "ACTIVE"):
        await shop.v1("PUT", path, {"status": status})
    again = await shop.v1("POST", path + "/replay", {"since": product["createdAt"]})
    assert again.data["queued"] == 0
    await shop.product()
    await receiver.until(2)
    receiver.gate.set()
    await settled(shop, webhook, "DELIVERED", 2)
    assert len(receiver.received) == 2


async def test_a_paused_webhook_sends_nothing_again(
    shop: Shop, receiver: Receiver
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    (sent,) = await settled(shop, webhook, "DELIVERED")
    path = f"/webhooks/{webhook['id']}"
    await shop.v1("PUT", path, {"status": "PAUSED"})
    again = await shop.v1("POST", f"{path}/deliveries/{sent['id']}/redeliver")
    assert (again.data["status"], again.data["nextAttemptAt"]) == ("HELD", None)
    # Whoever puts a delivery among those that wait, a pause is obeyed.
    await shop.running.platform.writer.run(
        lambda tx: tx.run("UPDATE delivery SET status = 'PENDING', next_ms = 0")
    )
    platform = shop.running.platform
    assert platform.reader.read(due) == []
    taken = await platform.writer.run(lambda tx: claim(tx, webhook["id"], 9))
    assert taken == []


async def test_the_end_of_another_claim_changes_nothing(
    shop: Shop, receiver: Receiver
) -> None:
    receiver.gate = asyncio.Event()
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    await receiver.until(1)
    write = shop.running.platform.writer.run

    def claim_again(tx: Tx) -> Row:
        clear_leases(tx)
        return claim(tx, webhook["id"], 9)[0]

    row = await write(claim_again)
    stale = attempt_on(row, lease_ms=row["lease_ms"] - 1)
    other = attempt_on(row, delivery_id="dlv_x")
    await write(lambda tx: record(tx, [stale, other]))
    (pending,) = await deliveries(shop, webhook)
    assert (pending["status"], pending["attempts"]) == ("PENDING", [])
    await write(lambda tx: record(tx, [attempt_on(row)]))
    (done,) = await deliveries(shop, webhook)
    assert (done["status"], len(done["attempts"])) == ("DELIVERED", 1)


def attempt_on(row: Any, **values: Any) -> Attempt:
    ended = Attempt(
        delivery_seq=row["seq"],
        delivery_id=row["id"],
        lease_ms=row["lease_ms"],
        subscription_id=row["subscription_id"],
        number=1,
        at_ms=0,
        duration_ms=0,
        status_code=200,
        error=None,
        delivered=True,
        next_ms=None,
        gone=False,
    )
    return replace(ended, **values)


async def test_a_delivery_in_flight_of_a_paused_webhook_is_held_after_a_start(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.gate = asyncio.Event()
    async with open_shop(tmp_path) as shop:
        webhook = await subscribe(shop, receiver, "products/create")
        await shop.product()
        await receiver.until(1)
        await shop.v1("PUT", f"/webhooks/{webhook['id']}", {"status": "PAUSED"})
    receiver.gate.set()
    async with open_shop(tmp_path) as shop:
        (held,) = await settled(shop, webhook, "HELD")
    assert held["nextAttemptAt"] is None
