"""An open conflict keeps a full sync from proving that the mirror is equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.sync.deletion_check import PATIENCE_SECONDS
from scenes import payloads
from scenes.scripted_platform import document
from sync.conftest import reconciling

if TYPE_CHECKING:
    from backhaul.store.mirror import Pass
    from sync.conftest import Place


async def run_pass(place: Place) -> Pass:
    """Run a pass over the orders, without a refetcher."""
    place.platform.respond("/orders", document({"data": [payloads.order()]}))
    place.platform.respond("/orders/ord_1", document({"data": payloads.order()}))
    async with reconciling(place) as reconciler:
        (ended,) = await reconciler.read_lists("full", ["orders"])
    return ended


async def test_a_queued_refetch_is_a_row_that_was_not_repaired(place: Place) -> None:
    await place.store.refetch_queue.enqueue("main", "order", "ord_1", "a tie")
    before = place.clock.monotonic()
    assert (await run_pass(place)).unrepaired == 1
    assert place.clock.monotonic() - before >= PATIENCE_SECONDS


async def test_a_refetch_of_another_list_does_not_count(place: Place) -> None:
    await place.store.refetch_queue.enqueue("main", "customer", "cus_1", "a tie")
    await place.store.refetch_queue.enqueue("other", "order", "ord_1", "a tie")
    assert (await run_pass(place)).unrepaired == 0
