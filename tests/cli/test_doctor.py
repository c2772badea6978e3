"""`backhaul doctor` finds each problem and says how to fix it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from backhaul.app.wiring import build_client
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.core.webhook import TOPICS
from backhaul.doctor import Result, State, daemon
from backhaul.doctor import platform as outside
from backhaul.doctor.check_runner import examine
from backhaul.doctor.storage import Machine
from backhaul.settings import Settings
from scenes import broken_installations as planted
from scenes.clock import VirtualClock
from scenes.daemon import UNUSED_ADDRESS, Office, daemon_process, in_process, office_of
from scenes.mirror_files import fill, lone_office, orders
from scenes.pushing import Platform
from scenes.requirements import not_almighty
from scenes.scripted_platform import message, serving
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.broken_installations import Plant
    from scenes.reference_process import ReferenceProcess

PLANTED: list[tuple[Plant, str, str, str]] = [
    (planted.misspelt, "fail config", "unchangd_seconds", "did you mean"),
    (
        planted.open_secret_file,
        "fail config",
        "gives other users access",
        "chmod 600",
    ),
    (planted.open_config, "warn secret files", "contains secrets", "chmod 600"),
    (planted.open_folder, "warn state_dir", "open to all users", "chmod 700"),
    (
        planted.state_in_a_file,
        "fail state_dir",
        "plain is not a folder",
        "move it away",
    ),
    (planted.state_in_proc, "fail state_dir", "stores no files (proc)", "state_dir"),
    (planted.no_wal, "warn database", "in mode delete", "start the daemon"),
    (planted.newer_schema, "fail database", "newer version", "install that version"),
    (planted.damaged, "fail integrity", "backhaul.db", "backhaul restore"),
    (planted.unknown_host, "fail dns", "shop.invalid", "correct base_url"),
    (
        planted.plain_http,
        "warn encryption",
        "stores.main.base_url",
        '"https://shop.inv',
    ),
    (
        planted.plain_alerts,
        "warn encryption",
        "alerts.webhook_url",
        '"https://192.0.2.',
    ),
    (planted.closed_port, "fail connection", "cannot be connected to", "the port"),
    (planted.no_tls, "fail tls", "does not speak TLS", "set up HTTPS"),
    (planted.wrong_path, "fail platform", "answered 404", "without /api/v1"),
    (planted.wrong_key, "fail api key", "refuses the key (401", "create a key"),
    (planted.wrong_key_in_a_file, "fail api key", "refuses the key", "write it into"),
    (planted.no_scope, "fail scope", "inventory:read", "give the key inventory:read"),
    (planted.other_store, "fail store", "sto_other", "the previous key"),
    (planted.no_folder, "fail connector", "drop", "connectors check courier"),
]
TIME_WILL_TELL = {"daemon", "scope"}
"""The warnings for a healthy installation before its first start."""


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a mirror as a daemon leaves it when it stops."""
    kept = tmp_path_factory.mktemp("mirror") / "backhaul.db"
    with lone_office() as made:
        asyncio.run(fill(made, *orders(1)))
        shutil.copy(made.database, kept)
    return kept


@pytest.fixture
def office(platform: ReferenceProcess, database: Path) -> Iterator[Office]:
    with office_of(platform) as made:
        planted.repair_all(made, database)
        yield made


def asked(office: Office) -> list[dict[str, Any]]:
    said = in_process("doctor", "--json", config=office.config)
    document = json.loads(said.out)
    failed = any(each["state"] == "fail" for each in document["results"])
    assert said.code == int(failed), said.err
    results: list[dict[str, Any]] = document["results"]
    return results


def one(found: list[dict[str, Any]], what: str, said: str) -> dict[str, Any]:
    hits = [
        each
        for each in found
        if f"{each['state']} {each['check']}" == what and said in each["said"]
    ]
    assert len(hits) == 1, [e for e in found if e["state"] != "ok"]
    return hits[0]


def test_a_sound_installation_has_no_complaint(office: Office) -> None:
    found = asked(office)
    assert {each["check"] for each in found if each["state"] != "ok"} <= TIME_WILL_TELL
    assert {each["check"] for each in found} >= {
        *(
            "config",
            "secrets",
            "secret files",
            "encryption",
            "state_dir",
            "file system",
        ),
        *("free space", "database", "schema", "integrity", "daemon", "dns"),
        *("connection", "clock", "api key", "scope", "platform", "store", "connector"),
    }


@pytest.mark.parametrize(
    ("plant", "what", "said", "fix"), PLANTED, ids=[p[0].__name__ for p in PLANTED]
)
def test_each_planted_problem_is_found_with_its_fix(
    office: Office,
    platform: ReferenceProcess,
    plant: Plant,
    what: str,
    said: str,
    fix: str,
) -> None:
    plant(office, platform)
    assert fix in one(asked(office), what, said)["fix"]


def test_the_address_of_a_local_file_is_no_secret(office: Office) -> None:
    secrets = {"api_key": office.api_key, "webhook_secrets": office.webhook_secret}
    text = office.config.read_text().partition("[connectors.")[0]
    for name, secret in secrets.items():
        file = office.folder / name
        file.touch(0o600)
        file.write_text(secret)
        text = re.sub(rf"{name} = .*", f'{name}_file = "{file}"', text)
    erp = '[connectors.erp]\ntype = "sql"\nurl = "sqlite:///erp.db"\n'
    rows = '[connectors.erp.fulfillments]\ntable = "t"\nprocessed_at = "at"\n'
    office.config.write_text(text + erp + rows)
    office.config.chmod(0o644)
    found = one(asked(office), "ok secret files", "")
    assert "shows no secret to others" in found["said"]


def test_a_secret_in_the_environment_is_reported(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKHAUL_STORES__MAIN__API_KEY", office.api_key)
    found = one(asked(office), "warn secrets", "$BACKHAUL_STORES__MAIN__API_KEY")
    assert "$BACKHAUL_STORES__MAIN__API_KEY_FILE" in found["fix"]
    assert office.api_key not in json.dumps(found)


def test_an_unreadable_database_is_reported(tmp_path: Path) -> None:
    """The database is outside of `state_dir`, which has its own line."""
    (tmp_path / "closed").mkdir(0)
    script = "import sys; from pathlib import Path\n"
    script += "from backhaul.doctor.storage import check_database\n"
    script += "print(*check_database(Path(sys.argv[1])))"
    file = tmp_path / "closed" / "backhaul.db"
    said = subprocess.run(
        [*not_almighty(), sys.executable, "-c", script, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "State.FAIL" in said.stdout
    assert "cannot read" in said.stdout
    assert "run it as the daemon's user" in said.stdout


def examined(office: Office, clock: SystemClock, machine: Machine) -> list[Result]:
    async def every() -> list[Result]:
        settings = context.settings(office.config)
        found = examine(settings, office.config, os.environ, clock, machine)
        return [each async for each in found]

    return asyncio.run(every())


@pytest.mark.parametrize("wrong", ["clock", "file system", "free space", "state_dir"])
def test_problems_of_the_machine_are_found(office: Office, wrong: str) -> None:
    machines = {
        "file system": planted.on_network(office.folder),
        "free space": planted.Full(),
        "state_dir": planted.ReadOnly(),
    }
    clock = planted.Ahead() if wrong == "clock" else SystemClock()
    found = examined(office, clock, machines.get(wrong, Machine()))
    (failed,) = [each for each in found if each.state is State.FAIL]
    assert failed.check == wrong
    assert failed.fix


@contextmanager
def hooked(platform: ReferenceProcess, address: str = UNUSED_ADDRESS) -> Iterator[str]:
    """Subscribe to webhooks; yield the path of the subscription."""
    body = {"address": address, "topics": TOPICS}
    hook = platform.v1("POST", "/webhooks", body).data()
    try:
        yield f"/webhooks/{hook['id']}"
    finally:
        platform.v1("DELETE", f"/webhooks/{hook['id']}")


@pytest.mark.programs
def test_the_reason_of_lost_webhooks_is_reported(
    office: Office, platform: ReferenceProcess
) -> None:
    with daemon_process(office) as started, hooked(platform) as hook:
        live = started.await_ready()
        found = one(asked(office), "fail webhooks", "no subscription")
        assert "[public] url" in found["fix"]
        address = {"address": f"{live['public_url']}/webhooks/main"}
        platform.v1("PUT", hook, address)
        found = one(asked(office), "fail webhooks", "delivery (401)")
        assert "another secret" in found["said"]
        assert "stores.main.webhook_secrets" in found["fix"]
        planted.rewrite(office, **{"[admin]": f'url = "{office.base_url}"\n[admin]'})
        found = one(asked(office), "fail public url", "which is not this daemon")
        assert "the proxy" in found["fix"]


@pytest.mark.programs
def test_a_test_delivery_comes_through(
    office: Office, platform: ReferenceProcess
) -> None:
    planted.rewrite(office, **{office.webhook_secret: "whsec_" + "a" * 32})
    with hooked(platform) as hook:
        secret = platform.v1("POST", f"{hook}/rotate-secret").data()["secret"]
        planted.rewrite(office, **{office.webhook_secret: secret})
        with daemon_process(office) as started:
            url = started.await_ready()["public_url"]
            platform.v1("PUT", hook, {"address": f"{url}/webhooks/main"})
            one(asked(office), "ok webhooks", "arrived")


def test_the_reason_for_stopped_sending_is_reported_with_its_scope() -> None:
    stopped = {"fulfill": "403 INSUFFICIENT_SCOPE orders:write"}
    live = {"stores": {"main": {"stopped": stopped}}, "subscriptions": {}}
    (found,) = daemon.check(live, "main")
    assert found.state is State.FAIL
    assert "orders:write" in found.fix
    assert (
        "correct what it names" in found.fix
    )  # as after a restart while two daemons run


def test_a_pause_is_reported_with_its_end_and_its_reason() -> None:
    pause = {"until": "2026-03-01T12:05:00.000Z", "reason": "429 RATE_LIMITED"}
    store = {"stopped": {}, "paused": pause}
    (found,) = daemon.check({"stores": {"main": store}, "subscriptions": {}}, "main")
    assert found.state is State.WARN
    assert pause["until"] in found.said
    assert pause["reason"] in found.said


async def test_a_throttling_platform_gets_no_further_requests() -> None:
    """Otherwise the doctor would wait silently for the end of the pause."""
    scripted = Platform()
    problem = b'{"code":"RATE_LIMITED","detail":"slow"}'
    for path in (*outside.NEEDED, *outside.USEFUL):
        scripted.respond(path, message(429, problem, Retry_After="3600"))
    async with serving(scripted) as server:
        store = {"base_url": server.url, "api_key": "k" * 40}
        settings, clock = (
            Settings.model_validate({"stores": {"main": store}}),
            VirtualClock(),
        )
        transport, client = build_client(settings, "main", clock)
        looked = outside.check(settings, "main", transport, client, clock)
        async with asyncio.timeout(HANG_SECONDS):
            found = [each async for each in looked]
        await transport.close()
    assert clock.slept == []
    assert found[-1].state is State.WARN
    assert "asks for a pause until 2026-03-01T12:05:00" in found[-1].said
    assert "Retry-After: 3600" in found[-1].said


def test_each_problem_must_name_a_fix() -> None:
    with pytest.raises(ValueError, match="names no fix"):
        Result("clock", "main", State.WARN, "is ahead")


async def test_a_servers_key_is_shown_to_be_confirmed() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[key])
    more = '[connectors.erp]\ntype = "file_drop"\nsftp_host = "127.0.0.1"\n'
    more += f"sftp_port = {server.get_port()}\n"
    with lone_office(more) as office:
        said = await asyncio.to_thread(
            in_process, "doctor", "--trust-host-key", "erp", config=office.config
        )
    server.close()
    assert said.code == 0, said.err
    assert key.get_fingerprint() in said.out
    line = key.export_public_key().decode().split()[:2]
    assert f'sftp_host_key = "{" ".join(line)}"' in said.out


def test_a_line_fits_a_terminal(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = in_process("doctor", config=office.config).out
    words_too_long = str(office.folder)
    wide = [line for line in shown.splitlines() if len(line) > 80]
    assert [line for line in wide if words_too_long not in line] == []
