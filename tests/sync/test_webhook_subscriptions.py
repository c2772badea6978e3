"""The daemon creates and repairs its own webhook subscription, and no other."""

from __future__ import annotations

import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backhaul.core.webhook import TOPICS
from backhaul.platform.client import ReadRefused
from scenes.daemon import Office, running
from scenes.reference_shop import Shop, open_shop
from scenes.scripted_platform import unused_url
from scenes.stored import count, passes
from scenes.syncing import ON_DEMAND, full_syncs
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon

OTHER = "http://127.0.0.1:9/hook"
LISTENS = 'host = "127.0.0.1"\nport = 0'


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


@pytest.fixture
def office(shop: Shop) -> Iterator[Office]:
    """Return an office with an address that the platform can reach."""
    access = shop.running.access
    made = Office(access.public_url, access.api_key, more=ON_DEMAND)
    url = unused_url()
    port = url.rpartition(":")[2]
    listens = f'host = "127.0.0.1"\nport = {port}\nurl = "{url}"'
    made.write(**{LISTENS: listens})
    yield made
    made.remove()


@asynccontextmanager
async def running_daemon(office: Office) -> AsyncIterator[Daemon]:
    """Run the daemon until its first full sync and check of the subscription ended."""
    async with running(office) as daemon:
        await until(lambda: full_syncs(office.database) == 4, "a full sync")
        yield daemon


async def hooks(shop: Shop) -> list[Any]:
    found: list[Any] = (await shop.v1("GET", "/webhooks")).data
    return found


async def subscribed(shop: Shop) -> Any:
    """Wait until Backhaul's subscription is active; return it."""
    for _ in range(500):
        found = [h for h in await hooks(shop) if h["address"] != OTHER]
        if (
            found
            and found[0]["status"] == "ACTIVE"
            and set(TOPICS) <= set(found[0]["topics"])
        ):
            return found[0]
    raise AssertionError("there is no active subscription")


def secret_file(office: Office) -> Path:
    return office.folder / "state" / "secrets" / "main"


async def check_receipt(shop: Shop, office: Office) -> None:
    """Check that a webhook is received and accepted."""
    before = webhooks(office)
    await shop.product(sku=f"S{count(office.database, 'events')}")
    await until(lambda: webhooks(office) > before, "a webhook")


def webhooks(office: Office) -> int:
    return count(office.database, "events", source="delivery")


async def test_the_delivery_facts_of_the_platform_are_read(
    shop: Shop, office: Office
) -> None:
    async with running_daemon(office) as daemon:
        await subscribed(shop)
        await check_receipt(shop, office)
        guardian = daemon._shops["main"].subscription
        assert guardian is not None

        for _ in range(500):  # the platform records its attempt after our response
            (problem, *_) = await guardian.deliveries()
            if problem.status == "DELIVERED":
                break
        assert problem.topic == "products/create"
        assert [each.status_code for each in problem.attempts or ()] == [200]


async def test_a_test_webhook_and_a_redelivery_are_requested(
    shop: Shop, office: Office
) -> None:
    async with running_daemon(office) as daemon:
        await subscribed(shop)
        await check_receipt(shop, office)
        guardian = daemon._shops["main"].subscription
        assert guardian is not None
        before = webhooks(office)
        await guardian.send_test()
        await until(lambda: webhooks(office) > before, "the test webhook")
        for _ in range(500):  # the platform records its attempt after our response
            problem = {each.topic: each for each in await guardian.deliveries()}
            if problem["products/create"].status == "DELIVERED":
                break
        first, before = problem["products/create"], webhooks(office)
        await guardian.redeliver(first.id)
        await until(lambda: webhooks(office) > before, "the redelivery")
        with pytest.raises(ReadRefused):
            await guardian.redeliver("nothing")


async def test_a_subscription_is_made_and_its_secret_accepted(
    shop: Shop, office: Office
) -> None:
    async with running_daemon(office):
        hook = await subscribed(shop)
        assert sorted(hook["topics"]) == sorted(TOPICS)
        await check_receipt(shop, office)
        assert stat.S_IMODE(secret_file(office).stat().st_mode) == 0o600
    async with running_daemon(office):
        await check_receipt(shop, office)
        assert [each["id"] for each in await hooks(shop)] == [hook["id"]]


async def made_before(shop: Shop, office: Office) -> Any:
    async with running_daemon(office):
        return await subscribed(shop)


async def test_a_deleted_subscription_is_created_again(
    shop: Shop, office: Office
) -> None:
    hook = await made_before(shop, office)
    await shop.v1("DELETE", f"/webhooks/{hook['id']}")
    async with running_daemon(office):
        assert (await subscribed(shop))["id"] != hook["id"]
        await check_receipt(shop, office)


async def test_topics_that_were_removed_come_back(shop: Shop, office: Office) -> None:
    hook = await made_before(shop, office)
    fewer = {"topics": ["orders/create"]}
    await shop.v1("PUT", f"/webhooks/{hook['id']}", fewer)
    async with running_daemon(office):
        assert (await subscribed(shop))["id"] == hook["id"]


async def test_a_disabled_one_is_enabled(shop: Shop, office: Office) -> None:
    hook = await made_before(shop, office)
    await disable(shop, hook)
    async with running_daemon(office):
        assert (await subscribed(shop))["id"] == hook["id"]
        await check_receipt(shop, office)


async def disable(shop: Shop, hook: Any) -> None:
    """Let the platform disable a subscription, as after a 410."""

    def give_up(tx: Any) -> None:
        columns = {"status": "DISABLED", "disabled_reason": "GONE"}
        tx.update("subscription", hook["id"], columns)

    await shop.running.platform.writer.run(give_up)


async def test_a_paused_subscription_stays_paused(shop: Shop, office: Office) -> None:
    hook = await made_before(shop, office)
    await shop.v1("PUT", f"/webhooks/{hook['id']}", {"status": "PAUSED"})
    async with running_daemon(office) as daemon:
        problem = await await_problem(daemon)
        assert "paused" in problem
        assert [each["status"] for each in await hooks(shop)] == ["PAUSED"]


async def await_problem(daemon: Daemon) -> str:
    """Wait until the subscription manager reports a problem; return it."""
    for _ in range(500):
        said = (await subscriptions(daemon)).get("main")
        if said:
            return said
    raise AssertionError("the subscription manager reports nothing")


async def subscriptions(daemon: Daemon) -> dict[str, str]:
    async with httpx.AsyncClient() as client:
        status = (await client.get(f"{daemon.admin_url}/api/status")).json()
    found: dict[str, str] = status["subscriptions"]
    return found


async def test_a_wrong_secret_is_replaced(shop: Shop, office: Office) -> None:
    hook = await made_before(shop, office)
    await shop.v1("POST", f"/webhooks/{hook['id']}/rotate-secret", {})
    async with running_daemon(office) as daemon:
        await shop.product()
        await await_failure(shop, hook)
        daemon.poll_stores()
        await until(
            lambda: len(secret_file(office).read_text().split()) == 2, "a new secret"
        )
        await check_receipt(shop, office)


async def await_failure(shop: Shop, hook: Any) -> None:
    """Wait until a delivery of the platform failed."""
    for _ in range(500):
        (found,) = await hooks(shop)
        if found["consecutiveFailures"]:
            return
    raise AssertionError("no delivery failed")


async def test_a_foreign_subscription_is_left_alone(shop: Shop, office: Office) -> None:
    body = {"address": OTHER, "topics": ["orders/create"]}
    other = (await shop.v1("POST", "/webhooks", body)).data
    await shop.v1("PUT", f"/webhooks/{other['id']}", {"status": "PAUSED"})
    (before,) = await hooks(shop)
    async with running_daemon(office):
        await subscribed(shop)
    left = [hook for hook in await hooks(shop) if hook["id"] == other["id"]]
    assert left == [before]


async def test_without_an_api_the_state_says_what_to_enter(
    shop: Shop, office: Office
) -> None:
    await shop.control("PUT", "/stores/demo/quirks", {"quirks": ["no-webhook-api"]})
    async with running_daemon(office) as daemon:
        problem = await await_problem(daemon)
        assert f"{daemon.public_url}/webhooks/main" in problem
        assert all(topic in problem for topic in TOPICS)
    assert not secret_file(office).exists()


def remove_secret(office: Office) -> None:
    """Remove the webhook secret from the configuration."""
    text = office.config.read_text()
    assert "\nwebhook_secrets = " in text
    office.config.write_text(text.replace("\nwebhook_secrets = ", "\n#"))


async def test_no_secret_is_needed_where_the_daemon_subscribes(
    shop: Shop, office: Office
) -> None:
    remove_secret(office)
    for _ in range(2):
        async with running_daemon(office) as daemon:
            await subscribed(shop)
            await check_receipt(shop, office)
            assert (await subscriptions(daemon))["main"] == ""


async def test_the_webhook_is_subscribed_before_the_first_backfill(
    shop: Shop, office: Office
) -> None:
    remove_secret(office)
    async with running_daemon(office):
        (hook,) = await hooks(shop)
        began = min(one.began_at for one in passes(office.database))
        assert hook["createdAt"] < began


async def test_a_lost_secret_is_replaced(shop: Shop, office: Office) -> None:
    """The folder of the secrets was deleted, and no delivery has failed yet."""
    hook = await made_before(shop, office)
    secret_file(office).unlink()
    remove_secret(office)
    async with running_daemon(office):
        await check_receipt(shop, office)
        assert [each["id"] for each in await hooks(shop)] == [hook["id"]]


@pytest.mark.parametrize("url", [True, False], ids=["no-api", "no-url"])
async def test_without_any_secret_the_state_says_what_to_do(
    url: bool, shop: Shop, office: Office
) -> None:
    await shop.control("PUT", "/stores/demo/quirks", {"quirks": ["no-webhook-api"]})
    if not url:
        office.write()
    remove_secret(office)
    async with running_daemon(office) as daemon:
        problem = await await_problem(daemon)
        assert "every webhook is refused" in problem
        assert "stores.main.webhook_secrets" in problem
        assert daemon.public_url in problem
        assert "/webhooks/main" in problem
        assert problem.count("orders/cancelled") == 1
        assert ("[public] url" in problem) is not url
        async with httpx.AsyncClient() as client:
            answer = await client.post(f"{daemon.public_url}/webhooks/main")
        assert answer.status_code == 401


async def test_without_an_address_nothing_is_subscribed(
    shop: Shop, office: Office
) -> None:
    office.write()
    async with running_daemon(office) as daemon:
        assert await subscriptions(daemon) == {}
    assert await hooks(shop) == []
