"""Who is allowed to manage which subscription, and malicious receivers."""

from typing import Any

import pytest
from aiohttp import web

from reference_contract.moves import outcome
from scenes.merchant import ONE
from scenes.reference_shop import Receiver, Shop, subscribe

NO_DATE = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"


async def key_for(shop: Shop, *scopes: str) -> str:
    made = await shop.control("POST", f"{ONE}/keys", {"scopes": list(scopes)})
    key: str = made.data["key"]
    return key


@pytest.mark.parametrize("scopes", [(), ("orders:read",), ("products:write",)])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_a_subscription_needs_the_scopes_of_its_topics(
    shop: Shop, receiver: Receiver, method: str, scopes: tuple[str, ...]
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    key = await key_for(shop, *scopes)
    path = f"/webhooks/{webhook['id']}"
    sent: Any = {"status": "PAUSED"} if method == "PUT" else None
    refused = await shop.v1(method, path, sent, key=key)
    assert outcome(refused) == (403, "INSUFFICIENT_SCOPE")
    assert refused.body["requiredScopes"] == ["products:read"]
    reader = await key_for(shop, "products:read")
    assert (await shop.v1(method, path, sent, key=reader)).status == 200


async def test_a_list_shows_only_objects_the_key_covers(
    shop: Shop, receiver: Receiver
) -> None:
    of_orders = await subscribe(shop, receiver, "orders/create", "orders/updated")
    of_both = await subscribe(shop, receiver, "orders/create", "products/create")
    for scopes, expected in (
        ((), []),
        (("orders:read",), [of_orders]),
        (("orders:read", "products:read"), [of_both, of_orders]),
    ):
        reply = await shop.v1("GET", "/webhooks", key=await key_for(shop, *scopes))
        assert [one["id"] for one in reply.data] == [one["id"] for one in expected]
        assert reply.body["meta"]["total"] == len(expected)


@pytest.mark.parametrize("asked", [NO_DATE, "-5", "1e400", "soon"])
async def test_no_answer_stops_the_retries(
    shop: Shop, receiver: Receiver, asked: str
) -> None:
    refusal = web.Response(status=503, headers={"Retry-After": asked})
    receiver.answers.append(refusal)
    await subscribe(shop, receiver, "products/create")
    await shop.product()
    first, second = await receiver.until(2)
    assert first.body == second.body
