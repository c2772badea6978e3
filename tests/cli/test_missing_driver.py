"""Without psycopg, SQLite works, and PostgreSQL says what to install."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from settings.configurations import STORE, written

if TYPE_CHECKING:
    from pathlib import Path

BLOCKED = "import sys; sys.modules['psycopg'] = None; "
PROGRAM = f"{BLOCKED}from backhaul.__main__ import main; main()"
INSTALL = "pip install 'backhaul[postgres]'"
URL = "postgresql://u:canary-word@db.example/name"
ERP = """
[connectors.erp]
type = "sql"
url = "{}"
[connectors.erp.stock_levels]
table = "counts"
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def run_with(folder: Path, more: str, *arguments: str) -> tuple[int, str]:
    """Run a command with a configuration; return its exit code and its errors."""
    file = written(folder, f'state_dir = "{folder}/state"\n{STORE}{more}')
    file.chmod(0o600)
    done = run(PROGRAM, *arguments, "--config", str(file))
    assert "Traceback" not in done.stderr
    assert "canary-word" not in done.stderr
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["run", "check-config", "status"])
@pytest.mark.parametrize("more", [f'[database]\nurl = "{URL}"\n', ERP.format(URL)])
def test_the_error_says_which_package_to_install(
    command: str, more: str, tmp_path: Path
) -> None:
    code, errors = run_with(tmp_path, more, command)
    assert code == 78
    assert errors.count(INSTALL) == 1
    assert "needs the package psycopg, which is not installed" in errors


def test_a_move_says_what_to_install(tmp_path: Path) -> None:
    code, errors = run_with(tmp_path, "", "migrate", "--to", URL)
    assert code == 2
    assert errors.count(INSTALL) == 1


def test_a_file_and_the_connector_of_a_file_need_no_driver(tmp_path: Path) -> None:
    file = tmp_path / "erp.db"
    file.touch()
    assert run_with(tmp_path, ERP.format(f"sqlite:///{file}"), "check-config") == (
        0,
        "",
    )
    needed = run(
        f"{BLOCKED}import backhaul.app.daemon, backhaul_connectors.sql.database"
    )
    assert needed.stderr == ""
