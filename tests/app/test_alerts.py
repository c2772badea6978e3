"""A running daemon sends alerts about its problems and about their end."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from backhaul.core.clock import to_text
from scenes import payloads
from scenes.clock import START
from scenes.daemon import connected
from scenes.damaged_rows import delete_rows, insert, overwrite
from scenes.databases import event_states
from scenes.reference_shop import Shop, open_shop
from scenes.stored import job_state
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from backhaul.app.daemon import Daemon
    from scenes.daemon import Office

ALERTED = """
[jobs.backup]
every = "1d"
folder = "{folder}/backups"
[alerts]
every = "20ms"
webhook_url = "{url}"
webhook_secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
"""


@asynccontextmanager
async def alert_receiver() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Run a server that receives the alerts for an operator."""
    alerts: list[dict[str, Any]] = []

    async def take(request: web.Request) -> web.Response:
        alerts.append((await request.json())["data"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    async with TestServer(app) as server:
        yield str(server.make_url("/")), alerts


@asynccontextmanager
async def alerted(
    shop: Shop, folder: Path
) -> AsyncIterator[tuple[Office, Daemon, list[dict[str, Any]]]]:
    """Run a daemon that sends alerts to an operator; yield the alerts too."""
    async with alert_receiver() as (url, alerts):
        more = ALERTED.format(folder=folder, url=url)
        async with connected(shop, more) as (office, daemon):
            yield office, daemon, alerts


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "shop") as opened:
        yield opened


def texts_of(alerts: list[dict[str, Any]], what: str) -> list[str]:
    return [one["key"] for data in alerts for one in data[what]]


async def test_failing_backups_are_notified_until_one_succeeds(
    shop: Shop, tmp_path: Path
) -> None:
    """A file is in place of the backups' folder. PostgreSQL has its own backups."""
    blocked = tmp_path / "backups"
    blocked.touch()
    async with alerted(shop, tmp_path) as (office, daemon, alerts):
        await daemon._jobs.run("backup", None, "otto")
        await until(lambda: "backup failed" in texts_of(alerts, "begun"), "the alert")
        assert job_state(office.place, "backup").outcome == "failed"
        blocked.unlink()
        await daemon._jobs.run("backup", None, "otto")
        await until(lambda: "backup failed" in texts_of(alerts, "over"), "over")
        assert {path.suffix for path in blocked.iterdir()} == {".db", ".json"}
        long_ago = to_text(START)
        overwrite(office.place, "job_state", {"since": long_ago}, job="backup")
        overwrite(office.place, "job_runs", {"started_at": long_ago}, job="backup")
        await until(lambda: "backup late" in texts_of(alerts, "begun"), "it is late")
    assert texts_of(alerts, "begun").count("backup failed") == 1


@pytest.mark.usefixtures("engine")
async def test_webhooks_of_another_store_are_notified_once(
    shop: Shop, tmp_path: Path
) -> None:
    async with alerted(shop, tmp_path) as (office, daemon, alerts):
        for total in ("1.00", "2.00"):
            order = payloads.order(total=total)
            news = payloads.envelope("orders/create", order, storeId="sto_other")
            headers = payloads.signed(news, office.webhook_secret.encode())
            url = f"{daemon.public_url}/webhooks/main"
            async with httpx.AsyncClient() as platform:
                answer = await platform.post(url, content=news, headers=headers)
            assert answer.status_code == 200
        await until(lambda: "stranger main" in texts_of(alerts, "begun"), "the alert")
        await until(
            lambda: event_states(office.place).count("unhandled") == 2,
            "both",
        )
    assert texts_of(alerts, "begun").count("stranger main") == 1


@pytest.mark.usefixtures("engine")
async def test_stopped_counts_are_notified_until_an_operator_resumes_them(
    shop: Shop, tmp_path: Path
) -> None:
    async with alerted(shop, tmp_path) as (office, _, alerts):
        stop = {"name": "targets:stopped:main", "value": "two moved"}
        insert(office.place, "kv", **stop)
        await until(lambda: "counts main" in texts_of(alerts, "begun"), "the alert")
        delete_rows(office.place, "kv", **stop)
        await until(lambda: "counts main" in texts_of(alerts, "over"), "over")
    assert texts_of(alerts, "begun").count("counts main") == 1
