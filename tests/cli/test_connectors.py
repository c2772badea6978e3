"""Connectors are listed, checked and run, and bad rows edited, without a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store.sqlite.opening import open_store
from scenes.daemon import Office, in_process
from scenes.damaged_rows import insert_delivery
from scenes.stored import rows_of, value_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "order,tracking_company,tracking_number"


@pytest.fixture
def office() -> Iterator[Office]:
    """Run an idle daemon whose platform does not answer."""
    office = Office("http://127.0.0.1:9", "svc_live_0123456789abcdef")
    (office.folder / "state").mkdir()
    open_store(office.database, SystemClock())
    yield office
    office.remove()


def said(office: Office, *arguments: object) -> Any:
    return in_process(*arguments, "--json", config=office.config).json()


def record_states(office: Office) -> list[str]:
    return values_of(office.database, "records", "state")


def test_the_instances_are_listed(office: Office) -> None:
    found = said(office, "connectors", "list")
    assert [(row["connection"], row["type"], row["state"]) for row in found] == [
        ("courier", "file_drop", "no daemon runs"),
        ("bench", "scanner", "no daemon runs"),
    ]


def test_a_connector_is_checked_without_side_effects(office: Office) -> None:
    assert said(office, "connectors", "check", "courier")["ok"]
    office.drop.rmdir()
    failed = in_process("connectors", "check", "courier", config=office.config)
    assert failed.code != 0
    assert "courier: " in failed.err
    unknown = in_process("connectors", "check", "curier", config=office.config)
    assert "the connections are: courier, bench" in unknown.err


def test_a_bad_row_is_quarantined_edited_and_discarded(office: Office) -> None:
    office.put("fulfillments-1.csv", HEADER, ",DHL,L-3", "777777,DHL,L-4")
    ran = said(office, "connectors", "run", "courier")
    assert ran == {"records": {"quarantined": 1, "waiting": 1}}
    row = value_of(office.database, "quarantine", "id")
    config = office.config
    refused = in_process("quarantine", "retry", row, config=config)
    assert "could not read row 1 as a record" in refused.err
    given = ["--kind", "list", "--set", "order=1001"]
    refused = in_process("quarantine", "edit", row, *given, config=config)
    message = "--kind cannot be 'list'; use one of: fulfill"
    assert message in " ".join(refused.err.split())
    strange = ["--kind", "fulfill", "--set", "colour=red"]
    refused = in_process("quarantine", "edit", row, *strange, config=config)
    assert "a record of the kind fulfill has no field colour" in refused.err
    refused = in_process("quarantine", "correct", row, config=config)
    assert "is not a shipment with a tracking number" in refused.err
    good = ["--set", "order=1001"]  # its other values are valid
    assert said(office, "quarantine", "edit", row, *good)["row"] == row
    assert record_states(office) == ["waiting"] * 2
    again = in_process("quarantine", "discard", row, "--reason", "old", config=config)
    assert f"row {row} is now retried" in again.err
    (ran, (action, _)) = rows_of(office.database, "audit", "action", "detail")
    assert (ran, action) == (("connectors run", "courier"), "quarantine edit")


def test_a_row_is_discarded_with_a_reason(office: Office) -> None:
    office.put("fulfillments-1.csv", HEADER, ",DHL,L-3")
    said(office, "connectors", "run", "courier")
    row = value_of(office.database, "quarantine", "id")
    done = said(office, "quarantine", "discard", row, "--reason", "a test of theirs")
    assert done == {"row": row, "state": "dropped"}
    assert said(office, "quarantine", "list") == []


def test_deliveries_to_connections_are_listed_and_resolved(office: Office) -> None:
    parked = {"topic": "order.placed", "state": "parked", "reason": "no answer"}
    insert_delivery(office.database, "erp", "ord_1", **parked)
    (row,) = said(office, "connectors", "deliveries")
    assert (row["topic"], row["state"]) == ("order.placed", "parked")
    decision = ["--as", "applied", "--reason", "it is in their list"]
    done = said(office, "connectors", "resolve", row["seq"], *decision)
    assert done == {"delivery": row["seq"], "state": "applied"}
    table = in_process("connectors", "deliveries", config=office.config).out
    assert "order.placed" in table


def test_a_file_of_known_content_is_applied_or_discarded(office: Office) -> None:
    lines = ("sku,adjustment,reason", "A,-1,DAMAGED")
    for name in ("mon", "tue", "wed"):
        office.put(f"stock-deltas-{name}.csv", *lines)
        said(office, "connectors", "run", "courier")
    assert record_states(office) == ["waiting", "quarantined", "quarantined"]
    listed = said(office, "quarantine", "list")
    assert all("its content equals that of" in row["reason"] for row in listed)
    second, third = sorted(row["id"] for row in listed)
    applied = said(office, "quarantine", "retry", second)
    assert applied["state"] == "is applied by its connector in its next round"
    said(office, "quarantine", "discard", third, "--reason", "a copy")
    said(office, "connectors", "run", "courier")
    assert record_states(office) == [
        "waiting",
        "accepted",
        "dropped",
        "waiting",
    ]
