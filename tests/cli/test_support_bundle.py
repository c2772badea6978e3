"""`backhaul support-bundle` contains no secrets and no data of customers."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import stat
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from scenes import leftovers, payloads
from scenes.daemon import Office, in_process
from scenes.mirror_files import fill, lone_office
from scenes.requirements import not_almighty

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PERSON = ("Zacharias", "zack@person.example", "+4917055512345", "Nightingale Lane")
PATH = f"hook-{secrets.token_hex(12)}"
MORE = """
[log]
file = "{folder}/log"
[alerts]
mail_to = ["{mail}"]
mail_from = "{mail}"
smtp_user = "{canaries[0]}"
smtp_password = "{canaries[1]}"
smtp_security = "tls"
webhook_url = "https://chat.example/{path}"
webhook_secret = "whsec_{canaries[2]}"
[connectors.out]
type = "webhook_out"
url = "https://office.example/{path}"
secrets = ["whsec_{canaries[4]}"]
"""
CANARIES = [secrets.token_hex(24) for _ in range(5)]


@pytest.fixture
def office() -> Iterator[Office]:
    leftovers.issued(*CANARIES)
    with lone_office() as made:
        more = MORE.format(
            folder=made.folder, mail=PERSON[1], canaries=CANARIES, path=PATH
        )
        text = made.config.read_text().replace(
            '[log]\nlevel = "TRACE"\nformat = "json"\n', ""
        )
        made.config.write_text(text + more)
        asyncio.run(fill(made, _order()))
        line = {"time": "2026-03-01T12:00:00.000Z", "level": "INFO"}
        line |= {"action": "connector.down", "message": " ".join(PERSON)}
        (made.folder / "log").write_text(json.dumps(line) + "\nno json\n")
        yield made


def _order() -> bytes:
    name, mail, phone, street = PERSON
    order = payloads.order("ord_1", number=1001)
    order["customer"] = {"id": "cus_1", "name": name, "email": mail, "phone": phone}
    order["shippingAddress"] = {"name": name, "address1": street}
    return payloads.envelope("orders/create", order)


def bundle(office: Office) -> dict[str, bytes]:
    out = office.folder / "help.tar.gz"
    said = in_process("support-bundle", out, config=office.config)
    assert said.code == 0, said.err
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    return contents(out)


def contents(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        opened = {each.name: archive.extractfile(each) for each in archive}
        return {name: file.read() for name, file in opened.items() if file}


def test_the_support_bundle_holds_all_that_a_helper_needs(office: Office) -> None:
    found = bundle(office)
    files = {
        name.removeprefix("help/"): json.loads(content)
        for name, content in found.items()
        if name.endswith(".json")
    }
    assert files["versions.json"]["packages"]["backhaul"]
    assert files["configuration.json"]["stores"]["main"]["base_url"] == office.base_url
    assert files["counts.json"]["orders"] == 1
    assert files["status.json"]["orders"] == 1
    assert {each["check"] for each in files["doctor.json"]} > {"config", "connection"}
    assert found["help/schema.sql"].startswith(b"-- SQLite 3.")
    assert b"CREATE TABLE" in found["help/schema.sql"]
    assert json.loads(found["help/log.jsonl"])["action"] == "connector.down"


def test_a_log_that_cannot_be_read_is_no_hindrance(office: Office) -> None:
    """A name that is too long for the system causes the error."""
    text = office.config.read_text()
    office.config.write_text(text.replace('/log"', f'/{"x" * 300}"'))
    found = bundle(office)
    assert b"File name too long" in found["help/log.jsonl"]
    assert json.loads(found["help/counts.json"])["orders"] == 1


@pytest.mark.programs
@pytest.mark.parametrize("closed", ["state", "."])
def test_an_unreadable_folder_does_not_stop_the_bundle(
    office: Office, closed: str, tmp_path: Path
) -> None:
    """Both commands report the folder with its fix, and skip its files."""
    config, out = tmp_path / "backhaul.toml", tmp_path / "help.tar.gz"
    config.write_text(office.config.read_text())
    program = [*not_almighty(), sys.executable, "-m", "backhaul"]
    shut = office.folder / closed
    shut.chmod(0)
    try:
        doctor, bundled = (
            subprocess.run(
                [*program, *command, "--config", str(config)],
                capture_output=True,
                text=True,
                check=False,
            )
            for command in (["doctor"], ["support-bundle", str(out)])
        )
    finally:
        shut.chmod(0o700)
    assert (doctor.returncode, doctor.stderr) == (1, "")
    said = " ".join(doctor.stdout.split())
    assert f"state_dir: {office.folder}/state is not writable for" in said
    assert "chown, chmod 700; or run this as the daemon's user" in said
    assert "database: " not in said
    assert "connection main: " in said
    assert re.search(r" \d+ fail, \d+ warn, \d+ ok$", said)
    assert (bundled.returncode, bundled.stderr) == (0, "")
    found = contents(out)
    assert b"ermission denied" in found["help/schema.sql"]
    assert b"ermission denied" in found["help/metrics.txt"]
    assert "state_dir" in {e["check"] for e in json.loads(found["help/doctor.json"])}


def test_the_bundle_has_no_secret_and_no_customer(office: Office) -> None:
    everything = b"\n".join(bundle(office).values()).decode()
    known = (office.api_key, office.webhook_secret, office.device_token)
    shown = [each for each in (*known, *CANARIES, *PERSON, PATH) if each in everything]
    assert shown == []


def test_a_configuration_that_cannot_be_used_is_no_hindrance(office: Office) -> None:
    office.config.write_text(office.config.read_text() + "\n[pusch]\nx = 1\n")
    found = bundle(office)
    assert set(found) == {
        f"help/{n}" for n in ("README.txt", "versions.json", "doctor.json")
    }
    assert b"pusch" in found["help/doctor.json"]


def test_a_file_that_is_there_is_left_alone(office: Office) -> None:
    (office.folder / "help.tar.gz").write_text("mine")
    out = office.folder / "help.tar.gz"
    said = in_process("support-bundle", out, config=office.config)
    assert said.code == 1
    assert out.read_text() == "mine"
