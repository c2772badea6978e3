"""Secrets sent and configured in every place: no log, file or output shows one."""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pytest

from support import session
from support.daemon import backhaul, connected_process
from support.databases import rows
from support.payloads import envelope, order, signed
from support.reference import reference
from support.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.daemon import DaemonProcess, Office

BODY = envelope("orders/create", order())
HEADERS = (
    *("Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token"),
    *("X-Forwarded-For", "Referer", "X-Hub-Signature", "X-Request-Id"),
)
COMMANDS = (
    ("status", "--json"),
    ("secrets", "list", "--json"),
    ("secrets", "list"),
    ("events", "list", "--json"),
    ("events", "show", "1"),
    ("commands", "list", "--json"),
    ("quarantine", "list", "--json"),
    ("why", "#1001"),
    ("capture", "-"),
    ("check-config",),
    ("--debug", "check-config"),
    ("query", "SELECT * FROM events"),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """A daemon that was sent canaries, and all of them."""

    daemon: DaemonProcess
    canaries: list[str]

    @property
    def office(self) -> Office:
        return self.daemon.office


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with (
        reference(tmp_path_factory.mktemp("platform")) as platform,
        connected_process(platform) as daemon,
    ):
        office = daemon.office
        known = [office.api_key, office.webhook_secret, office.device_token]
        yield Scene(daemon, known + sent(daemon))


def sent(daemon: DaemonProcess) -> list[str]:
    """Send a canary in every place that a webhook and a scan have; return them all."""
    live = daemon.office.live() or {}
    hook, canaries = f"{live['public_url']}/webhooks/main", []
    scan = f"{live['public_url']}/connect/bench/scan"

    def canary() -> str:
        canaries.append(f"canary{secrets.token_hex(12)}")
        session.issued(canaries[-1])
        return canaries[-1]

    right = signed(BODY, daemon.office.webhook_secret.encode())
    (signature,) = (name for name in right if name != "Content-Type")
    with httpx.Client(trust_env=False) as client:

        def post(url: str, status: set[int], **given: object) -> None:
            assert client.post(url, **given).status_code in status  # type: ignore[arg-type]  # whatever httpx takes

        for name in HEADERS:
            post(hook, {200}, content=BODY, headers={**right, name: canary()})
        post(hook, {200}, content=BODY, headers=right, params={"token": canary()})
        post(hook, {401}, content=BODY, headers={signature: canary()})
        post(hook, {401}, content=f'{{"key":"{canary()}"}}'.encode())
        post(f"{live['public_url']}/webhooks/{canary()}", {401}, content=BODY)
        post(f"{live['public_url']}/{canary()}", {404}, content=BODY)
        bad = {"Content-Encoding": canary()}
        post(hook, {415}, content=BODY, headers={**right, **bad})
        for scheme in ("Bearer", "Basic", "bearer"):
            wrong = {"Authorization": f"{scheme} {canary()}"}
            post(scan, {401}, json={"code": "1001"}, headers=wrong)
        post(scan, {401}, json={"code": "1001"}, params={"token": canary()})
        device = {"Authorization": f"Bearer {daemon.office.device_token}"}
        post(scan, {200, 422}, json={"mode": "pack", "code": "1001"}, headers=device)
    return canaries


def shown_in(files: list[Path], scene: Scene) -> list[str]:
    return list(session.hits(files, scene.canaries))


def test_no_log_shows_one(scene: Scene) -> None:
    query = "SELECT count(*) FROM events WHERE state = 'received'"
    await_true(
        lambda: rows(scene.office.database, query) == [(0,)], "everything is folded"
    )
    assert scene.daemon.log.stat().st_size > 0
    assert shown_in([scene.daemon.log], scene) == []


def test_no_file_of_the_state_shows_one(scene: Scene) -> None:
    folder = scene.office.database.parent
    files = [path for path in folder.iterdir() if path.is_file()]
    assert {path.suffix for path in files} >= {".db", ".db-wal"}
    assert shown_in(files, scene) == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_shows_one(
    command: tuple[str, ...], scene: Scene, tmp_path: Path
) -> None:
    said = backhaul(*command, config=scene.office.config)
    assert said.out or said.err
    shown = tmp_path / "shown"
    shown.write_text(said.out + said.err)
    assert shown_in([shown], scene) == []


def test_a_daemon_that_cannot_start_shows_none(scene: Scene, tmp_path: Path) -> None:
    """Wrong settings, and a platform that does not know the key."""
    shown = tmp_path / "shown"
    config = tmp_path / "backhaul.toml"
    text = scene.office.config.read_text()
    state = str(scene.office.folder / "state")
    for wrong in ("[public]\nhots = 1", "[log]\nlevel = 7\n[public]"):
        said_wrong = text.replace("[public]", wrong, 1)
        config.write_text(said_wrong.replace(state, str(tmp_path / "state")))
        said = backhaul("--debug", "run", config=config)
        assert said.code == 78
        shown.write_text(said.out + said.err)
        assert shown_in([shown], scene) == []


def test_the_live_state_shows_none(scene: Scene, tmp_path: Path) -> None:
    live = scene.office.live() or {}
    shown = tmp_path / "shown"
    with contextlib.closing(httpx.Client(trust_env=False)) as client:
        paths = ("/healthz", "/readyz", "/api/status", "/nothing")
        answers = [client.get(live["admin_url"] + path).text for path in paths]
    shown.write_text(json.dumps(live) + "\n".join(answers))
    assert shown_in([shown], scene) == []
