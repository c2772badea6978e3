"""The JSON status of the daemon has the members that the documentation lists."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import msgspec

from scenes.daemon import connected
from scenes.reference_shop import open_shop

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
