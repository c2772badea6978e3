"""A daemon whose every secret is a canary, with servers that echo what they receive.

No secret is in its output, files or requests, except where it belongs.
"""

from __future__ import annotations

import json
import re
import ssl
import tarfile
import tomllib
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from backhaul.connect import registry
from backhaul.settings import Settings, sources
from connectors.lining import certificate
from dashboard.test_roles import EXPECTED
from scenes import leftovers
from scenes.daemon import (
    DaemonProcess,
    Office,
    backhaul,
    connected_process,
    in_process,
)
from scenes.payloads import envelope, order, signed
from scenes.reference_process import reference
from scenes.stored import count
from scenes.waiting import await_true
from zz_secrets import planted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.programs,
    # The client of brokers drops its socket unclosed where TLS fails.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <ssl:pytest.PytestUnraisableExceptionWarning"
    ),
]
NAME = "ada"
SHOWN = (
    *(("status",), ("doctor",), ("connectors", "list"), ("secrets", "list")),
    *(("events", "list"), ("commands", "list"), ("quarantine", "list")),
)
COMMANDS = (
    *SHOWN,
    *((*command, "--json") for command in SHOWN if command != ("doctor",)),
    *(("check-config",), ("--debug", "check-config"), ("jobs", "list")),
    *(("users", "list"), ("events", "show", "1"), ("search", "1001")),
    *(("connectors", "check", name) for name in ("parcels", "other_table", "far")),
    *(("connectors", "check", name) for name in ("odoo", "odoo_json", "erpnext")),
    *(("connectors", "run", name) for name in ("erp", "tryton", "odoo", "odoo_json")),
    ("connectors", "run", "erpnext"),
    *(("capture", "-"), ("export", "orders"), ("export", "records")),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """A daemon that has been refused everywhere, and all that it said meanwhile."""

    daemon: DaemonProcess
    known: list[str]
    password: str
    mails: list[bytes]
    heard: list[str]
    shown: Path

    @property
    def office(self) -> Office:
        return self.daemon.office

    @property
    def live(self) -> dict[str, Any]:
        return self.office.read_status() or {}

    def leaks(self, name: str, said: str | bytes) -> list[str]:
        """Return what is shown that nobody should see."""
        file = self.shown / re.sub(r"\W+", "-", name)
        file.write_bytes(said if isinstance(said, bytes) else said.encode())
        return list(leftovers.hits([file], self.known))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("everywhere")
    secrets, file = planted.canaries(), certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, folder / "tls.key")
    with (
        planted.parrot() as (port, heard),
        planted.mailbox(context) as (mail_port, mails),
        reference(folder / "platform") as platform,
        connected_process(
            platform,
            planted.configuration(secrets, folder, port, mail_port),
            {"SSL_CERT_FILE": str(file)},
        ) as daemon,
    ):
        office = daemon.office
        own = [office.api_key, office.webhook_secret, office.device_token]
        known = [*planted.spellings(secrets), *own, *planted.sent(daemon)]
        scene = Scene(daemon, known, secrets["password"], mails, heard, folder)
        work(scene, secrets)
        yield scene


def work(scene: Scene, secrets: dict[str, str]) -> None:
    """Let it work, err and be refused; a person logs in, and another tries."""
    user = {"name": NAME, "role": "admin", "password": secrets["password"]}
    transport = httpx.HTTPTransport(
        uds=str(scene.office.folder / "state/backhaul.sock")
    )
    with httpx.Client(transport=transport, base_url="http://backhaul") as owner:
        added = owner.post("/api/changes/users/add", json=user | {"who": "the test"})
        assert added.status_code == 200, added.text
    hook, body = f"{scene.live['public_url']}/webhooks/main", envelope("x/y", order())
    with httpx.Client(trust_env=False) as client:
        right = signed(body, scene.office.webhook_secret.encode())
        assert client.post(hook, content=body, headers=right).status_code == 200
        form = {"name": NAME, "password": secrets["wrong_password"]}
        headers = {"Sec-Fetch-Site": "same-origin"}
        login = f"{scene.live['admin_url']}/login"
        assert client.post(login, data=form, headers=headers).status_code == 401
    scene.office.put("fulfillments-1.csv", "order,tracking_number", "9999,T1")
    await_true(lambda: len(scene.mails) > 0, "a mail, after a login was refused", 60)
    refused = {"/erp/shipped", "/erp/rpc/", "/parcels/", "/alerts"}
    await_true(
        lambda: all(any(path in one for one in scene.heard) for path in refused),
        "everybody was refused",
        60,
    )
    await_true(lambda: count(scene.office.database, "events"), "an event")


def test_every_secret_that_can_be_set_is_a_canary(tmp_path: Path) -> None:
    text = planted.configuration(planted.canaries(), tmp_path, 1, 2)
    read = tomllib.loads(text)
    given: dict[str, set[str]] = {name: set() for name in registry.known_types()}
    for connector in read["connectors"].values():
        given[connector["type"]] |= {*connector}
    for type_, names in given.items():
        # The tokens of devices have one in every daemon of these tests.
        assert registry.secret_fields(type_) - names <= {"devices"}, type_
    alerts = sources.section_at(("alerts",), Settings)
    assert alerts is not None
    assert {*sources.secret_names(alerts)} <= {*read["alerts"]}


def test_those_that_were_shown_them_have_heard_them(scene: Scene) -> None:
    """Else nothing of what follows could fail."""
    heard = "\n".join(scene.heard)
    found = [secret for secret in scene.known if secret in heard]
    assert len(found) >= 3, "a key, a token and a password went over the line"
    assert any(b"backhaul" in mail for mail in scene.mails)


def test_no_log_shows_one(scene: Scene) -> None:
    said = scene.daemon.log.read_bytes()
    assert b"connector.down" in said
    assert scene.leaks("log", said) == []


def test_no_command_shows_one(scene: Scene) -> None:
    found: dict[str, list[str]] = {}
    for command in COMMANDS:
        said = in_process(*command, config=scene.office.config)
        name = " ".join(command)
        assert said.code not in {2, 70}, (name, said.err)
        found[name] = scene.leaks(f"cli {name}", said.out + said.err)
    assert {name: leaks for name, leaks in found.items() if leaks} == {}


def test_a_daemon_that_cannot_start_shows_no_secret(
    scene: Scene, tmp_path: Path
) -> None:
    """Wrong settings, and a platform that does not know the key."""
    config = tmp_path / "backhaul.toml"
    text = scene.office.config.read_text()
    state = str(scene.office.folder / "state")
    for wrong in ("[public]\nhots = 1", "[log]\nlevel = 7\n[public]"):
        said_wrong = text.replace("[public]", wrong, 1)
        config.write_text(said_wrong.replace(state, str(tmp_path / "state")))
        said = backhaul("--debug", "run", config=config)
        assert said.code == 78
        assert scene.leaks("start", said.out + said.err) == []


def test_no_queried_row_shows_a_secret(scene: Scene) -> None:
    for table in ("users", "alerts", "webhook_secrets", "records", "audit"):
        query = f"SELECT * FROM {table}"  # noqa: S608 - of this list
        said = in_process("query", query, "--json", config=scene.office.config)
        assert said.code == 0, said.err
        assert scene.leaks(f"rows {table}", said.out + said.err) == []


def test_the_support_bundle_shows_no_secret(scene: Scene) -> None:
    bundle = scene.office.folder / "help.tar.gz"
    said = in_process("support-bundle", bundle, config=scene.office.config)
    assert said.code == 0, said.err
    with tarfile.open(bundle) as archive:
        for member in archive:
            content = archive.extractfile(member)
            inside = content.read() if content else b""
            assert scene.leaks(f"bundle {member.name}", inside) == []


def test_no_page_shows_one(scene: Scene) -> None:
    headers = {"Sec-Fetch-Site": "same-origin"}
    url = scene.live["admin_url"]
    with httpx.Client(base_url=url, headers=headers, trust_env=False) as client:
        form = {"name": NAME, "password": scene.password}
        entered = client.post("/login", data=form)
        assert entered.status_code == 303
        paths = [row.split()[1] for row in EXPECTED if row.startswith("GET")]
        seen = {*map(page_of, paths)}
        while paths:
            with client.stream("GET", paths.pop()) as page:
                if "event-stream" in page.headers.get("Content-Type", ""):
                    continue  # it has only the names of what changed, and no end
                page.read()
            assert scene.leaks(f"page {page.url.path}", page.content) == []
            for link in map(unescape, re.findall(r'href="(/[^"#]*)"', page.text)):
                if page_of(link) not in seen:
                    seen.add(page_of(link))
                    paths.append(link)
        assert len(seen) > 20
        token = client.cookies[f"backhaul_session_{client.base_url.port}"]
    for file in (scene.daemon.log, *files(scene.office.folder / "state")):
        assert list(leftovers.hits([file], [token])) == []


def page_of(link: str) -> tuple[str, ...]:
    """Return what a page is known by: lists have a link for every filter."""
    parts = urlsplit(link)
    return (parts.path, *sorted(parse_qs(parts.query)))


def files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def test_no_file_of_the_state_holds_one_but_those_made_for_it(scene: Scene) -> None:
    folder = scene.office.folder / "state"
    said = in_process(
        "backup", scene.office.folder / "copy.db", config=scene.office.config
    )
    assert said.code == 0, said.err
    kept = [one for one in files(folder) if one.parent.name != "secrets"]
    assert {path.suffix for path in kept} >= {".db", ".db-wal"}
    for file in (*kept, scene.office.folder / "copy.db"):
        assert list(leftovers.hits([file], scene.known)) == [], file
    for file in files(folder / "secrets"):
        assert file.stat().st_mode & 0o077 == 0


def test_no_mail_or_alert_shows_one(scene: Scene) -> None:
    for number, mail in enumerate(scene.mails):
        assert scene.leaks(f"mail {number}", mail) == []
    told = [one for one in scene.heard if one.startswith("/alerts")]
    assert told
    assert scene.leaks("alerts", "\n".join(told)) == []


def test_no_process_was_given_one(scene: Scene) -> None:
    process = Path(f"/proc/{scene.daemon.process.pid}")
    assert scene.leaks("arguments", (process / "cmdline").read_bytes()) == []
    assert scene.leaks("environment", (process / "environ").read_bytes()) == []


def test_the_metrics_show_no_secret(scene: Scene) -> None:
    with httpx.Client(base_url=scene.live["admin_url"], trust_env=False) as client:
        for path in ("/metrics", "/healthz", "/readyz", "/api/status", "/nothing"):
            assert scene.leaks(f"open {path}", client.get(path).content) == []
    assert scene.leaks("live", json.dumps(scene.live)) == []
