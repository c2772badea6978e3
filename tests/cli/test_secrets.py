"""Webhook secrets are listed by fingerprint, and revoked when they are unused."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backhaul.cli.secrets import secret
from backhaul.ingest.secret_rings import secret_fingerprint
from backhaul.platform.store_credentials import WebhookSecretFile
from scenes.daemon import backhaul, daemon_process, in_process, office_of
from scenes.payloads import envelope, order, signed
from settings.configurations import STORE, written
from settings.configurations import secret as secret_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

BODY = envelope("orders/create", order())


@pytest.fixture
def old() -> str:
    return "whsec_" + secrets.token_hex(16)


@pytest.fixture
def office(platform: ReferenceProcess, old: str) -> Iterator[Office]:
    with office_of(platform) as office:
        new = office.webhook_secret
        office.write(**{f'["{new}"]': f'["{new}", "{old}"]'})
        yield office


def deliver(office: Office, secret: str) -> int:
    url = f"{(office.read_status() or {})['public_url']}/webhooks/main"
    return httpx.post(
        url, content=BODY, headers=signed(BODY, secret.encode())
    ).status_code


def states(office: Office) -> dict[str, Any]:
    listed = in_process("secrets", "list", "--json", config=office.config).json()
    return {row["fingerprint"]: row["state"] for row in listed}


def test_a_secret_is_revoked_when_nothing_uses_it(office: Office, old: str) -> None:
    name = secret_fingerprint(old.encode())
    drop = ("secrets", "revoke", name[:6])
    with daemon_process(office) as started:
        assert deliver(office, old) == 200
        refused = backhaul(*drop, config=office.config)
        assert refused.code == 1
        assert "less than a day ago" in refused.err
        assert deliver(office, old) == 200

        dropped = backhaul(*drop, "--force", config=office.config)
        assert dropped.code == 0, dropped.err
        assert deliver(office, old) == 401
        assert deliver(office, office.webhook_secret) == 200
        last = secret_fingerprint(office.webhook_secret.encode())
        kept = backhaul("secrets", "revoke", last, "--force", config=office.config)
        assert "the only secret of store main" in kept.err
        assert deliver(office, office.webhook_secret) == 200
        started.terminate()
    assert states(office)[name] == "dropped"
    shown = in_process("secrets", "list", config=office.config)
    assert name in shown.out
    assert old not in shown.out + shown.err


def test_without_a_daemon_the_command_does_it_itself(office: Office, old: str) -> None:
    name = secret_fingerprint(old.encode())
    with daemon_process(office) as started:
        started.terminate()
    assert in_process("secrets", "revoke", name, config=office.config).code == 0
    with daemon_process(office) as started:
        assert deliver(office, old) == 401
        started.terminate()
    undone = in_process("secrets", "revoke", name, "--undo", config=office.config)
    assert undone.code == 0
    with daemon_process(office):
        assert deliver(office, old) == 200


@pytest.mark.parametrize("undo", [(), ("--undo",)], ids=["drop", "undo"])
def test_a_store_that_left_the_settings_is_reported(
    undo: tuple[str, ...], office: Office, old: str
) -> None:
    with daemon_process(office) as started:
        started.terminate()
    office.write(**{"[stores.main]": "[stores.other]"})
    name = secret_fingerprint(old.encode())
    said = in_process("secrets", "revoke", name, *undo, config=office.config)
    assert said.code == 1
    assert "store main is not in the configuration" in said.err
    assert states(office)[name] == "accepted"


def test_without_a_daemon_a_secret_that_the_platform_gave_is_known(
    office: Office, old: str
) -> None:
    with daemon_process(office) as started:
        started.terminate()
    host = 'host = "127.0.0.1"'
    office.write(**{host: f'{host}\nurl = "https://hooks.example"'})
    kept = office.folder / "state" / "secrets" / "main"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(f"{old}\n")
    names = [secret_fingerprint(one.encode()) for one in (office.webhook_secret, old)]
    said = in_process("secrets", "revoke", names[0], config=office.config)
    assert said.code == 0, said.err
    assert names[1] in said.out
    again = in_process("secrets", "revoke", names[1], config=office.config)
    assert "the only secret of store main" in again.err


def test_an_unknown_fingerprint_is_reported(office: Office) -> None:
    with daemon_process(office) as started:
        started.terminate()
    said = in_process("secrets", "revoke", "ffffffffffff", config=office.config)
    assert said.code == 1
    assert "backhaul secrets list" in said.err


async def test_on_sqlite_the_secret_of_the_platform_is_in_a_file_despite_a_key(
    tmp_path: Path,
) -> None:
    key = secret_file(tmp_path, "k" * 44, name="key")
    store = STORE.replace('webhook_secrets = ["canary-hook"]\n', "")
    file = written(
        tmp_path,
        f'state_dir = "{tmp_path}"\n[cluster]\nkey_file = "{key}"\n{store}',
    )
    await WebhookSecretFile(tmp_path, "main", lambda _: None).keep(b"of-the-platform")
    found = await asyncio.to_thread(secret, None, file, lambda _: "main")
    assert found == b"of-the-platform"
