"""What the demo reads of a daemon's database, with any engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock
from backhaul.demo.daemon_rows import (
    read_daemon_rows,
    read_progress,
    read_totals,
    recent_latency_seconds,
)
from backhaul.store import open_store
from scenes.databases import put_record, put_target

if TYPE_CHECKING:
    from backhaul.store import Place


def test_a_stock_target_is_among_the_commands(database: Place) -> None:
    open_store(database, SystemClock())
    put_target(database, "a" * 32)
    (found,) = read_daemon_rows(database, "main", "scanner").commands
    assert (found["kind"], found["target"]) == ("target", "prod_1")
    assert found["state"] == "planned"


def test_an_accepted_shipment_without_a_command_was_recognized(database: Place) -> None:
    open_store(database, SystemClock())
    for kind in ("fulfill", "adjust"):
        record = {"tracking_company": "DX"}
        put_record(database, kind, json.dumps({"kind": kind, "record": record}))
    found = read_daemon_rows(database, "main", "scanner").recognized
    assert found == [{"company": "DX", "number": None}]


def test_progress_counts_existing_rows(database: Place) -> None:
    open_store(database, SystemClock())
    put_target(database, "a" * 32)
    found = read_progress(database)
    assert (found.open_commands, found.waiting, found.to_fold) == (1, 1, 0)
    assert read_totals(database) == (0, 0)
    assert recent_latency_seconds(database) is None
