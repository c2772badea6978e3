"""Alerts are sent once when a problem begins and once when it ends."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from loguru import logger
from pydantic import ValidationError
from standardwebhooks import Webhook

from backhaul.alerting.notifications import LISTED, Notifier
from backhaul.core.clock import SystemClock
from backhaul.errors import Busy
from backhaul.settings.infrastructure import AlertSettings
from backhaul.store import database_at
from backhaul.store.operations import Alert
from backhaul.store.sqlite.database import SqliteStore
from scenes.clock import VirtualClock
from scenes.databases import started_store
from scenes.smtp_server import SmtpServer, open_smtp_server
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PARKED = Alert("parked a1", "adjust of prod_1 (main) is parked: why", "show a1")
AT = "2026-03-01T12:00:00.000Z"
SILENT = Alert("silent courier", "courier has brought nothing", "look")


@dataclass(slots=True)
class Listener:
    """Takes webhooks; `answers` are given in turn, then 200."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    got: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        Webhook(SECRET).verify(body, dict(request.headers))
        self.got.append(json.loads(body))
        self.ids.append(request.headers["webhook-id"])
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
    clock: VirtualClock
    now: dict[str, Alert] = field(default_factory=dict)
    unreadable: bool = False
    looks: int = 0

    def watch(self, **settings: str | None) -> Notifier:
        wanted = AlertSettings.model_validate(
            {
                "mail_to": ["ops@shop.example", "boss@shop.example"],
                "mail_from": "backhaul@shop.example",
                "smtp_port": self.mails.port,
                "webhook_url": self.hooks.url,
                "webhook_secret": SECRET,
                **settings,
            }
        )

        async def look() -> Mapping[str, Alert]:
            self.looks += 1
            if self.unreadable:
                raise Busy("the database cannot be read")
            return self.now

        # Receivers refuse a signature that is minutes old.
        clock = SystemClock()
        return Notifier(wanted, self.store.alerts, look, clock, "host-1")

    def ill(self, *alerts: Alert) -> None:
        self.now = {alert.key: alert for alert in alerts}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    clock = VirtualClock()
    async with (
        started_store(tmp_path / "b.db", clock) as store,
        open_smtp_server() as mails,
        listening() as hooks,
    ):
        yield Scene(store, mails, hooks, clock)


async def test_a_cause_is_notified_once_and_its_end_once(scene: Scene) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    for _ in range(3):
        await watch.notify()
    scene.ill()
    for _ in range(3):
        await watch.notify()
    subjects = [str(mail["Subject"]) for mail in await scene.mails.until(2)]
    assert subjects == [
        f"[backhaul] {PARKED.text}",
        f"[backhaul] resolved: {PARKED.text}",
    ]
    first = scene.mails.messages[0]
    assert first["To"] == "ops@shop.example, boss@shop.example"
    assert "what to do: show a1" in first.get_content()
    assert "host-1" in first.get_content()
    begun = [hook["data"]["begun"] for hook in scene.hooks.got]
    assert [[one["key"] for one in each] for each in begun] == [["parked a1"], []]


async def test_causes_of_one_check_share_a_message(scene: Scene) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    await watch.notify()
    scene.ill(SILENT)
    await watch.notify()
    _, second = await scene.mails.until(2)
    assert second["Subject"] == f"[backhaul] {SILENT.text} (and 1 more)"
    assert re.search(r"Resolved:\r\n- adjust of prod_1", second.get_content())


async def test_many_causes_of_a_kind_are_counted_in_one_message(scene: Scene) -> None:
    many = [Alert(f"parked a{n}", f"command a{n} is parked", "show") for n in range(8)]
    watch = scene.watch()
    scene.ill(*many, SILENT)
    await watch.notify()
    scene.ill(SILENT)
    await watch.notify()
    begun, over = [mail.get_content() for mail in await scene.mails.until(2)]
    assert begun.count("is parked") == over.count("is parked") == LISTED
    more = "- and 3 more (parked)"
    assert f"{more}\r\n  list them: backhaul commands list --state parked" in begun
    assert SILENT.text in begun
    assert more in over
    assert [len(hook["data"]["over"]) for hook in scene.hooks.got] == [0, 8]


async def test_a_cause_that_cannot_be_read_is_not_over(
    scene: Scene, logged: list[dict[str, Any]], tmp_path: Path
) -> None:
    scene.ill(PARKED)
    await scene.watch().notify()
    with pytest.raises(Busy, match="cannot read from the database"):
        await SqliteStore(
            tmp_path / "absent.db", SystemClock()
        ).alert_conditions.current([])
    scene.unreadable = True
    running = asyncio.create_task(scene.watch(every="1ms").run())
    await until(lambda: logged[-1]["action"] == "alert.busy", "it could not look")
    running.cancel()
    scene.unreadable = False
    await scene.watch().notify()
    assert len(scene.hooks.got) == 1


async def test_an_unexpected_error_ends_no_watch(
    scene: Scene, logged: list[dict[str, Any]]
) -> None:
    """Nor the daemon, which would end at each start."""
    scene.ill(Alert("down erp", "erp cannot work: no database holds \ud83d", "look"))
    running = asyncio.create_task(scene.watch(every="1ms").run())
    await until(lambda: scene.looks > 3 or running.done(), "it looks again")
    scene.ill(PARKED)
    await until(lambda: bool(scene.hooks.got) or running.done(), "it tells")
    running.cancel()
    assert [line["action"] for line in logged].count("alert.broken") == 1
    assert scene.hooks.got[0]["data"]["begun"][0]["key"] == PARKED.key


async def test_a_restart_notifies_nothing_again(scene: Scene) -> None:
    scene.ill(PARKED)
    await scene.watch().notify()
    await scene.watch().notify()
    assert len(scene.hooks.got) == 1


async def test_a_failed_notification_is_sent_again(
    scene: Scene, logged: list[dict[str, Any]]
) -> None:
    scene.ill(PARKED)
    scene.hooks.answers = [500, 302]
    watch = scene.watch()
    for _ in range(4):
        await watch.notify()
    assert len(scene.hooks.got) == 3
    told = [(line["action"], line["way"]) for line in logged]
    assert told == [
        ("alert.sent", "mail"),
        ("alert.failed", "webhook"),
        ("alert.sent", "webhook"),
    ]


async def test_a_webhook_that_refuses_sends_no_mail_again(scene: Scene) -> None:
    scene.ill(PARKED)
    scene.hooks.answers = [500, 500]
    await scene.watch().notify()
    await scene.watch().notify()
    await scene.watch().notify()
    assert len(scene.mails.messages) == 1
    assert len(scene.hooks.got) == 3


async def test_mail_that_is_refused_keeps_no_webhook_back(scene: Scene) -> None:
    scene.ill(PARKED)
    scene.mails.refusals = [b"550 no", b"550 no"]
    await scene.watch().notify()
    assert scene.mails.messages == []
    assert len(scene.hooks.got) == 1
    await scene.watch().notify()
    assert len(await scene.mails.until(1)) == 1
    assert len(scene.hooks.got) == 1


async def test_a_recipient_that_the_mail_server_refuses_is_named(
    scene: Scene, logged: list[dict[str, Any]]
) -> None:
    scene.ill(PARKED)
    scene.mails.refusals = [b"550 nobody here"]
    await scene.watch().notify()
    # The other one has it, and gets it no second time.
    await scene.watch().notify()
    assert len(scene.mails.messages) == 1
    (refused,) = [line for line in logged if line["action"] == "alert.refused"]
    assert "refused the alert for ops@shop.example: nobody here" in refused["message"]


async def test_a_message_keeps_its_id_until_it_is_delivered(scene: Scene) -> None:
    """So that a receiver whose answer was lost knows it again; no other has it."""
    scene.hooks.answers = [500, 500, 200, 500]
    scene.ill(PARKED)
    for _ in range(3):
        await scene.watch().notify()
    for now in ((), (), (PARKED,), ()):
        await scene.clock.advance(60)
        scene.ill(*now)
        await scene.watch().notify()
    begun, over = scene.hooks.ids[0], scene.hooks.ids[3]
    again, over_again = scene.hooks.ids[5:]
    assert scene.hooks.ids[:5] == [begun, begun, begun, over, over]
    assert len({begun, over, again, over_again}) == 4


async def test_a_new_channel_is_notified_of_earlier_causes(scene: Scene) -> None:
    scene.ill(PARKED)
    await scene.watch(webhook_url=None, webhook_secret=None).notify()
    await scene.watch().notify()
    assert len(scene.mails.messages) == len(scene.hooks.got) == 1
    scene.ill()
    await scene.watch(webhook_url=None, webhook_secret=None).notify()
    await scene.watch().notify()
    assert len(scene.hooks.got) == 1


UNHEARD = ["a..b", f"{'a' * 64}.b", "a\0b", "1.2.3.4.5"]


@pytest.mark.parametrize("host", UNHEARD, ids=repr)
async def test_a_host_that_cannot_be_looked_up_ends_nothing(
    scene: Scene, logged: list[dict[str, Any]], host: str
) -> None:
    """Settings refuse such hosts, but what they let pass must end nothing either."""
    scene.ill(PARKED)
    watch = scene.watch()
    watch._settings = watch._settings.model_copy(
        update={"smtp_host": host, "webhook_url": f"http://{host}"}
    )
    await watch.notify()
    failed = [line["way"] for line in logged if line["action"] == "alert.failed"]
    assert failed == ["mail", "webhook"]
    await scene.watch().notify()
    assert len(scene.mails.messages) == len(scene.hooks.got) == 1


@pytest.mark.parametrize("key", ["smtp_host", "webhook_url"])
def test_settings_refuse_a_host_with_an_empty_part(key: str) -> None:
    value = {"smtp_host": "mail..shop", "webhook_url": "https://hooks..shop"}[key]
    with pytest.raises(ValidationError, match=r"URL|address"):
        AlertSettings.model_validate({key: value, "webhook_secret": SECRET})


@pytest.mark.parametrize("answer", [404, None])
async def test_a_hook_that_fails_is_named_without_its_path(
    scene: Scene, answer: int | None
) -> None:
    """It is logged, and who knows the path of a chat's hook writes to the chat."""
    url = scene.hooks.url if answer else "http://127.0.0.1:9/alerts"
    scene.hooks.answers.append(answer or 200)
    scene.ill(PARKED)
    said: list[str] = []
    sink = logger.add(lambda message: said.append(message.record["message"]))
    await scene.watch(webhook_url=url).notify()
    logger.remove(sink)
    (told,) = (each for each in said if each.startswith("an alert could not be sent"))
    assert f"webhook at {urlsplit(url).netloc}: " in told
    assert "/alerts" not in told


@pytest.mark.parametrize("address", ["ops@[10.0.0.1", ":;@shop.example", "():@x"])
def test_settings_refuse_an_address_that_no_letter_can_bear(address: str) -> None:
    """The first cause to be told of would have ended the daemon, at each start."""
    with pytest.raises(ValidationError, match="is not an e-mail address"):
        AlertSettings.model_validate(
            {"mail_to": [address], "mail_from": "a@shop.example"}
        )
    kept = AlertSettings.model_validate(
        {"mail_to": ["ops@[10.0.0.1]"], "mail_from": "a@x"}
    )
    assert kept.mail_to == ("ops@[10.0.0.1]",)


async def test_a_cause_that_ended_before_its_notification_is_removed(
    scene: Scene,
) -> None:
    watch = scene.watch()
    scene.ill(PARKED)
    scene.hooks.answers = [500]
    await watch.notify()
    scene.ill()
    await watch.notify()
    assert len(scene.hooks.got) == 1
    assert len(scene.mails.messages) == 2
    await watch.notify()
    assert database_at(scene.store.path).row_counts()["alerts"] == 0


WRONG = {
    "mail_from": {"mail_to": ["a@b.example"]},
    "smtp_password": {"smtp_user": "me", "smtp_security": "tls"},
    "smtp_security": {"smtp_user": "me", "smtp_password": "x" * 9},
    "webhook_secret": {"webhook_url": "https://hooks.example"},
}


@pytest.mark.parametrize("missing", WRONG)
def test_half_a_way_is_refused_in_words(missing: str) -> None:
    with pytest.raises(ValidationError, match=missing):
        AlertSettings.model_validate(WRONG[missing])
