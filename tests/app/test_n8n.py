"""An n8n workflow fulfills each order of a real platform once."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from standardwebhooks import Webhook

from backhaul.core.clock import SystemClock
from scenes.api import issue_by_command
from scenes.daemon import connected
from scenes.fault_proxy import fault_proxy, reset_after
from scenes.n8n import n8n
from scenes.postgres import postgres
from scenes.reference_shop import open_shop
from scenes.stored import COMMANDS_AND_TARGETS, rows_of, values_of
from scenes.waiting import HANG_SECONDS, PAUSE_SECONDS, until
from scenes.wheels import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

# a run that installs n8n takes a quarter of an hour
pytestmark = [pytest.mark.programs, pytest.mark.timeout(3_600)]

WORKFLOW = ROOT / "docs" / "examples" / "n8n" / "fulfill-orders.json"
EXAMPLE_API = "http://127.0.0.1:8751"
EXAMPLE_SECRET = "whsec_cmVwbGFjZS1tZS13aXRoLTMyLXJhbmRvbS1ieXRlcw=="
CLOCK = SystemClock()
SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
OTHER_SECRET = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
HOOK = "/webhook/backhaul-orders"
CONFIGURATION = """
[connectors.n8n]
type = "webhook_out"
url = "{url}{hook}"
secrets = ["{secret}"]
topics = ["order.placed"]
network = {{ allow = ["127.0.0.1"], ports = [{port}], allow_http = true }}
"""


@pytest.fixture
def database() -> Iterator[str]:
    with postgres() as server:
        yield server.new_database()


def workflow(api: str) -> dict[str, Any]:
    """Return the workflow of the documentation with the values of this test."""
    text = WORKFLOW.read_text()
    for example, own in ((EXAMPLE_API, api), (EXAMPLE_SECRET, SECRET)):
        assert text.count(example) == 1, example
        text = text.replace(example, own)
    made: dict[str, Any] = json.loads(text)
    return made


async def test_each_order_is_fulfilled_once(tmp_path: Path, database: str) -> None:
    folder = tmp_path / "n8n"
    folder.mkdir()
    async with (
        n8n(folder, database) as running,
        fault_proxy(running.url) as proxy,
        open_shop(tmp_path / "shop") as shop,
    ):
        port = httpx.URL(proxy.url).port
        more = CONFIGURATION.format(url=proxy.url, hook=HOOK, secret=SECRET, port=port)
        async with connected(shop, more) as (office, daemon):
            await running.import_token(await issue_by_command(office))
            await running.publish(workflow(daemon.admin_url))
            await running.start()
            await until_it_listens(running.url)
            # n8n has done everything, but Backhaul gets no response
            proxy.once[b"order.placed"] = reset_after
            product = await shop.product()
            order = await shop.order(product)
            await until(
                lambda: (
                    [each.forwarded for each in proxy.requests("POST")] == [True] * 2
                ),
                "n8n has answered twice",
            )
            await until(
                lambda: (
                    rows_of(office.place, COMMANDS_AND_TARGETS, "kind", "state")
                    == [("fulfill", "applied")]
                ),
                "the command is applied",
            )
            sent = [logged.passing.head.lower() for logged in proxy.requests("POST")]
            assert len({_id_of(head) for head in sent}) == 1
            assert values_of(office.place, "records", "instance") == ["api"]
            body, now = proxy.log[0].passing.body, CLOCK.now()
            assert await posted(running.url, body, OTHER_SECRET, now) == 401
            an_hour_ago = now - timedelta(hours=1)
            assert await posted(running.url, body, SECRET, an_hour_ago) == 401
            assert values_of(office.place, "records", "instance") == ["api"]
        shown = (await shop.v1("GET", f"/orders/{order['id']}")).data
    assert shown["fulfillmentStatus"] == "FULFILLED"
    assert [each["trackingNumber"] for each in shown["shipments"]] == ["N8N1001"]


def _id_of(head: bytes) -> bytes:
    (line,) = (each for each in head.split(b"\r\n") if each.startswith(b"webhook-id:"))
    return line


async def until_it_listens(url: str) -> None:
    """Wait until n8n loaded the workflow, which is later than its ready message."""
    async with asyncio.timeout(HANG_SECONDS):
        while await posted(url, b"{}", OTHER_SECRET, CLOCK.now()) == 404:
            await CLOCK.sleep(PAUSE_SECONDS)


async def posted(url: str, body: bytes, secret: str, at: datetime) -> int:
    """Post a message that is not from Backhaul; return the status."""
    headers = {
        "webhook-id": "forged",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("forged", at, body.decode()),
        "content-type": "application/json",
    }
    async with httpx.AsyncClient(timeout=HANG_SECONDS) as client:
        answer = await client.post(url + HOOK, content=body, headers=headers)
    return answer.status_code
