"""The systemd unit is understood whole, and leaves the service little to reach."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.requirements import require

UNIT = Path(__file__).resolve().parents[2] / "systemd/backhaul.service"
PROGRAM = "/opt/backhaul/.venv/bin/backhaul"
MOST_EXPOSED = 1.5


def installed(folder: Path) -> Path:
    """Write the unit as it looks where its program exists."""
    text = UNIT.read_text("utf-8")
    assert PROGRAM in text
    unit = folder / UNIT.name
    unit.write_text(text.replace(PROGRAM, "/bin/true"), "utf-8")
    return unit


def test_every_line_is_understood(tmp_path: Path) -> None:
    # It ends with 0 where it knows no such key: what counts is what it says.
    said = subprocess.run(
        [require("systemd-analyze"), "verify", installed(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "backhaul.service" not in said.stderr


def test_it_is_exposed_to_little(tmp_path: Path) -> None:
    said = subprocess.run(
        [
            *(require("systemd-analyze"), "security", "--offline=true", "--no-pager"),
            installed(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"exposure level for \S+: (\d+\.\d)", said.stdout)
    assert found is not None, said.stderr
    assert float(found[1]) <= MOST_EXPOSED
