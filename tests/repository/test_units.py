"""The systemd units are understood whole, and leave the services little to reach."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.requirements import require

UNITS = Path(__file__).resolve().parents[2] / "systemd"
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
def test_it_is_exposed_to_little(name: str, tmp_path: Path) -> None:
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


def test_instances_differ_in_their_names_only() -> None:
    """What hardens or drains the one must not be forgotten for the others."""
    one = (UNITS / "backhaul.service").read_text("utf-8").split("[Unit]")[1]
    many = (UNITS / "backhaul@.service").read_text("utf-8").split("[Unit]")[1]
    one = re.sub(r"# The public address.*?Sockets=\S+\n", "", one, flags=re.DOTALL)
    one = one.replace("Also=backhaul.socket\n", "")
    for ours, theirs in {
        "between an online store and a back office": "for %i",
        "backhaul.toml": "%i.toml",
        "StateDirectory=backhaul\n": "StateDirectory=backhaul-%i\n",
        "/etc/backhaul/secrets/": "/etc/backhaul/secrets-%i/",
    }.items():
        one = one.replace(ours, theirs)
    assert one == many
