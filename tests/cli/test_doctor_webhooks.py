"""What `backhaul doctor` reports about the platform's test webhook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backhaul.cli import context
from backhaul.doctor import Result, State
from backhaul.doctor.webhooks import RoundTrip
from backhaul.platform.client import PlatformClient
from backhaul.platform.transport import Limits, Transport
from scenes.clock import RunningClock
from scenes.databases import fold_all, started_store
from scenes.mirror_files import lone_office
from scenes.payloads import arrival, envelope
from scenes.pushing import Platform
from scenes.scripted_platform import document, serving

if TYPE_CHECKING:
    from scenes.scripted_platform import Connection, Request

LIMITS = Limits(connect_seconds=2.0, read_seconds=2.0, max_response_bytes=1_000_000)
AT = "http://127.0.0.1:1"
HOOK = {"id": "whk_1", "address": f"{AT}/webhooks/main", "topics": []}
MADE = {"id": "dlv_1", "eventId": "evt_1", "attempts": []}


def delivered(status: int | None) -> bytes:
    attempt = {"at": "2026-03-01T12:00:00Z", "statusCode": status, "error": "x"}
    return document({"data": MADE | {"attempts": [attempt]}})


async def examined(
    body: bytes = b"",
    topic: str = "",
    status: int = 200,
    counted: tuple[dict[str, int], dict[str, int]] = ({}, {}),
) -> Result:
    """Check a platform whose test delivery had this result, stored if it has a body.

    `counted` is the number of refused webhooks before and after.
    """
    with lone_office() as office:
        settings, clock = context.settings(office.config), RunningClock()
        platform, counts = Platform(), iter([counted[0]])
        platform.respond("/webhooks", document({"data": [HOOK]}))
        platform.respond("/webhooks/whk_1/deliveries/dlv_1", delivered(status))
        async with (
            started_store(office.database) as store,
            serving(platform) as server,
        ):
            transport = Transport(server.url, "svc_live_doctor", LIMITS, clock)
            looked = RoundTrip(
                settings,
                "main",
                transport,
                PlatformClient(transport),
                clock,
                AT,
                lambda: next(counts, counted[1]),
            )

            async def deliver(_: Request, connection: Connection) -> None:
                if body:
                    await store.inbox.append(arrival(body, topic))
                    await fold_all(store)
                await connection.send(document({"data": MADE}))

            platform.respond("/webhooks/whk_1/test", deliver)
            found = await looked.run()
            await transport.close()
        return found


OURS: list[tuple[str, int, str, str]] = [
    ("encoded", 415, "compressed", "at the proxy"),
    ("doubled", 401, "was there twice", "unchanged"),
    ("unsigned", 401, "was missing", "pass X-Service-Hmac-Sha256 through"),
    ("refused", 401, "another secret", "stores.main.webhook_secrets"),
    ("large", 413, "too large", "max_body_bytes"),
    ("slow", 408, "too long", "request_seconds"),
    ("busy", 503, "could not store", "backhaul status"),
]


@pytest.mark.parametrize(("kind", "status", "why", "fix"), OURS)
async def test_a_delivery_that_the_daemon_refused_is_named_as_its_own(
    kind: str, status: int, why: str, fix: str
) -> None:
    found = await examined(status=status, counted=({kind: 4}, {kind: 5}))
    assert found.state is State.FAIL
    assert found.said.startswith("this daemon refused")
    assert why in found.said
    assert fix in found.fix
    assert "firewall" not in found.fix


@pytest.mark.parametrize(("kind", "status", "_why", "_fix"), OURS)
async def test_a_status_without_a_refusal_of_ours_comes_from_another_server(
    kind: str, status: int, _why: str, _fix: str
) -> None:
    found = await examined(status=status, counted=({kind: 4}, {kind: 4}))
    assert "not by this daemon" in found.said
    assert "firewall" in found.fix


async def test_a_test_delivery_with_its_topic_is_well() -> None:
    body = envelope("webhooks/test", {"webhookId": "whk_1"})
    assert (await examined(body)).state is State.OK


@pytest.mark.parametrize("topic", ["", "Webhooks/Test ", "some/thing"])
async def test_a_bare_test_delivery_is_known_by_its_body(topic: str) -> None:
    body = json.dumps({"webhookId": "whk_1", "test": True}).encode()
    found = await examined(body, topic)
    assert "arrived" in found.said
    assert found.state is (State.OK if topic else State.WARN)
    assert topic or "X-Service-Topic" in found.fix


async def test_any_other_delivery_shows_that_webhooks_come_in() -> None:
    found = await examined(json.dumps({"ping": 1}).encode())
    assert found.state is State.WARN
    assert "event 1 arrived" in found.said
    assert "firewall" not in found.fix


async def test_nothing_at_all_points_to_the_way() -> None:
    found = await examined()
    assert found.state is State.FAIL
    assert "no test delivery arrived" in found.said
