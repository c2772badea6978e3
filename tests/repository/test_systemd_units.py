"""The systemd units are valid, and leave the services few permissions."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from backhaul.settings import load_settings
from scenes.requirements import require

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "systemd"
INSTALLING = ROOT / "docs/how-to/install-as-a-service.md"
SERVICES = ["backhaul.service", "backhaul@.service", "backhaul-reference.service"]
PROGRAM = "/opt/backhaul/bin/backhaul"
MOST_EXPOSED = 1.5


def installed(folder: Path, name: str) -> Path:
    """Write the unit, and the socket, as they look where the program exists."""
    text = (UNITS / name).read_text("utf-8")
    assert PROGRAM in text
    unit = folder / name.replace("@", "@one")
    unit.write_text(text.replace(PROGRAM, "/bin/true"), "utf-8")
    address = (UNITS / "backhaul.socket").read_text("utf-8")
    (folder / "backhaul.socket").write_text(address, "utf-8")
    return unit


@pytest.mark.parametrize("name", SERVICES)
def test_every_line_is_understood(name: str, tmp_path: Path) -> None:
    # It ends with 0 where it knows no such key: what counts is what it says.
    said = subprocess.run(
        [require("systemd-analyze"), "verify", installed(tmp_path, name)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "backhaul" not in said.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_the_unit_has_a_low_exposure_level(name: str, tmp_path: Path) -> None:
    said = subprocess.run(
        [
            *(require("systemd-analyze"), "security", "--offline=true", "--no-pager"),
            installed(tmp_path, name),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"exposure level for \S+: (\d+\.\d)", said.stdout)
    assert found is not None, said.stderr
    assert float(found[1]) <= MOST_EXPOSED


@pytest.mark.parametrize(("name", "port"), [("receiver", 8750), ("worker", 8850)])
def test_an_instance_may_be_a_role(name: str, port: int, tmp_path: Path) -> None:
    """The page shows both configurations; the second one by its differences."""
    written = re.findall(r"```toml\n(.*?)```", INSTALLING.read_text("utf-8"), re.DOTALL)
    receiver, worker = (tomllib.loads(each) for each in written)
    config = receiver if name == "receiver" else merged(receiver, worker)
    secrets = {"key_file": tmp_path / "key", "url_file": tmp_path / "url"}
    secrets["key_file"].write_text(b64encode(bytes(32)).decode())
    secrets["url_file"].write_text("postgresql://backhaul@db1,db2/backhaul")
    for each in secrets.values():
        each.chmod(0o600)
    config["cluster"]["key_file"] = str(secrets["key_file"])
    config["database"]["url_file"] = str(secrets["url_file"])
    config["stores"]["main"]["api_key"] = "k"
    (tmp_path / "config.toml").write_text(toml_of(config))
    settings = load_settings(tmp_path / "config.toml", {})
    assert str(settings.state_dir) == f"/var/lib/backhaul-{name}"
    assert (name in settings.cluster.roles, settings.public.port) == (True, port)
    unit = (UNITS / "backhaul@.service").read_text("utf-8")
    assert "StateDirectory=backhaul-%i\n" in unit
    assert "--config /etc/backhaul/%i.toml\n" in unit


def merged(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: merged(low[key], value)
        for key, value in high.items()
        if isinstance(value, dict) and key in low
    }
    return low | high | both


def toml_of(tables: dict[str, Any], path: str = "") -> str:
    """Write tables whose values JSON and TOML write alike."""
    lines, more = [f"[{path}]"] if path else [], []
    for key, value in tables.items():
        if isinstance(value, dict):
            more.append(toml_of(value, f"{path}.{key}".lstrip(".")))
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*lines, *more])


def test_instances_differ_in_their_names_only() -> None:
    """What hardens or drains the one must not be forgotten for the others."""
    one = (UNITS / "backhaul.service").read_text("utf-8").split("[Unit]")[1]
    many = (UNITS / "backhaul@.service").read_text("utf-8").split("[Unit]")[1]
    one = re.sub(
        r"# systemd keeps the public address.*?Sockets=\S+\n", "", one, flags=re.DOTALL
    )
    one = one.replace("Also=backhaul.socket\n", "")
    for ours, theirs in {
        "between an online store and a back office": "for %i",
        "backhaul.toml": "%i.toml",
        "StateDirectory=backhaul\n": "StateDirectory=backhaul-%i\n",
        "/etc/backhaul/secrets/": "/etc/backhaul/secrets-%i/",
    }.items():
        one = one.replace(ours, theirs)
    assert one == many


@pytest.mark.parametrize(
    ("typed", "name", "secrets"),
    [
        (["status", "--json"], "backhaul", "secrets"),
        (["@shop2", "status", "--json"], "shop2", "secrets-shop2"),
    ],
)
def test_the_command_knows_its_instance_and_its_user(
    typed: list[str], name: str, secrets: str, tmp_path: Path
) -> None:
    systemd_run = tmp_path / "systemd-run"
    systemd_run.write_text('#!/bin/sh\nprintf "%s\\n" "$@"')
    systemd_run.chmod(0o755)
    said = subprocess.run(
        ["sh", UNITS / "backhaul.sh", *typed],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SUDO_USER": "asha"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said[-3:] == [PROGRAM, "status", "--json"]
    assert {
        "--setenv=SUDO_USER=asha",
        f"--setenv=BACKHAUL_CONFIG=/etc/backhaul/{name}.toml",
        f"--property=LoadCredential=stores:/etc/backhaul/{secrets}/stores",
    } <= set(said)


@pytest.mark.parametrize(
    ("typed", "more"),
    [
        ([], {"_BACKHAUL_COMPLETE": "complete_bash", "COMP_WORDS": "backhaul st"}),
        (["--install-completion"], {}),
        (["--show-completion", "bash"], {}),
    ],
)
def test_completion_starts_no_unit(
    typed: list[str], more: dict[str, str], tmp_path: Path
) -> None:
    """What the shell asks by does not reach a unit, which has a home of its own."""
    program, script = tmp_path / "program", tmp_path / "backhaul.sh"
    program.write_text('#!/bin/sh\nprintf "%s\n" "ours" "$COMP_WORDS" "$@"')
    (tmp_path / "systemd-run").write_text("#!/bin/sh\necho a unit")
    text = (UNITS / "backhaul.sh").read_text("utf-8")
    script.write_text(text.replace(PROGRAM, str(program)))
    for each in (program, tmp_path / "systemd-run"):
        each.chmod(0o755)
    said = subprocess.run(
        ["sh", script, *typed],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **more},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said == ["ours", more.get("COMP_WORDS", ""), *typed]


def test_every_folder_of_secrets_is_created_and_passed_on() -> None:
    """systemd starts nothing where one of the folders is missing."""
    made = (UNITS / "backhaul.tmpfiles.conf").read_text("utf-8")
    folders = re.findall(r"^d /etc/backhaul/secrets/(\w+) ", made, re.MULTILINE)
    assert set(folders) == {"stores", "connectors", "alerts"}
    for name in ("backhaul.service", "backhaul@.service", "backhaul.sh"):
        text = (UNITS / name).read_text("utf-8")
        handed = re.findall(r'LoadCredential=(\w+):\S+?/(\w+)"?(?: |$)', text, re.M)
        assert handed == [(each, each) for each in folders], name


def line_of(unit: str, key: str) -> str:
    (value,) = re.findall(rf"^{key}=(.*)$", (UNITS / unit).read_text("utf-8"), re.M)
    return str(value)


def test_no_number_of_failed_starts_closes_the_address() -> None:
    """systemd fails the socket too, for good, when its service has a limit."""
    assert line_of("backhaul.service", "StartLimitIntervalSec") == "0"
    assert line_of("backhaul.socket", "TriggerLimitIntervalSec") == "0"


@pytest.mark.parametrize(
    ("status", "pauses"), [("65", True), ("78", True), ("0", False), ("KILL", False)]
)
def test_a_permanent_failure_is_not_restarted_at_once(
    status: str, pauses: bool, tmp_path: Path
) -> None:
    """A webhook that waits has the socket start it, whatever RestartPrevent says."""
    assert line_of("backhaul.service", "RestartPreventExitStatus") == "65 78"
    sleep = tmp_path / "sleep"
    sleep.write_text('#!/bin/sh\necho "$1"')
    sleep.chmod(0o755)
    said = subprocess.run(
        shlex.split(line_of("backhaul.service", "ExecStopPost").replace("$$", "$")),
        env={"PATH": f"{tmp_path}:/bin", "EXIT_STATUS": status},
        capture_output=True,
        text=True,
        check=True,
    )
    most = int(line_of("backhaul.service", "TimeoutStopSec"))
    assert (5 < int(said.stdout) < most) if pauses else said.stdout == ""
