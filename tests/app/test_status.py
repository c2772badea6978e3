"""The JSON status of the daemon, and how often daemons on one database publish it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import msgspec
import pytest

from backhaul.app.monitoring import (
    LONGEST_PUBLISH_SECONDS,
    PUBLISH_SECONDS,
    StatePublisher,
    unpublished,
)
from backhaul.settings import Settings
from scenes.clock import RunningClock
from scenes.daemon import connected
from scenes.reference_shop import open_shop

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOP = {"base_url": "https://shop.example", "api_key": "k"}
PAGE = Path(__file__).resolve().parents[2] / "docs/dashboard.md"


class Sending(msgspec.Struct, forbid_unknown_fields=True):
    """A store."""

    sending: int
    stopped: dict[str, str]
    paused: dict[str, str] | None = None


class Subscriber(msgspec.Struct, forbid_unknown_fields=True):
    """A connection that receives change notifications."""

    up: bool
    reason: str | None


class Working(msgspec.Struct, forbid_unknown_fields=True):
    """A connector."""

    up: bool
    reason: str | None
    worked_at: str | None
    notices: list[str]


class ReceiverProcess(msgspec.Struct, forbid_unknown_fields=True):
    """A process of the setting `receivers`."""

    pid: int
    restarts: int


class Status(msgspec.Struct, forbid_unknown_fields=True):
    """The whole answer."""

    started_at: str
    public_url: str
    admin_url: str
    dry_run: list[str]
    refused: dict[str, dict[str, int]]
    spooled: int
    receivers: list[ReceiverProcess]
    stores: dict[str, Sending]
    subscriptions: dict[str, str]
    jobs: dict[str, str | None]
    plans: dict[str, str]
    rules: dict[str, str]
    connectors: dict[str, Working]
    news: dict[str, Subscriber]
    rates: dict[str, float]
    mirrored: dict[str, int]
    standby: str = ""
    ownerless: list[str] = []


NEWS = """
[connectors.ears]
type = "webhook_out"
url = "http://127.0.0.1:9/news"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
[connectors.ears.network]
allow = ["127.0.0.1"]
allow_http = true
ports = [9]
"""


async def test_the_status_is_as_the_page_says(tmp_path: Path) -> None:
    async with (
        open_shop(tmp_path / "shop") as shop,
        connected(shop, NEWS) as (_, daemon),
        httpx.AsyncClient(trust_env=False) as client,
    ):
        answer = await client.get(f"{daemon.admin_url}/api/status")
    status = msgspec.json.decode(answer.content, type=Status)
    assert (set(status.stores), "ears" in status.news) == ({"main"}, True)
    assert {"courier", "bench"} <= set(status.connectors)
    assert set(status.jobs) <= set(status.plans)
    section = PAGE.read_text("utf-8").partition("## Members of `/api/status`")[2]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == {*Status.__struct_fields__}


async def test_a_daemon_of_many_stores_collects_their_states_less_often(
    tmp_path: Path,
) -> None:
    clock = RunningClock()
    published: list[Mapping[str, bytes]] = []
    settings = Settings.model_validate(
        {"state_dir": tmp_path, "stores": {"main": SHOP, "other": SHOP}}
    )
    looks = [0.001, 0.02, 0.5]
    ended = asyncio.Event()

    async def status() -> dict[str, Any]:
        if not looks:
            ended.set()
            await asyncio.Event().wait()
        await clock.sleep(looks.pop(0))
        return unpublished(settings)

    async def publish(states: Mapping[str, bytes]) -> None:
        published.append(states)

    owned: Any = SimpleNamespace(owns=lambda _: True)
    owner: Any = SimpleNamespace(ownership=owned)
    requests: Any = SimpleNamespace(publish=publish)
    publisher = StatePublisher(settings, owner, requests, status, clock)
    running = asyncio.create_task(publisher.run())
    await ended.wait()
    running.cancel()
    rests = [PUBLISH_SECONDS, pytest.approx(2.0), LONGEST_PUBLISH_SECONDS]
    assert clock.slept[1::2] == rests
    assert len(published) == 1, "nothing has changed since"
