"""`backhaul customers erase` asks for confirmation, erases, and audits the erasure."""

from __future__ import annotations

import asyncio
import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.traffic import capture_files
from scenes import payloads
from scenes.daemon import connected_process, in_process
from scenes.mirror_files import fill, lone_office
from scenes.shopper import buy
from scenes.stored import count, rows_of, values_of
from scenes.terminal import run_at_terminal
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

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
    command = ("customers", "erase", EMAIL, "--yes", "--json")
    found = in_process(*command, config=office.config).json()
    assert found["customer"] == "cus_1"
    assert (found["erased"]["customers"], found["erased"]["orders"]) == (1, 1)
    assert (found["still_in"], found["left_behind"]) == ([], "")
    assert EMAIL.encode() not in files_of(office)
    ((who, action),) = rows_of(office.database, "audit", "who", "action")
    assert (who.split(" (uid ")[1][-1], action) == (")", "forget")
    printed = in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    assert "no file in state_dir" in printed.out
    assert "Asha" not in printed.out


def untouched(office: Office) -> bool:
    kept = values_of(office.database, "customers", "email") == [EMAIL]
    erased = [count(office.database, t) for t in ("erased_customers", "audit")]
    return kept and erased == [0, 0] and EMAIL.encode() in files_of(office)


def customers_of(office: Office, order: str) -> list[dict[str, Any]]:
    """Return the customer of a mirrored order."""
    documents = values_of(office.database, "orders", "document", id=order)
    return [json.loads(document).get("customer") or {} for document in documents]


WHOM = ("customer cus_1", "name Asha Rao", f"e-mail {EMAIL}", "orders 1")


@pytest.mark.parametrize(
    "answer", [b"y\n", b"\n", pytest.param(b"n\n", marks=pytest.mark.programs)]
)
def test_the_found_customer_is_shown_and_needs_confirmation(
    answer: bytes, office: Office
) -> None:
    words = ("customers", "erase", EMAIL)
    code, printed = run_at_terminal(office.config, answer, *words)
    shown = " ".join(printed.split())
    for what in (*WHOM, f"since {payloads.instant(0)}"):
        assert what in shown
    assert "Erase this customer? This cannot be undone. [y/N]" in shown
    assert (code == 0) == (answer == b"y\n")
    assert untouched(office) == (code != 0)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_without_a_terminal_an_erasure_needs_an_explicit_option(
    more: tuple[str, ...], office: Office
) -> None:
    said = in_process("customers", "erase", "cus_1", *more, config=office.config)
    assert said.code == 2
    shown = " ".join(said.err.replace("│", " ").split())
    words = "without a terminal, the command cannot ask for confirmation; add --yes or"
    assert f"{words} --dry-run" in shown
    assert untouched(office)


def test_a_dry_run_shows_the_customer_and_erases_nothing(office: Office) -> None:
    command = ("customers", "erase", "cus_1", "--dry-run", "--yes")
    shown = " ".join(in_process(*command, config=office.config).out.split())
    assert all(what in shown for what in WHOM)
    assert untouched(office)
    in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    found = in_process(*command, "--json", config=office.config).json()
    assert found.pop("forgotten_at") > "2026"
    assert found == {
        "customer": "cus_1",
        "names": [],
        "emails": [],
        "orders": 1,
        "since": payloads.instant(0),
    }


def test_a_dry_run_finds_a_guest_s_orders_by_e_mail(office: Office) -> None:
    guest = {"id": None, "name": "Zoe Quill", "email": "zoe@example.com"}
    some = [payloads.order(f"ord_{n}", number=n, customer=guest) for n in (2, 3)]
    bodies = [payloads.envelope("orders/create", each) for each in some]
    asyncio.run(fill(office, *bodies))
    command = ("customers", "erase", "Zoe@example.com", "--dry-run", "--json")
    found = in_process(*command, config=office.config).json()
    assert (found["names"], found["orders"]) == (["Zoe Quill"], 2)
    assert untouched(office)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("cus_9", "cus_1 (Asha Rao), cus_7 (Bela Other)"),
        ("csu_1", "cus_1 (Asha Rao)"),
        ("cus_12", "cus_1 (Asha Rao)"),
        ("cus", "cus_1 (Asha Rao)"),
        ("asha@exmaple.com", f"cus_1 ({EMAIL})"),
        ("ASHA@example.co", f"cus_1 ({EMAIL})"),
        ("asha rao", "cus_1 (Asha Rao)"),
        ("dus_7", "cus_7 (Bela Other)"),
        ("nobody", ""),
        ("x" * 200, ""),
    ],
)
def test_an_unknown_customer_is_refused_with_the_nearest_ones(
    typed: str, near: str, office: Office
) -> None:
    """One of them occurs only in an order."""
    other = {"id": "cus_7", "name": "Bela Other", "email": "bela@example.com"}
    order = payloads.order("ord_2", number=1002, customer=other)
    asyncio.run(fill(office, payloads.envelope("orders/create", order)))
    assert in_process("search", "--rebuild", config=office.config).code == 0
    said = in_process("customers", "erase", typed, "--yes", config=office.config)
    assert said.code == 1
    assert f"store main has no customer with the id or e-mail '{typed}'" in said.err
    assert said.err.strip().partition("; similar customers: ")[2] == near
    assert untouched(office)


def test_a_file_that_still_names_the_customer_is_reported(office: Office) -> None:
    kept = office.folder / "state" / "captures"
    kept.mkdir()
    (kept / "march.jsonl").write_text(f'{{"body": "{EMAIL.upper()}"}}')
    said = in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    assert "march.jsonl (the e-mail)" in said.out.replace("\n", "")


def test_captures_are_rewritten_without_the_customer(office: Office) -> None:
    kept = office.folder / "state" / "captures" / "march.jsonl"
    kept.parent.mkdir()
    in_process("capture", str(kept), config=office.config)
    kept.chmod(0o640)
    others = list(capture_files.read(kept))
    command = ("customers", "erase", "cus_1", "--yes", "--json")
    found = in_process(*command, config=office.config).json()
    assert (found["captures"], found["still_in"]) == ([str(kept)], [])
    left = list(capture_files.read(kept))
    assert [event._replace(body=b"") for event in left] == [
        event._replace(body=b"") for event in others
    ]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert [path.name for path in kept.parent.iterdir()] == ["march.jsonl"]


def test_captures_are_rewritten_when_the_command_is_repeated(office: Office) -> None:
    """The program may have stopped in between, when the name was already erased."""
    kept = office.folder / "state" / "march.jsonl"
    in_process("capture", str(kept), config=office.config)
    before = kept.read_bytes()
    command = ("customers", "erase", "cus_1", "--yes", "--json")
    in_process(*command, config=office.config)
    kept.write_bytes(before)
    assert in_process(*command, config=office.config).json()["captures"] == [str(kept)]
    assert EMAIL.encode() not in kept.read_bytes()
    assert in_process(*command, config=office.config).json()["captures"] == []


def test_a_damaged_capture_is_named_and_stays(office: Office) -> None:
    kept = office.folder / "state" / "march.jsonl"
    in_process("capture", str(kept), config=office.config)
    head, *events = kept.read_bytes().splitlines(keepends=True)
    # long enough, so that the head is read without reaching the damage
    damaged = b"".join((head, *events * 50, b'"\xff"\n'))
    kept.write_bytes(damaged)
    said = in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    assert said.code == 0
    assert "march.jsonl (the e-mail and the name" in said.out.replace("\n", "")
    assert kept.read_bytes() == damaged
    assert not list(kept.parent.glob("*.new"))


def test_a_blocked_rewrite_is_reported_and_the_erasure_succeeds(office: Office) -> None:
    kept = office.folder / "state" / "march.jsonl"
    in_process("capture", str(kept), config=office.config)
    kept.with_name("march.jsonl.new").mkdir()
    # a file whose first bytes cannot be read, not even by root
    unreadable = kept.with_name("unreadable")
    unreadable.symlink_to("/proc/self/mem")
    said = in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    unreadable.unlink()
    printed = said.out.replace("\n", "")
    assert said.code == 0
    assert "march.jsonl (the e-mail and the name" in printed
    assert "unreadable (not read: " in printed


def test_a_capture_keeps_the_events_of_another_store(office: Office) -> None:
    kept = office.folder / "state" / "march.jsonl"
    in_process("capture", str(kept), config=office.config)
    head, events = capture_files.read_head(kept), list(capture_files.read(kept))
    others = [event._replace(store="other") for event in events]
    with kept.open("w", encoding="utf-8", newline="\n") as stream:
        capture_files.write(head, [*events, *others], stream)
    in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    left = list(capture_files.read(kept))
    assert left[len(events) :] == others
    assert not [e for e in left[: len(events)] if EMAIL.encode() in e.body]


def test_another_customer_of_that_name_is_reported(office: Office) -> None:
    namesake = {"id": "cus_2", "name": "Asha Rao", "email": "other@example.com"}
    order = payloads.order("ord_2", number=1002, customer=namesake)
    asyncio.run(fill(office, payloads.envelope("orders/create", order)))
    said = in_process("customers", "erase", "cus_1", "--yes", config=office.config)
    assert "backhaul.db (the name, maybe of another person)" in said.out
    (customer,) = customers_of(office, "ord_2")
    assert customer["name"] == "Asha Rao"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ("cus_9", "--yes"),
            "store main has no customer with the id or e-mail 'cus_9'",
        ),
        (
            ("cus_1", "--yes", "--store", "other"),
            "no store is called 'other'; the stores are: main",
        ),
    ],
)
def test_an_impossible_erasure_is_refused_with_its_reason(
    arguments: tuple[str, ...], why: str, office: Office
) -> None:
    said = in_process("customers", "erase", *arguments, config=office.config)
    assert said.code == 1
    assert why in said.err


@pytest.mark.programs
def test_a_running_daemon_erases_and_redacts_later_events(
    platform: ReferenceProcess,
) -> None:
    with connected_process(platform) as started:
        office = started.office
        somebody = {"name": "Oluwaseun Adebayo", "email": "seun@example.com"}
        order = buy(platform, customer=somebody)
        await_true(lambda: customers_of(office, order["id"]), "the order")
        email = order["customer"]["email"]
        command = ("customers", "erase", order["customer"]["id"], "--yes", "--json")
        found = in_process(*command, config=office.config).json()
        assert found["still_in"] == []
        again = buy(platform, customer=somebody)
        assert again["customer"]["email"] == email
        await_true(lambda: customers_of(office, again["id"]), "the next order")
        (customer,) = customers_of(office, again["id"])
        assert customer.get("email") is None
        of_order = {"object_id": again["id"], "kind": "order"}
        erased = values_of(office.database, "events", "erased_by", **of_order)
        assert "forget" in erased
