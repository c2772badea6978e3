"""A kill between an action and its audit entry never leaves only one of them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from backhaul.app.control_socket import SOCKET_NAME
from backhaul.app.offline import offline
from backhaul.cli import context
from faults.trials import LONG, chances, tell
from scenes.daemon import DaemonProcess
from scenes.requirements import require
from scenes.silent_platform import office_with_known_store
from scenes.stored import ALL, lists

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from backhaul.store.read_records import ListedAuditEntry
    from scenes.daemon import Office

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3_600 if LONG else 600)]

KILLS = 30 if LONG else 2
COMMANDS = [("users", "role", "user0", "operator"), ("jobs", "pause", "prune")]
FIRST_SYNC, LAST_SYNC = 40, 140
"""Of a daemon that is killed: by then it is ready, and has done some of it."""
WHO = "the test"
NAMES = [f"user{number}" for number in range(8)]
ROLES = ("viewer", "operator")


async def test_a_killed_daemon_leaves_no_unaudited_action(
    capsys: pytest.CaptureFixture[str],
) -> None:
    require("strace")
    chance, lines = chances(), len(NAMES) + 1
    async with office_with_known_store() as office:
        await add_users(office)
        for number in range(KILLS):
            sync = chance.randrange(FIRST_SYNC, LAST_SYNC)
            answered = await busy_until(sync, office, chance)
            assert told(office) == found(office), f"kill {number}, at sync {sync}"
            before, lines = lines, count(office)
            assert lines - before >= answered > 0
    tell(capsys, 0, KILLS, f"kills of the daemon, {lines} deeds")


async def busy_until(sync: int, office: Office, chance: random.Random) -> int:
    """Ask much of a daemon that dies at a sync; return how many deeds it answered."""
    daemon = DaemonProcess(office, wrapped=killing_at(sync))
    try:
        await asyncio.to_thread(daemon.await_ready, 120)
        socket = office.folder / "state" / SOCKET_NAME
        asking = (busy(socket, name, chance) for name in NAMES)
        return sum(await asyncio.gather(*asking))
    finally:
        await asyncio.to_thread(daemon.kill)


@pytest.mark.long
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
async def test_a_cli_command_killed_at_any_sync_leaves_no_unaudited_action(
    words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    require("strace")
    syncs = 0
    async with office_with_known_store() as office:
        await add_users(office)
        before = count(office)
        while await asyncio.to_thread(killed_at, syncs + 1, office, words):
            syncs += 1
            assert told(office) == found(office), f"killed at sync {syncs}"
        assert told(office) == found(office)
        assert before + 1 <= count(office) <= before + syncs + 1
    assert syncs > 0
    tell(capsys, 0, syncs, f"kills of {' '.join(words)}")


async def add_users(office: Office) -> None:
    """Add everybody, and an admin who stays."""
    async with offline(context.settings(office.config)) as known:
        for name, role in [*((name, "viewer") for name in NAMES), ("ada", "admin")]:
            asked = {"name": name, "role": role, "password": "x" * 20, "who": WHO}
            await known["users/add"](asked)


async def busy(socket: Path, name: str, chance: random.Random) -> int:
    """Change one thing after the other until nobody answers; return how many did."""
    answered = 0
    way = httpx.AsyncHTTPTransport(uds=str(socket))
    url = "http://backhaul/api/changes/"
    async with httpx.AsyncClient(transport=way, base_url=url, timeout=60) as client:
        while True:
            path, asked = anything(name, chance)
            try:
                answer = await client.post(path, json={**asked, "who": WHO})
            except httpx.HTTPError:
                return answered
            assert answer.status_code == 200, answer.text
            answered += 1


def anything(name: str, chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a change, and what it is asked."""
    if chance.random() < 0.5:
        return "users/role", {"name": name, "role": chance.choice(ROLES)}
    verb = chance.choice(["pause", "resume"])
    return f"jobs/{verb}", {"name": "prune", "store": None}


def killed_at(sync: int, office: Office, words: Sequence[str]) -> bool:
    """Run a command that is killed as it asks for its so many-th sync of a file.

    Return whether that was before its end.
    """
    program = [sys.executable, "-m", "backhaul", *words, "--config", str(office.config)]
    ended = subprocess.run(
        [*killing_at(sync), *program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode in {0, -signal.SIGKILL, 128 + signal.SIGKILL}, ended.stderr
    return ended.returncode != 0


def killing_at(sync: int) -> list[str]:
    """Return what ends a program by SIGKILL as it asks for its so many-th sync.

    What it wrote is there then, and of the next transaction nothing.
    """
    when = f"inject=fsync,fdatasync:signal=KILL:when={sync}"
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", when, "--"]


def told(office: Office) -> dict[str, str]:
    """Return who is what, and whether the job rests, as the audit has it."""
    known = {"prune": "resume"}
    for entry in audit(office):
        group, verb = entry.action.split()
        name, *words = entry.detail.split()
        known[name] = verb if group == "jobs" else words[1]
    return known


def found(office: Office) -> dict[str, str]:
    """Return the same as it is."""
    with lists(office.database) as reader:
        known = {user.name: user.role for user in reader.users()}
        jobs = reader.jobs().values()
    is_paused = any(one.job == "prune" and one.paused_at is not None for one in jobs)
    return known | {"prune": "pause" if is_paused else "resume"}


def audit(office: Office) -> list[ListedAuditEntry]:
    """Return the entries of the audit log, the oldest first."""
    with lists(office.database) as reader:
        return reader.audit_entries(None, ALL)[::-1]


def count(office: Office) -> int:
    return len(audit(office))
