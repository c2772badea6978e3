"""The predicted effects of fulfillments and cancellations equal a real platform's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.ingest.objects import shows_more
from scenes.reference_shop import cart, open_shop

if TYPE_CHECKING:
    from pathlib import Path

TRACKED = {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}
ORDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "all of it leaves": ("fulfill", TRACKED),
    "a part leaves": ("fulfill", {**TRACKED, "items": 1}),
    "it is cancelled": ("cancel", {"reason": "OTHER"}),
    "it is cancelled and put back": ("cancel", {"restock": True, "refund": True}),
}


@pytest.mark.parametrize("name", ORDERS)
async def test_all_that_an_effect_changes_is_explained_by_it(
    name: str, tmp_path: Path
) -> None:
    """And by nothing else: without it, it is somebody else's change."""
    verb, body = ORDERS[name]
    async with open_shop(tmp_path / "shop") as shop:
        lamp = await shop.product(10)
        sold = await shop.shopper("POST", "/orders", cart(lamp, 2))
        path = f"/orders/{sold.body['data']['id']}"
        before = (await shop.v1("GET", path)).body["data"]
        if "items" in body:
            line = {"lineItemId": before["items"][0]["id"], "quantity": body["items"]}
            body = {**body, "items": [line]}
        answer = await shop.v1("POST", f"{path}/{verb}", body)
        assert answer.status == 200, answer.body
        after = (await shop.v1("GET", path)).body["data"]
    parcels = [parcel["id"] for parcel in after["shipments"]]
    cancels = verb == "cancel"
    assert not shows_more(before, after, parcels, cancels=cancels)
    assert shows_more(before, after, [], cancels=False)
