"""A cause is told once when it begins, once when it is over, by mail and webhook."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import ValidationError
from standardwebhooks import Webhook

from backhaul.alerting.watch import Watch
from backhaul.core.clock import SystemClock
from backhaul.settings.alerts import Alerts
from backhaul.store.alerting import Alert
from support.clock import VirtualClock
from support.databases import started_store
from support.smtp_server import SmtpServer, open_smtp_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from backhaul.store.sqlite.database import SqliteStore

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PARKED = Alert("parked a1", "adjust of prod_1 (main) is parked: why", "show a1")
SILENT = Alert("silent courier", "courier has brought nothing", "look")


@dataclass(slots=True)
class Listener:
    """Takes webhooks; `answers` are given in turn, then 200."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[dict[str, Any]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        Webhook(SECRET).verify(body, dict(request.headers))
        self.got.append(json.loads(body))
        return web.Response(status=self.answers.pop(0) if self.answers else 200)


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    listener = Listener()
    app = web.Application()
    app.router.add_post("/alerts", listener.take)
    async with TestServer(app) as server:
        listener.url = str(server.make_url("/alerts"))
        yield listener


@dataclass(slots=True)
class Scene:
    """A watch with what it looks at, and those whom it tells."""

    store: SqliteStore
    mails: SmtpServer
    hooks: Listener
    now: dict[str, Alert] = field(default_factory=dict)

    def watch(self) -> Watch:
        wanted = Alerts.model_validate(
            {
                "mail_to": ["ops@shop.example", "boss@shop.example"],
                "mail_from": "backhaul@shop.example",
                "smtp_port": self.mails.port,
                "webhook_url": self.hooks.url,
                "webhook_secret": SECRET,
            }
        )

        async def look() -> Mapping[str, Alert]:
            return self.now

        # Receivers refuse a signature that is minutes old.
        clock = SystemClock()
        return Watch(wanted, self.store.alerts, look, clock, lambda: 0.5, "host-1")

    def ill(self, *alerts: Alert) -> None:
        self.now = {alert.key: alert for alert in alerts}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        started_store(tmp_path / "b.db", VirtualClock()) as store,
        open_smtp_server() as mails,
        listening() as hooks,
    ):
        yield Scene(store, mails, hooks)


async def test_a_cause_is_told_once_and_its_end_once(scene: Scene) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    for _ in range(3):
        await watch.tell()
    scene.ill()
    for _ in range(3):
        await watch.tell()
    subjects = [str(mail["Subject"]) for mail in await scene.mails.until(2)]
    assert subjects == [f"[backhaul] {PARKED.says}", f"[backhaul] over: {PARKED.says}"]
    first = scene.mails.messages[0]
    assert first["To"] == "ops@shop.example, boss@shop.example"
    assert "mend: show a1" in first.get_content()
    assert "host-1" in first.get_content()
    begun = [hook["data"]["begun"] for hook in scene.hooks.got]
    assert [[one["key"] for one in each] for each in begun] == [["parked a1"], []]


async def test_causes_of_one_look_share_a_message(scene: Scene) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    await watch.tell()
    scene.ill(SILENT)
    await watch.tell()
    _, second = await scene.mails.until(2)
    assert second["Subject"] == f"[backhaul] {SILENT.says} (and 1 more)"
    assert re.search(r"Over:\r\n- adjust of prod_1", second.get_content())


async def test_a_restart_tells_nothing_again(scene: Scene) -> None:
    scene.ill(PARKED)
    await scene.watch().tell()
    await scene.watch().tell()
    assert len(scene.hooks.got) == 1


async def test_what_did_not_get_through_is_told_again(
    scene: Scene, logged: list[dict[str, Any]]
) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    scene.hooks.answers = [500, 302]
    for _ in range(4):
        await watch.tell()
    assert len(scene.hooks.got) == 3
    actions = [line["action"] for line in logged]
    assert actions == ["alert.failed", "alert.told"]


async def test_a_mail_server_that_refuses_keeps_the_alert(scene: Scene) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    scene.mails.refusals = [b"550 no", b"550 no"]
    await watch.tell()
    assert scene.mails.messages == []
    await watch.tell()
    assert len(await scene.mails.until(1)) == 1


async def test_what_was_over_before_anybody_was_told_is_forgotten(
    scene: Scene,
) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    scene.hooks.answers = [500]
    await watch.tell()
    scene.ill()
    await watch.tell()
    assert len(scene.hooks.got) == 1


WRONG = {
    "mail_from": {"mail_to": ["a@b.example"]},
    "smtp_password": {"smtp_user": "me", "smtp_security": "tls"},
    "smtp_security": {"smtp_user": "me", "smtp_password": "x" * 9},
    "webhook_secret": {"webhook_url": "https://hooks.example"},
}


@pytest.mark.parametrize("missing", WRONG)
def test_half_a_way_is_refused_in_words(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        Alerts.model_validate(WRONG[missing])
