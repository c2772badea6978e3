"""The lists of events and of the quarantine show what the database has."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import from_text
from scenes.daemon import backhaul, connected_process, in_process, office_of
from scenes.shopper import buy
from scenes.stored import count, rows_of, value_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

HEADER = "order,tracking_company,tracking_number"


@pytest.fixture(scope="module")
def shipped(platform: ReferenceProcess) -> dict[str, Any]:
    return buy(platform)


@pytest.fixture(scope="module")
def office(platform: ReferenceProcess, shipped: dict[str, Any]) -> Iterator[Office]:
    """Return an office: one parcel sent, one row unmatched, two quarantined."""
    number = shipped["number"]
    with connected_process(platform) as started:
        office = started.office
        await_true(lambda: count(office.database, "orders", number=number), "the order")
        good = [f"{number},DHL,L-1", "777777,DHL,L-2"]
        office.put("fulfillments-1.csv", HEADER, *good)
        office.put("fulfillments-2.csv", HEADER, ",DHL,L-3")
        parcel = {"tracking_number": "L-1"}
        await_true(lambda: count(office.database, "shipments", **parcel), "its echo")
        await_true(lambda: count(office.database, "quarantine") == 1, "the bad row")
        running = backhaul("status", "--json", config=office.config).json()
        assert running["daemon"]["public_url"].startswith("http://127.0.0.1:")
        printed = backhaul("status", config=office.config).out
        assert "runs since" in printed
        assert "connector courier" in printed
        assert started.terminate() == 0
        yield office


def listed(office: Office, *arguments: str) -> Any:
    return in_process(*arguments, "--json", config=office.config).json()


def test_the_events_are_those_of_the_database(office: Office) -> None:
    found = listed(office, "events", "list", "-n", "1000")
    shown = [(row["id"], row["topic"], row["state"]) for row in found]
    assert shown[::-1] == rows_of(office.database, "events", "id", "topic", "state")
    assert len(shown) > 10


@pytest.mark.parametrize(
    ("option", "value", "column"),
    [
        ("--state", "folded", "state"),
        ("--topic", "orders/fulfilled", "topic"),
    ],
)
def test_events_can_be_narrowed(
    option: str, value: str, column: str, office: Office
) -> None:
    found = listed(office, "events", "list", option, value, "-n", "1000")
    assert {row[column] for row in found} == {value}
    assert len(found) == count(office.database, "events", **{column: value})


def test_lists_can_be_narrowed_to_an_order(
    office: Office, shipped: dict[str, Any]
) -> None:
    for name in (str(shipped["number"]), shipped["name"], shipped["id"]):
        found = listed(office, "events", "list", "--order", name, "-n", "1000")
        assert {row["object_id"] for row in found} == {shipped["id"]}
        known = {"object_id": shipped["id"]}
        assert len(found) == count(office.database, "events", **known)
    (command,) = listed(office, "commands", "list", "--order", shipped["name"])
    assert command["object_id"] == shipped["id"]
    assert listed(office, "commands", "list", "--order", "998") == []
    said = in_process("events", "list", "--order", "4711", config=office.config)
    assert (said.code, said.out) == (1, "")
    assert "the mirror has no order '4711'; Backhaul searched" in said.err


@pytest.mark.parametrize("command", ["events", "commands"])
def test_lists_can_be_narrowed_to_a_time(command: str, office: Office) -> None:
    whole = listed(office, command, "list", "-n", "1000")
    assert listed(office, command, "list", "--since", "1d", "-n", "1000") == whole
    assert listed(office, command, "list", "--since", "2100-01-01") == []
    said = in_process(command, "list", "--since", "2100-01-01", config=office.config)
    assert f"without a filter: backhaul {command} list" in said.out


def test_a_single_event_is_shown_as_it_came(office: Office) -> None:
    fulfilled = {"topic": "orders/fulfilled"}
    (id_, body), *_ = rows_of(office.database, "events", "id", "body", **fulfilled)
    found = listed(office, "events", "show", str(id_))
    assert found["body"] == body.decode()
    printed = in_process("events", "show", id_, config=office.config)
    assert printed.code == 0
    assert "orders/fulfilled" in printed.out


def test_the_commands_are_those_of_the_database(office: Office) -> None:
    (found,) = listed(office, "commands", "list")
    names = ("id", "kind", "target", "instance", "state", "attempts")
    (expected,) = rows_of(office.database, "commands", *names)
    shown = ("id", "kind", "object_id", "connection", "state", "attempts")
    assert tuple(found[name] for name in shown) == expected
    assert found["state"] == "applied"
    assert listed(office, "commands", "list", "--state", "parked") == []
    assert listed(office, "commands", "list", "--kind", "cancel") == []
    assert listed(office, "connectors", "deliveries", "courier") == []


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (("commands", "list", "--state", "park"), "'planned', 'sending', 'applied'"),
        (("commands", "list", "--kind", "fulfil"), "'fulfill', 'cancel', 'adjust'"),
        (("commands", "list", "--store", "nope"), "choose one of: main"),
        (("commands", "list", "--plan", "--store", "nope"), "choose one of: main"),
        (("events", "list", "--state", "quarantine"), "'unhandled', 'quarantined'"),
        (
            ("events", "reprocess", "--state", "quarantine"),
            "'unhandled', 'quarantined'",
        ),
        (("quarantine", "list", "--where", "reasn=value"), "did you mean reason?"),
        (("connectors", "deliveries", "--state", "park"), "'planned', 'sending'"),
        (("connectors", "deliveries", "curier"), "choose one of: bench, courier"),
    ],
)
def test_a_filter_that_is_mistyped_does_not_say_that_all_is_well(
    arguments: tuple[str, ...], known: str, office: Office
) -> None:
    for form in ((), ("--json",)):
        said = in_process(*arguments, *form, config=office.config)
        assert (said.code, said.out) == (2, "")
        assert known in " ".join(said.err.replace("│", " ").split())


def test_a_command_is_shown_with_its_attempts(office: Office) -> None:
    id_ = value_of(office.database, "commands", "id")
    found = listed(office, "commands", "show", id_[:8])
    assert found["id"] == id_
    (attempt,) = found["attempts"]
    assert (attempt["outcome"], attempt["status"]) == ("confirmed", 200)
    assert (found["connection"], found["record"]["connection"]) == ("courier",) * 2
    assert re.fullmatch("([0-9a-f]{2})+", found["digest"])
    printed = in_process("commands", "show", id_[:8], config=office.config)
    assert "confirmed" in printed.out


def test_the_quarantine_is_that_of_the_database(office: Office) -> None:
    (found,) = listed(office, "quarantine", "list")
    names = ("id", "source", "name", "locator", "reason")
    stored = rows_of(office.database, "quarantine", *names)
    assert [tuple(found[name] for name in names)] == stored
    whole = listed(office, "quarantine", "show", str(found["id"]))
    assert whole["raw"].endswith(",DHL,L-3")


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("state=open reason=value since=1h", 1),
        ("dhl", 1),
        ("reason=unknown_sku", 0),
        ("until=1h", 0),
        ("connector=courier", 1),
        ("state=dropped", 0),
    ],
)
def test_the_quarantine_is_narrowed_by_a_filter(
    where: str, rows: int, office: Office
) -> None:
    assert len(listed(office, "quarantine", "list", "--where", where)) == rows


def test_the_quarantine_is_counted_by_reason(office: Office) -> None:
    (group,) = listed(office, "quarantine", "list", "--groups")
    assert (group["rows"], group["reason_class"], group["subject"]) == (1, "value", "")


def test_a_waiting_record_is_listed_with_its_reason(office: Office) -> None:
    (found,) = listed(office, "records", "waiting")
    assert found["reason"] == "order '777777' is not known"
    assert (found["connection"], found["kind"]) == ("courier", "fulfill")
    assert found["locator"] == "fulfillments-1.csv:3"
    received, until = (from_text(found[n]) for n in ("received_at", "quarantine_at"))
    assert until - received == timedelta(minutes=10)
    said = in_process("records", "waiting", config=office.config)
    assert "777777" in said.out
    assert "goes to quarantine 10m after it was received" in " ".join(said.err.split())
    printed = backhaul("status", config=office.config).out
    assert "1 records waiting  run: backhaul records waiting" in printed


def test_status_counts_the_existing_rows(office: Office) -> None:
    found = backhaul("status", "--json", config=office.config).json()
    assert found["daemon"] is None
    assert found["events"] == count(office.database, "events")
    assert found["orders"] == count(office.database, "orders")
    assert (found["to_fold"], found["waiting_records"], found["quarantined"]) == (
        0,
        1,
        1,
    )
    assert found["commands"] == {"applied": 1}
    printed = backhaul("status", config=office.config)
    assert printed.code == 0
    assert "is not running; start it with: backhaul run" in printed.out


def test_why_shows_the_whole_timeline_of_an_order(
    office: Office, shipped: dict[str, Any]
) -> None:
    for name in (str(shipped["number"]), shipped["name"], shipped["id"]):
        (found,) = listed(office, "why", "order", name)
        assert found["id"] == shipped["id"]
    life = [(row["what"].split()[0], row["state"]) for row in found["timeline"]]
    for step in (
        ("event", "folded"),
        ("record", "accepted"),
        ("fulfill", "planned"),
        ("attempt", "confirmed"),
        ("fulfill", "applied"),
    ):
        assert step in life
    moments = [row["at"] for row in found["timeline"]]
    assert moments == sorted(moments)
    printed = in_process("why", "order", shipped["name"], config=office.config)
    for word in ("orders/fulfilled", "fulfillments-1.csv:2", "confirmed", "applied"):
        assert word in printed.out.replace("\n", "")


def test_why_knows_products_and_skus(office: Office, shipped: dict[str, Any]) -> None:
    line = shipped["items"][0]
    (product,) = listed(office, "why", "product", line["productId"])
    assert product["id"] == line["productId"]
    (variant,) = listed(office, "why", "sku", line["sku"])
    assert variant["id"] == line["variantId"]


@pytest.mark.parametrize(
    ("arguments", "what", "hint"),
    [
        (
            ("events", "show", 999_999),
            "there is no event 999999",
            "backhaul events list",
        ),
        (
            ("commands", "show", "feed"),
            "no command has the id 'feed'",
            "backhaul commands list",
        ),
        (
            ("quarantine", "show", 77),
            "there is no quarantined row 77",
            "backhaul quarantine list",
        ),
        (
            ("why", "order", "4711"),
            "the mirror has no order '4711'",
            "backhaul events list",
        ),
        (("why", "order", "9" * 30), "the mirror has no order", "backhaul events list"),
        (("why", "sku", "%"), "the mirror has no sku '%'", "backhaul events list"),
    ],
)
def test_a_missing_object_is_reported_with_a_hint(
    arguments: tuple[object, ...], what: str, hint: str, office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert (said.code, said.out) == (1, "")
    (line,) = said.err.splitlines()
    assert what in line
    assert hint in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "show", 2**63),
        ("quarantine", "show", 10**30),
        ("events", "list", "-n", 2**63),
        ("events", "list", "-n", 0),
        ("events", "show", "first"),
    ],
)
def test_a_number_that_cannot_be_is_a_mistake_and_no_bug(
    arguments: tuple[object, ...], office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert said.code in {1, 2}
    assert "a bug" not in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "order", "\udcff"),
        ("search", "\udcff"),
        ("query", "SELECT '\udcff'"),
        ("commands", "show", "\udcff"),
        ("commands", "list", "--store", "\udcff"),
        ("commands", "discard", "\udcff", "--reason", "x"),
    ],
    ids=" ".join,
)
def test_an_argument_that_is_no_text_is_an_error_and_no_bug(
    arguments: tuple[str, ...], office: Office
) -> None:
    said = in_process(*arguments, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert re.search(r"is no(t)? UTF-8", said.err)


def test_a_number_is_not_found_by_how_it_begins(
    office: Office, shipped: dict[str, Any]
) -> None:
    said = in_process("why", "order", f"{shipped['number']}x", config=office.config)
    assert said.code == 1


def test_before_the_first_start_there_is_nothing_to_show(
    platform: ReferenceProcess,
) -> None:
    with office_of(platform) as fresh:
        said = in_process("events", "list", config=fresh.config)
        assert said.code == 1
        assert (
            "there is no database yet; start the daemon once: backhaul run" in said.err
        )
