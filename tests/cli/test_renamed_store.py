"""A store is renamed in the configuration while it has open work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

from backhaul.app.daemon import Daemon, Environment
from backhaul.cli import context
from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.database import SqliteStore
from backhaul.store.sqlite.opening import open_store
from scenes import payloads
from scenes.daemon import in_process
from scenes.damaged_rows import insert_command, overwrite
from scenes.databases import put_target
from scenes.mirror_files import fill, lone_office
from scenes.silent_platform import Hanging

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

WORK = (
    ("planned", "cancel"),
    ("uncertain", "fulfill"),
    ("applied", "cancel"),
    ("parked", "cancel"),
)
COUNT = "main" + "f" * 32
OPEN = "2 open commands, 1 open count"
MEND = (
    "add [stores.main] to the configuration again. Or list its commands (backhaul"
    " commands list --store main)"
)


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as made:
        order = payloads.envelope("orders/create", payloads.order())
        asyncio.run(fill(made, order))
        write(made, WORK)
        put_target(made.database, COUNT)
        yield made


def write(
    office: Office, work: tuple[tuple[str, str], ...], store: str = "main"
) -> None:
    asked = {"cause": "record courier 1", "instance": "courier"}
    asked |= dict.fromkeys(("created_at", "due_at"), payloads.instant(1))
    for number, (state, kind) in enumerate(work):
        command = (f"{store}{number:032x}", kind, "ord_1", state)
        insert_command(office.database, *command, store=store, **asked)


def rename(office: Office) -> None:
    office.write(**{"[stores.main]": "[stores.shop]"})


def lines(office: Office, *words: str) -> list[str]:
    said = in_process(*words, config=office.config)
    return [" ".join(line.split()) for line in said.out.splitlines()]


def test_check_config_lists_the_work_left_behind(office: Office) -> None:
    assert not any("no store" in line for line in lines(office, "check-config"))
    rename(office)
    printed = (
        f"no store main but it has {OPEN}: {MEND}, then park and discard each command"
    )
    assert printed in lines(office, "check-config")


def test_work_left_behind_can_be_listed_by_the_old_name(
    office: Office,
) -> None:
    rename(office)
    listing = ("commands", "list", "--store", "main", "--json")
    found = in_process(*listing, config=office.config).json()
    assert len(found) == len(WORK) + 1
    none = in_process(*listing, "--state", "superseded", config=office.config)
    assert none.json() == []
    said = in_process("commands", "list", "--store", "mian", config=office.config)
    assert said.code == 2
    assert "choose one of: main, shop" in " ".join(said.err.replace("│", " ").split())


def test_a_database_that_cannot_be_read_keeps_no_configuration_from_being_checked(
    office: Office,
) -> None:
    rename(office)
    office.database.write_bytes(b"no database" * 1_000)
    said = in_process("check-config", config=office.config)
    assert (said.code, "no store" in said.out) == (0, False)


def test_doctor_reports_the_work_left_behind_with_its_fix(office: Office) -> None:
    rename(office)
    said = " ".join(in_process("doctor", config=office.config).out.split())
    assert f"store is not in the configuration, but the database has {OPEN}" in said
    assert MEND in said


async def test_the_daemon_logs_the_work_left_behind_once_at_its_start(
    office: Office,
) -> None:
    """Open work of a configured store is not reported."""
    rename(office)
    write(office, WORK, "shop")
    store = open_store(office.database, SystemClock())
    store.start()
    await store.kv.put("facts:shop", '{"store_id":"sto_1","currency":"INR"}')
    await store.stop()
    log: list[tuple[str, str, str]] = []
    sink = logger.add(lambda m: log.append(_line(m)), level="INFO")
    daemon = Daemon(context.settings(office.config), Environment(transport=Hanging()))
    running = asyncio.create_task(daemon.run())
    await daemon.ready.wait()
    daemon.stop()
    await running
    logger.remove(sink)
    printed = [line for line in log if line[0] == "store.stranded"]
    said = (
        f"the configuration has no store main, but the database has its {OPEN}:"
        f" {MEND}, then park and discard each command"
    )
    assert printed == [("store.stranded", "main", said)]


def _line(message: Any) -> tuple[str, str, str]:
    record = message.record
    extra = record["extra"]
    return extra.get("action", ""), extra.get("store", ""), record["message"]


async def test_work_left_behind_is_an_alert_until_nothing_is_open(
    office: Office,
) -> None:
    """The alert needs only the names of the stores with open work."""
    write(office, (("planned", "adjust"),), "shop")
    store = SqliteStore(office.database, SystemClock())
    needs = store.alert_conditions
    assert (await needs.current([])).open_stores == {"main", "shop"}
    overwrite(office.database, "commands", {"state": "applied"}, store="main")
    assert (await needs.current([])).open_stores == {"main", "shop"}
    overwrite(office.database, "stock_targets", {"state": "applied"})
    assert (await needs.current([])).open_stores == {"shop"}
    store.engine.close()


def test_decided_work_is_no_longer_reported(office: Office) -> None:
    rename(office)
    open_ones = [
        f"main{number:032x}"
        for number, (state, _) in enumerate(WORK)
        if state in {"planned", "uncertain"}
    ]
    for id_ in (*open_ones, COUNT):
        for verb in ("park", "discard"):
            words = ("commands", verb, id_, "--reason", "renamed")
            assert in_process(*words, config=office.config).code == 0
    assert not any("no store" in line for line in lines(office, "check-config"))
