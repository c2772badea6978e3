"""`backhaul forget customer`: asks back, erases, says what, and who did it is kept."""

from __future__ import annotations

import asyncio
import stat
from typing import TYPE_CHECKING

import pytest

from backhaul.traffic import captures
from support import payloads
from support.daemon import backhaul, connected_process, in_process
from support.databases import rows
from support.mirrored import fill, lone_office
from support.shopping import buy
from support.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.daemon import Office
    from support.reference import ReferenceProcess

EMAIL = "asha@example.com"


@pytest.fixture
def office() -> Iterator[Office]:
    with lone_office() as found:
        person = {"id": "cus_1", "name": "Asha Rao", "email": EMAIL}
        order = payloads.order(customer=person)
        bodies = [
            payloads.envelope("customers/create", payloads.customer()),
            payloads.envelope("orders/create", order),
        ]
        asyncio.run(fill(found, *bodies))
        yield found


def files_of(office: Office) -> bytes:
    state = office.folder / "state"
    return b"".join(p.read_bytes() for p in state.rglob("*") if p.is_file())


def test_without_a_daemon_it_is_done_at_once(office: Office) -> None:
    command = ("forget", "customer", EMAIL, "--yes", "--json")
    found = in_process(*command, config=office.config).json()
    assert found["customer"] == "cus_1"
    assert (found["erased"]["customers"], found["erased"]["orders"]) == (1, 1)
    assert (found["still_in"], found["left_behind"]) == ([], "")
    assert EMAIL.encode() not in files_of(office)
    ((who, action),) = rows(office.database, "SELECT who, action FROM audit")
    assert (who.split(" (uid ")[1][-1], action) == (")", "forget")
    told = in_process("forget", "customer", "cus_1", "--yes", config=office.config)
    assert "no file of the state directory" in told.out
    assert "Asha" not in told.out


def test_it_is_not_done_unless_meant(office: Office) -> None:
    said = backhaul("forget", "customer", "cus_1", config=office.config)
    assert said.code == 1
    assert "It cannot be undone" in said.out
    assert EMAIL.encode() in files_of(office)
    assert rows(office.database, "SELECT * FROM forgotten") == []


def test_a_file_that_still_tells_is_named(office: Office) -> None:
    kept = office.folder / "state" / "captures"
    kept.mkdir()
    (kept / "march.jsonl").write_text(f'{{"body": "{EMAIL.upper()}"}}')
    said = in_process("forget", "customer", "cus_1", "--yes", config=office.config)
    assert "march.jsonl (the e-mail)" in said.out.replace("\n", "")


def test_captures_are_written_anew_without_the_person(office: Office) -> None:
    kept = office.folder / "state" / "captures" / "march.jsonl"
    kept.parent.mkdir()
    backhaul("capture", str(kept), config=office.config)
    kept.chmod(0o640)
    others = list(captures.read(kept))
    command = ("forget", "customer", "cus_1", "--yes", "--json")
    found = in_process(*command, config=office.config).json()
    assert (found["captures"], found["still_in"]) == ([str(kept)], [])
    left = list(captures.read(kept))
    assert [event._replace(body=b"") for event in left] == [
        event._replace(body=b"") for event in others
    ]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert [path.name for path in kept.parent.iterdir()] == ["march.jsonl"]


def test_captures_are_written_anew_when_said_again(office: Office) -> None:
    """As where the program was ended in between: nobody knows the name any more."""
    kept = office.folder / "state" / "march.jsonl"
    backhaul("capture", str(kept), config=office.config)
    before = kept.read_bytes()
    command = ("forget", "customer", "cus_1", "--yes", "--json")
    in_process(*command, config=office.config)
    kept.write_bytes(before)
    assert in_process(*command, config=office.config).json()["captures"] == [str(kept)]
    assert EMAIL.encode() not in kept.read_bytes()
    assert in_process(*command, config=office.config).json()["captures"] == []


def test_a_capture_keeps_what_another_store_was_told(office: Office) -> None:
    kept = office.folder / "state" / "march.jsonl"
    backhaul("capture", str(kept), config=office.config)
    head, events = captures.read_head(kept), list(captures.read(kept))
    others = [event._replace(store="other") for event in events]
    with kept.open("w", encoding="utf-8", newline="\n") as stream:
        captures.write(head, [*events, *others], stream)
    in_process("forget", "customer", "cus_1", "--yes", config=office.config)
    left = list(captures.read(kept))
    assert left[len(events) :] == others
    assert not [e for e in left[: len(events)] if EMAIL.encode() in e.body]


def test_another_person_of_that_name_is_told_of(office: Office) -> None:
    namesake = {"id": "cus_2", "name": "Asha Rao", "email": "other@example.com"}
    order = payloads.order("ord_2", number=1002, customer=namesake)
    asyncio.run(fill(office, payloads.envelope("orders/create", order)))
    said = in_process("forget", "customer", "cus_1", "--yes", config=office.config)
    assert "backhaul.db (the name, maybe of somebody else)" in said.out
    query = "SELECT json_extract(document, '$.customer.name') FROM orders WHERE id = ?"
    assert rows(office.database, query, "ord_2") == [("Asha Rao",)]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("cus_9", "--yes"), "no customer of main has the id or e-mail 'cus_9'"),
        (("cus_1", "--yes", "--store", "other"), "say which store with --store: main"),
    ],
)
def test_what_cannot_be_is_said(
    arguments: tuple[str, ...], why: str, office: Office
) -> None:
    said = in_process("forget", "customer", *arguments, config=office.config)
    assert said.code == 1
    assert why in said.err


@pytest.mark.programs
def test_a_running_daemon_forgets_and_redacts_what_comes_later(
    platform: ReferenceProcess,
) -> None:
    with connected_process(platform) as started:
        office = started.office
        somebody = {"name": "Oluwaseun Adebayo", "email": "seun@example.com"}
        order = buy(platform, customer=somebody)
        query = "SELECT json_extract(document, '$.customer.email') FROM orders"
        where = f"{query} WHERE id = ?"
        await_true(lambda: rows(office.database, where, order["id"]), "the order")
        email = order["customer"]["email"]
        command = ("forget", "customer", order["customer"]["id"], "--yes", "--json")
        found = in_process(*command, config=office.config).json()
        assert found["still_in"] == []
        again = buy(platform, customer=somebody)
        assert again["customer"]["email"] == email
        await_true(lambda: rows(office.database, where, again["id"]), "the next order")
        assert rows(office.database, where, again["id"]) == [(None,)]
        shown = "SELECT erased_by FROM events WHERE object_id = ? AND topic LIKE 'ord%'"
        assert ("forget",) in rows(office.database, shown, again["id"])
