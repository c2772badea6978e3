"""Webhooks over time: secret rotation, tests, replays, pauses, disabling, expiry."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from backhaul_reference.platform.state.webhook_outbox import DUE
from scenes.reference_shop import Received, Receiver, Shop, open_shop, subscribe
from scenes.requirements import require
from scenes.waiting import until

DAY = 24 * 3600
CARE = ("/rotate-secret", "/test", "/replay")


async def deliveries(shop: Shop, webhook: Any) -> Any:
    return (await shop.v1("GET", f"/webhooks/{webhook['id']}/deliveries")).data


async def settled(shop: Shop, webhook: Any, status: str, count: int = 1) -> Any:
    """Read the delivery list until so many have a status."""
    while True:
        found = await deliveries(shop, webhook)
        if sum(one["status"] == status for one in found) >= count:
            return found


async def advance(shop: Shop, seconds: float) -> None:
    assert (await shop.control("POST", "/clock", {"advance": seconds})).status == 200


def openssl_hmac(folder: Path, key: bytes, message: bytes) -> str:
    (folder / "message").write_bytes(message)
    command = [require("openssl"), "dgst", "-sha256", "-mac", "HMAC", "-binary"]
    command += ["-macopt", f"hexkey:{key.hex()}", str(folder / "message")]
    digest = subprocess.run(command, check=True, capture_output=True).stdout
    return base64.b64encode(digest).decode()


def standard_by_openssl(folder: Path, secret: str, got: Received) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    head = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}."
    return "v1," + openssl_hmac(folder, key, head.encode() + got.body)


async def test_rotation_signs_with_both_for_a_day(
    shop: Shop, receiver: Receiver, tmp_path: Path
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    old = webhook["secret"]
    path = f"/webhooks/{webhook['id']}"
    rotated = (await shop.v1("POST", path + "/rotate-secret")).data
    new = rotated.pop("secret")
    assert new != old
    assert (await shop.v1("GET", path)).data == rotated
    await shop.product()
    (got,) = await receiver.until(1)
    by_service = openssl_hmac(tmp_path, new.encode(), got.body)
    assert got.headers["X-Service-Hmac-Sha256"] == by_service
    both = [standard_by_openssl(tmp_path, one, got) for one in (new, old)]
    assert got.headers["webhook-signature"].split() == both
    await advance(shop, DAY)
    await shop.product()
    later = (await receiver.until(2))[1]
    alone = standard_by_openssl(tmp_path, new, later)
    assert later.headers["webhook-signature"] == alone


async def test_a_test_goes_to_one_subscription(shop: Shop, receiver: Receiver) -> None:
    await subscribe(shop, receiver)
    webhook = await subscribe(shop, receiver, "orders/create")
    reply = await shop.v1("POST", f"/webhooks/{webhook['id']}/test")
    assert (reply.status, reply.data["topic"]) == (202, "webhooks/test")
    (got,) = await receiver.until(1)
    assert got.headers["X-Service-Subscription-Id"] == webhook["id"]
    assert json.loads(got.body)["data"] == {"webhookId": webhook["id"], "test": True}
    await settled(shop, webhook, "DELIVERED")
    assert (await shop.state())["deliveries"]["DELIVERED"] == 1


async def test_replay_sends_the_same_bytes_again(
    shop: Shop, receiver: Receiver
) -> None:
    webhook = await subscribe(shop, receiver, "products/create", "products/update")
    early = await shop.product()
    await advance(shop, 60)
    late = await shop.product()
    await shop.v1("PUT", f"/products/{late['id']}", {"title": "T"})
    first = list(await receiver.until(3))
    await settled(shop, webhook, "DELIVERED", 3)
    path = f"/webhooks/{webhook['id']}/replay"
    body = {"since": late["createdAt"], "topics": ["products/create"]}
    reply = await shop.v1("POST", path, body)
    assert (reply.status, reply.data["queued"]) == (202, 1)
    again = (await receiver.until(4))[3]
    original = next(one for one in first if late["id"].encode() in one.body)
    assert again.body == original.body
    for name in ("X-Service-Event-Id", "X-Service-Delivery-Id"):
        assert again.headers[name] == original.headers[name]
    assert again.headers["X-Service-Attempt"] == "2"
    await settled(shop, webhook, "DELIVERED", 3)
    everything = await shop.v1("POST", path, {"since": early["createdAt"]})
    assert everything.data["queued"] == 3
    assert len(await receiver.until(7)) == 7


async def test_a_replay_sends_events_that_a_subscription_never_got(
    shop: Shop, receiver: Receiver
) -> None:
    product = await shop.product()
    webhook = await subscribe(shop, receiver, "products/create")
    body = {"since": product["createdAt"].replace("Z", "+00:00")}
    reply = await shop.v1("POST", f"/webhooks/{webhook['id']}/replay", body)
    assert reply.data["queued"] == 1
    (got,) = await receiver.until(1)
    assert json.loads(got.body)["data"] == product


async def test_pausing_records_and_replay_releases(
    shop: Shop, receiver: Receiver
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    path = f"/webhooks/{webhook['id']}"
    await shop.v1("PUT", path, {"status": "PAUSED"})
    product = await shop.product()
    held = (await deliveries(shop, webhook))[0]
    assert (held["status"], held["attempts"]) == ("HELD", [])
    body = {"since": product["createdAt"]}
    assert (await shop.v1("POST", path + "/replay", body)).data["queued"] == 0
    await shop.v1("PUT", path, {"status": "ACTIVE"})
    assert (await shop.v1("POST", path + "/replay", body)).data["queued"] == 1
    (got,) = await receiver.until(1)
    assert got.headers["X-Service-Event-Id"] == held["eventId"]


async def test_a_disabled_webhook_refuses_care(shop: Shop, receiver: Receiver) -> None:
    receiver.answers.append(web.Response(status=410))
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    (failed,) = await settled(shop, webhook, "FAILED")
    path = f"/webhooks/{webhook['id']}"
    body = {"since": failed["createdAt"]}
    again = f"/deliveries/{failed['id']}/redeliver"
    for step in (*CARE, again):
        reply = await shop.v1("POST", path + step, body)
        assert (reply.status, reply.code) == (409, "WEBHOOK_DISABLED")
    paused = await shop.v1("PUT", path, {"status": "PAUSED"})
    assert (paused.status, paused.code) == (409, "WEBHOOK_DISABLED")
    assert (await shop.v1("PUT", path, {"status": "ACTIVE"})).status == 200
    assert (await shop.v1("POST", path + "/test")).status == 202


async def test_failing_for_five_days_disables(
    tmp_path: Path, receiver: Receiver
) -> None:
    receiver.answers += [web.Response(status=500) for _ in range(11)]
    async with open_shop(tmp_path, delays=(0.0, 40_000.0, 40_000.0, 40_000.0)) as shop:
        webhook = await subscribe(shop, receiver, "products/create")
        path = f"/webhooks/{webhook['id']}"
        for round_number in range(3):
            await shop.product()
            for attempt in range(1, 5):
                failures = 4 * round_number + attempt
                if failures == 11:
                    break
                shown = await failed_times(shop, path, failures)
                assert shown["status"] == "ACTIVE"
                # 10 failures in under five days are not enough, nor are few in many.
                await advance(shop, 45_000 if failures < 10 else 2 * DAY)
        shown = await failed_times(shop, path, 11)
        assert (shown["status"], shown["disabledReason"]) == ("DISABLED", "FAILING")
        assert (await deliveries(shop, webhook))[0]["status"] == "HELD"
        enabled = (await shop.v1("PUT", path, {"status": "ACTIVE"})).data
        assert (enabled["consecutiveFailures"], enabled["disabledReason"]) == (0, None)
        await shop.product()
        await receiver.until(12)
        await settled(shop, webhook, "DELIVERED")


async def failed_times(shop: Shop, path: str, count: int) -> Any:
    while True:
        shown = (await shop.v1("GET", path)).data
        if shown["consecutiveFailures"] >= count:
            return shown


async def test_retry_after_is_honoured_up_to_a_day(
    shop: Shop, receiver: Receiver
) -> None:
    wait = web.Response(status=503, headers={"Retry-After": "9999999"})
    receiver.answers.append(wait)
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    while not (await deliveries(shop, webhook))[0]["attempts"]:
        pass
    await advance(shop, DAY - 60)
    assert len(receiver.received) == 1
    await advance(shop, 60)
    assert len(await receiver.until(2)) == 2


async def test_thirty_days_are_kept(shop: Shop, receiver: Receiver) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    await shop.product()
    await settled(shop, webhook, "DELIVERED")
    rows = shop.running.platform.reader.read
    count = "SELECT COUNT(*) FROM event"
    await advance(shop, 29 * DAY)
    await shop.product()
    await settled(shop, webhook, "DELIVERED", 2)
    await advance(shop, 2 * DAY)
    await until(lambda: rows(lambda one: one.value(count)) == 1, "one event left")
    assert len(await deliveries(shop, webhook)) == 1


@pytest.mark.parametrize("step", ["", *CARE])
async def test_care_needs_the_topics_scopes(
    shop: Shop, receiver: Receiver, step: str
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    made = await shop.control("POST", "/stores/demo/keys", {"scopes": ["orders:read"]})
    body = {"address": "http://127.0.0.1/", "since": webhook["createdAt"]}
    method = "POST" if step else "PUT"
    path = f"/webhooks/{webhook['id']}{step}"
    refused = await shop.v1(method, path, body, key=made.data["key"])
    assert (refused.status, refused.code) == (403, "INSUFFICIENT_SCOPE")
    unknown = await shop.v1(method, f"/webhooks/whk_x{step}", body)
    assert (unknown.status, unknown.code) == (404, "WEBHOOK_NOT_FOUND")


@pytest.mark.parametrize(
    "body", [{}, {"since": "today"}, {"since": "2026-01-01T00:00:00Z", "topics": ["x"]}]
)
async def test_an_invalid_replay_is_refused(
    shop: Shop, receiver: Receiver, body: Any
) -> None:
    webhook = await subscribe(shop, receiver, "products/create")
    reply = await shop.v1("POST", f"/webhooks/{webhook['id']}/replay", body)
    assert reply.status == 422


async def test_due_deliveries_are_found_without_scanning_a_backlog(shop: Shop) -> None:
    plan = shop.running.platform.reader.read(
        lambda rows: [row["detail"] for row in rows.all(f"EXPLAIN QUERY PLAN {DUE}")]
    )
    steps = [step for step in plan if step.startswith(("SEARCH d ", "SCAN d"))]
    assert [step.partition(" (")[2] for step in steps] == ["subscription_id=?)"]
