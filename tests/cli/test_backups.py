"""`backhaul backup`, `restore` and `migrate`, as an operator runs them."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING

import pytest

from backhaul.cli import exit_codes
from backhaul.core.clock import SystemClock
from backhaul.store.commands import Decision
from backhaul.store.database import sole_writer
from backhaul.store.operations import AuditEntry
from backhaul.store.sqlite import file_backup
from backhaul.store.sqlite.opening import open_store
from scenes.commands import plan
from scenes.daemon import UNUSED_ADDRESS, Office, in_process
from scenes.damaged_rows import insert
from scenes.databases import started_store
from scenes.later_steps import later_version, make_lacking, make_older
from scenes.stored import lists, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def later() -> Iterator[list[str]]:
    """Make the program a later version; return its migrations."""
    with later_version() as steps:
        yield steps


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office(UNUSED_ADDRESS.removesuffix("/hook"), "svc_live_" + "0" * 40)
    yield made
    made.remove()


def test_a_backup_is_made_tried_out_and_restored(office: Office) -> None:
    open_store(office.database, SystemClock())
    out = office.folder / "out.db"
    made = in_process("backup", out, config=office.config)
    assert (made.code, made.err) == (0, "")
    assert made.out.endswith("bytes, checked\n")
    again = in_process("backup", out, config=office.config)
    assert (again.code, "this file exists already" in again.err) == (1, True)
    tried = in_process("restore", out, "--drill", config=office.config)
    assert (tried.code, "can be restored: 0 inbox" in tried.out) == (0, True)
    office.database.unlink()
    done = in_process("restore", out, config=office.config)
    assert (done.code, "no command is sent until" in done.out) == (0, True)
    assert office.database.exists()
    erased = {"store": "main", "customer_id": "cus_1", "at": "2026"}
    insert(office.database, "erased_customers", **erased)
    over = in_process("restore", out, config=office.config)
    assert (
        "an erased customer is in the database again: backhaul customers erase cus_1"
        in over.out
    )


async def decide_since(office: Office, backup: Path) -> None:
    """Discard a command and pause a job after the backup."""
    async with started_store(office.database) as store:
        command = await plan(store, "adjust", "prod_1")
        file_backup.copy(office.database, backup)
        for verb in ("park", "discard"):
            await store.decisions.decide(Decision(command, verb, "ann", "seen"))
        deed = AuditEntry("ann", "jobs pause", "push_adjustments:main")
        await store.job_runs.pause([("push_adjustments", "main")], deed)


def test_decisions_lost_by_a_restore_are_repeated_as_printed(office: Office) -> None:
    backup = office.folder / "out.db"
    asyncio.run(decide_since(office, backup))
    done = in_process("restore", backup, config=office.config)
    for line in re.findall(r": (backhaul .*)", done.out):
        for said in line.split(" && "):
            again = in_process(*shlex.split(said)[1:], config=office.config)
            assert again.code == 0, again.err
    assert value_of(office.database, "commands", "state") == "rejected"
    with lists(office.database) as reader:
        paused = [job for (job, _), state in reader.jobs().items() if state.paused_at]
    assert paused == ["push_adjustments"]


def test_the_command_is_refused_while_a_daemon_runs(office: Office) -> None:
    open_store(office.database, SystemClock())
    out = office.folder / "out.db"
    in_process("backup", out, config=office.config)
    with sole_writer(office.database.parent):
        refused = in_process("restore", out, config=office.config)
        assert (refused.code, "stop that process, or set" in refused.err) == (75, True)
        assert in_process("restore", out, "--drill", config=office.config).code == 0


def test_pending_migrations_are_listed_and_then_applied(
    later: list[str], office: Office
) -> None:
    office.database.parent.mkdir()
    make_older(office.database)
    plan = in_process("migrate", "--plan", config=office.config)
    assert plan.out.splitlines() == [*later, "4 steps ahead"]
    assert in_process("migrate", config=office.config).out == "4 steps done\n"
    plan = in_process("migrate", "--plan", config=office.config)
    assert plan.out == "nothing to do\n"


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        (["status"], "commands"),
        (["jobs", "list"], "job_state"),
        (["users", "list"], "users"),
        (["export", "echoes"], "echoes"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("later")
def test_a_database_from_before_the_upgrade_is_reported_as_such(
    command: list[str], lacks: str, office: Office
) -> None:
    """The database is old between the installation and the first start."""
    office.database.parent.mkdir(0o700)
    make_lacking(office.database, lacks)
    said = in_process(*command, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"{office.database}: the schema of this database is 4 steps behind this"
        " version of Backhaul (backhaul migrate --plan lists the steps). To upgrade"
        " the schema, run backhaul migrate while no daemon runs, or restart the"
        " daemon\n"
    )


def test_a_table_that_no_migration_creates_stays_a_bug(office: Office) -> None:
    office.database.parent.mkdir(0o700)
    make_lacking(office.database, "users")
    said = in_process("users", "list", config=office.config)
    assert (said.code, said.out) == (exit_codes.BUG, "")
    assert said.err.startswith("a bug: OperationalError")
