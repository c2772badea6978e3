"""Decisions about several commands and deliveries at once, after a preview."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from scenes.daemon import in_process, office_of
from scenes.damaged_rows import insert_command, insert_delivery
from scenes.databases import started_store
from scenes.stored import rows_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

AT = "2026-03-01T12:00:00.000Z"
IDS = ["aa" * 16, "ab" * 16, "cc" * 16]


@pytest.fixture
def office(platform: ReferenceProcess) -> Iterator[Office]:
    """Return an office without a daemon, with three parked commands, two deliveries."""
    with office_of(platform) as started:

        async def fill() -> None:
            async with started_store(started.database):
                pass

        asyncio.run(fill())
        place = started.database
        for number, id_ in enumerate(IDS):
            about = {"seq": number + 1, "instance": "erp", "due_at": AT}
            more = about | {"created_at": AT, "reason": "lost"}
            target = f"ord_{number}"
            insert_command(place, id_, "fulfill", target, "parked", **more)
        for seq in (1, 2):
            values = {"seq": seq, "id": f"d{seq}", "state": "parked"}
            insert_delivery(place, "erp", f"ord_{seq}", "order.placed", **values)
        yield started


def run(office: Office, *arguments: object) -> Any:
    return in_process(*arguments, "--json", config=office.config).json()


def states(office: Office, table: str = "commands") -> list[str]:
    return values_of(office.database, table, "state")


def test_several_commands_are_discarded_by_their_first_characters(
    office: Office,
) -> None:
    why = ("--reason", "a test")
    shown = run(office, "commands", "discard", "aa", "cc", *why, "--dry-run")
    assert (shown["rows"], shown["changed"]) == (2, 2)
    assert states(office) == ["parked"] * 3
    done = run(office, "commands", "discard", "aa", "cc", *why, "--yes")
    assert done["states"] == [{"state": "rejected", "rows": 2}]
    assert states(office) == ["rejected", "parked", "rejected"]
    entries = rows_of(office.database, "audit", "action", "detail", "command_id")
    expected = [("commands discard", "a test", id_) for id_ in (IDS[0], IDS[2])]
    assert sorted(entries) == sorted(expected)


def test_all_that_match_are_decided_about(office: Office) -> None:
    where = ("--where", "state=parked connector=erp order=ord_1")
    done = run(office, "commands", "discard", *where, "--reason", "x", "--yes")
    assert done["states"] == [{"state": "rejected", "rows": 1}]
    assert states(office) == ["parked", "rejected", "parked"]


def test_impossible_decisions_are_named_beforehand(office: Office) -> None:
    shown = run(office, "commands", "resolve", "--where", "state=parked")
    assert shown["changed"] == 0
    assert shown["lines"] == [
        "3 rows: unchanged: Backhaul has not sent them, so there is no outcome"
    ]
    refused = in_process("commands", "park", "--reason", "x", config=office.config)
    assert (refused.code, "choose commands by id" in refused.err) == (2, True)
    refused = in_process(
        *("commands", "discard", "aa", "ab", "--reason", "x"), config=office.config
    )
    assert refused.code == 2
    assert "add --yes" in " ".join(refused.err.split())
    assert states(office) == ["parked"] * 3


def test_commands_are_listed_by_a_filter(office: Office) -> None:
    where = ("--where", "order=ord_1 reason=LOST")
    rows = run(office, "commands", "list", *where)
    assert [row["id"] for row in rows] == [IDS[1]]
    twice = ("--state", "parked", "--where", "state=planned")
    refused = in_process("commands", "list", *twice, config=office.config)
    assert refused.code == 2
    assert "give it only once" in " ".join(refused.err.split())
    refused = in_process("events", "list", "--where", "stat=x", config=office.config)
    assert (refused.code, "no field 'stat'" in refused.err) == (2, True)


def test_deliveries_are_shown_and_decided_about(office: Office) -> None:
    rows = run(office, "deliveries", "list", "--where", "order=ord_2")
    assert [(row["seq"], row["connection"]) for row in rows] == [(2, "erp")]
    shown = run(office, "deliveries", "show", 2)
    assert (shown["seq"], shown["tries"]) == (2, [])
    why = ("--reason", "was down", "--yes")
    done = run(office, "deliveries", "retry", 1, 2, *why)
    assert done["states"] == [{"state": "planned", "rows": 2}]
    assert states(office, "deliveries") == ["planned"] * 2
    shown = run(office, "deliveries", "discard", 1, *why, "--dry-run")
    assert shown["changed"] == 0
    missing = in_process("deliveries", "show", 99, config=office.config)
    assert (missing.code, "no delivery 99" in missing.err) == (1, True)
