"""The demo reads stock targets beside commands, as people see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.demo.daemon_rows import read_daemon_rows
from backhaul.store.sqlite.opening import open_store
from scenes.databases import put_target

if TYPE_CHECKING:
    from pathlib import Path


def test_a_stock_target_is_among_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.db"
    open_store(path, SystemClock())
    put_target(path, "a" * 32)
    (found,) = read_daemon_rows(path, "main", "scanner").commands
    assert (found["kind"], found["target"]) == ("target", "prod_1")
    assert found["state"] == "planned"
