"""Datasette opens the mirror of a running daemon, as docs/mirror.md describes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scenes.daemon import connected_process
from scenes.ports import free_port
from scenes.reference_process import reference
from scenes.shopper import buy
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytest.importorskip("datasette")
pytestmark = [pytest.mark.programs]


@contextmanager
def datasette(database: Path, console: Path) -> Iterator[str]:
    """Serve the file; yields the address of the database in it."""
    port = free_port()
    command = [sys.executable, "-m", "datasette", "serve", str(database)]
    with console.open("w") as output:
        started = subprocess.Popen(
            [*command, "--port", str(port)], stdout=output, stderr=output
        )
    try:
        address = f"http://127.0.0.1:{port}"
        await_true(lambda: answers(address, started, console), "it serves", 120)
        yield f"{address}/{database.stem}"
    finally:
        started.terminate()
        started.wait(30)


def answers(address: str, started: subprocess.Popen[bytes], console: Path) -> bool:
    assert started.poll() is None, console.read_text()
    try:
        return httpx.get(f"{address}/-/versions.json").is_success
    except httpx.TransportError:
        return False


def rows(address: str, table: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{address}/{table}.json?_shape=array", timeout=60)
    assert answer.is_success, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def test_datasette_opens_the_live_mirror(tmp_path: Path) -> None:
    with (
        reference(tmp_path / "platform") as platform,
        connected_process(platform) as daemon,
        datasette(daemon.office.database, tmp_path / "console") as address,
    ):
        order = str(buy(platform)["id"])
        await_true(lambda: order in mirrored(address), "the order is shown", 60)
        assert daemon.process.poll() is None


def mirrored(address: str) -> set[str]:
    return {row["id"] for row in rows(address, "orders")}
