"""`backhaul events reprocess`, with a running daemon and without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.store.database import sole_writer
from scenes.daemon import backhaul, connected_process, in_process
from scenes.damaged_rows import delete_rows, overwrite
from scenes.shopper import buy
from scenes.stored import count
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import DaemonProcess, Office
    from scenes.reference_process import ReferenceProcess


@pytest.fixture(scope="module")
def daemon(platform: ReferenceProcess) -> Iterator[DaemonProcess]:
    order = buy(platform)
    with connected_process(platform) as started:
        database = started.office.database
        await_true(lambda: count(database, "orders", id=order["id"]), "the order")
        yield started


def quarantine_orders(office: Office) -> int:
    """Delete the orders, and quarantine their events; return their number."""
    delete_rows(office.database, "orders")
    quarantined = {"state": "quarantined"}
    overwrite(office.database, "event_outcomes", quarantined, kind="order")
    return count(office.database, "events", **quarantined)


def test_the_running_daemon_folds_again_and_so_does_the_command_alone(
    daemon: DaemonProcess,
) -> None:
    office = daemon.office
    for daemon_runs in (True, False):
        moved = quarantine_orders(office)
        refold = ("events", "reprocess", "--state", "quarantined", "--json")
        done = backhaul(*refold, config=office.config).json()
        assert sum(done.values()) == moved > 0
        assert count(office.database, "orders") > 0
        assert count(office.database, "events", state="quarantined") == 0
        if daemon_runs:
            assert daemon.terminate() == 0


def test_reprocess_needs_a_selection_of_events(daemon: DaemonProcess) -> None:
    config = daemon.office.config
    for given in ((), ("--all", "--state", "stale"), ("--since", "yesterday")):
        said = in_process("events", "reprocess", *given, config=config)
        assert said.code == 2, said.out
    printed = in_process("events", "reprocess", "999999", config=config)
    assert printed.out == "reprocessed: no event matches\n"


def test_an_unreachable_daemon_stops_the_command(
    daemon: DaemonProcess,
) -> None:
    office = daemon.office
    with sole_writer(office.folder / "state"):
        said = in_process("events", "reprocess", "--all", config=office.config)
    assert said.code == 75
