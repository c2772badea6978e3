"""`backhaul why` explains every kind of object, and objects that are missing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import to_text
from scenes import payloads
from scenes.daemon import in_process
from scenes.damaged_rows import insert, insert_command, insert_many, overwrite
from scenes.mirror_files import fill, lone_office

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scenes.daemon import Office

PERSON: dict[str, Any] = {
    "id": "cus_1",
    "name": "Asha Rao",
    "email": "asha@example.com",
}


@pytest.fixture(scope="module")
def office() -> Iterator[Office]:
    """Return an office with a product of two variants, ordered, counted and shipped."""
    shirts = [payloads.variant(), payloads.variant("var_2", 5, sku="LS-M")]
    order = payloads.order(customer=PERSON)
    shipped = payloads.order(
        at=5,
        customer=PERSON,
        fulfillmentStatus="FULFILLED",
        shipments=[payloads.shipment()],
    )
    guest = {"id": "cus_9", "name": "Guest", "email": "guest@example.com"}
    bodies = [
        payloads.envelope("products/create", payloads.product(variants=shirts)),
        payloads.envelope("customers/create", payloads.customer(**PERSON)),
        payloads.envelope("orders/create", order),
        payloads.envelope(
            "inventory/level_update",
            payloads.stock_change(orderId="ord_1", adjustmentId=None),
        ),
        payloads.envelope("orders/fulfilled", shipped),
        payloads.envelope(
            "inventory/level_update",
            payloads.stock_change(at=7, stock=30, adjustment=20, adjustment_id="adj_2"),
        ),
        payloads.envelope(
            "orders/create", payloads.order("ord_2", number=1002, customer=guest)
        ),
    ]
    with lone_office() as found:
        asyncio.run(fill(found, *bodies))
        _add_work(found)
        _add_attempts(found)
        assert in_process("search", "--rebuild", config=found.config).code == 0
        yield found


def _add_attempts(office: Office) -> None:
    """Insert a command that was sent twice: the program was killed the first time."""
    path, id_ = office.database, "fedcba9876"
    asked = {"cause": "record courier f1", "instance": "courier", "attempts": 2}
    asked |= dict.fromkeys(("created_at", "due_at"), payloads.instant(6))
    insert_command(path, id_, "fulfill", "ord_2", "sending", **asked)
    attempts = [
        {"command_id": id_, "number": number, "started_at": payloads.instant(at)}
        for number, at in ((1, 7), (2, 8))
    ]
    insert_many(path, "attempts", attempts)


def _add_work(office: Office) -> None:
    """Insert a record and its command, as the daemon does."""
    path, id_, at = office.database, "abcdef0123", payloads.instant(6)
    insert_command(
        path,
        id_,
        "adjust",
        "prod_1",
        "applied",
        payload='{"variant_id":"var_1","delta":20}',
        evidence='{"adjustment_id":"adj_2"}',
        cause="record erp counts.csv:2",
        instance="erp",
        created_at=at,
        due_at=at,
        settled_at=payloads.instant(7),
    )
    insert(
        path,
        "records",
        instance="erp",
        store="main",
        key="k",
        payload="{}",
        raw="",
        locator="counts.csv:2",
        state="accepted",
        command_id=id_,
        received_at=at,
        retry_at="",
    )
    check = {"number": 1, "found": "undecidable", "reason": "no history"}
    insert(path, "resolution_checks", command_id=id_, at=at, **check)
    insert(
        path,
        "audit",
        at=payloads.instant(7),
        who="ann (uid 7)",
        action="commands resolve --applied",
        detail="counted",
        command_id=id_,
        state_before="parked",
        state_after="applied",
    )


def timelines(office: Office, kind: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = in_process(
        "why", kind, name, "--json", config=office.config
    ).json()
    return found


def steps(office: Office, kind: str, name: str) -> list[str]:
    (found,) = timelines(office, kind, name)
    moments = [row["at"] for row in found["timeline"]]
    assert moments == sorted(moments)
    rows = ("{what} {name}: {state} {detail}".format(**r) for r in found["timeline"])
    return [row.strip() for row in rows]


STOCK = (
    "stock LS-S: -2 now 10, MANUAL_ADJUSTMENT by order #1001, reported without an id"
)
COUNTED = (
    "stock LS-S: +20 now 30, MANUAL_ADJUSTMENT"
    " by command abcdef01 (record erp counts.csv:2)"
)
WORK = [
    "record erp counts.csv:2: accepted",
    "adjust abcdef01: planned by record erp counts.csv:2",
    "check 1 for abcdef01: undecidable no history",
    "commands resolve --applied abcdef01: applied was parked, by ann (uid 7): counted",
    "adjust abcdef01: applied",
]


def test_an_order_shows_its_events_and_its_stock(office: Office) -> None:
    states = "status PENDING, payment PENDING, fulfillment"
    for name in ("1001", "#1001", "ord_1"):
        assert set(steps(office, "order", name)) == {
            STOCK,
            f"event 3 orders/create: folded {states} UNFULFILLED",
            f"event 5 orders/fulfilled: folded {states} FULFILLED",
        }


def test_an_attempt_under_way_differs_from_an_interrupted_one(
    office: Office,
) -> None:
    stopped = "the daemon stopped while it was sending this command"
    shown = steps(office, "order", "1002")
    assert [step for step in shown if step.startswith("attempt")] == [
        f"attempt 1 of fedcba98: no answer {stopped}",
        "attempt 2 of fedcba98: sending no answer has come yet",
    ]


@pytest.mark.parametrize("name", ["linen-shirt", "prod_1"])
def test_a_product_shows_its_work_and_its_stock(name: str, office: Office) -> None:
    assert set(steps(office, "product", name)) == {
        "event 1 products/create: folded status active",
        "event 4 inventory/level_update: folded reason MANUAL_ADJUSTMENT",
        "event 6 inventory/level_update: folded reason MANUAL_ADJUSTMENT",
        STOCK,
        COUNTED,
        *WORK,
    }


def test_a_sku_shows_as_much(office: Office) -> None:
    assert set(steps(office, "sku", "LS-S")) == set(steps(office, "product", "prod_1"))


def test_a_sku_shows_no_work_and_no_stock_of_its_sisters(office: Office) -> None:
    shown = steps(office, "sku", "LS-M")
    assert [s for s in shown if s in WORK or s.startswith("stock")] == []
    assert any("products/create" in step for step in shown)


@pytest.mark.parametrize("name", ["cus_1", "asha@example.com", "ASHA@example.com"])
def test_a_customer_shows_orders_and_shipments(name: str, office: Office) -> None:
    assert steps(office, "customer", name) == [
        "order #1001: placed now PENDING, PENDING, FULFILLED",
        "order #1001: shipped BlueDart BD1",
        "event 2 customers/create: folded",
    ]


@pytest.mark.parametrize("name", ["cus_9", "guest@example.com"])
def test_a_customer_known_by_orders_only_is_shown_too(
    name: str, office: Office
) -> None:
    (found,) = timelines(office, "customer", name)
    assert (found["name"], found["orders"]) == ("Guest", 1)
    assert [row["name"] for row in found["timeline"]] == ["#1002"]


def test_a_customer_is_found_behind_many_similar_e_mails() -> None:
    """The index also finds the words of `m@web.de` in `x.m@web.de`."""
    emails = ["m@web.de", *["x.m@web.de"] * 30]
    orders = [
        payloads.order(
            f"ord_{number}",
            number=number,
            customer={"id": f"cus_{email}", "name": "Guest", "email": email},
            items=[
                payloads.item(title="A long title, which ranks lower " * (40 - number))
            ],
        )
        for number, email in enumerate(emails)
    ]
    with lone_office() as many:
        bodies = [payloads.envelope("orders/create", order) for order in orders]
        asyncio.run(fill(many, *bodies))
        assert in_process("search", "--rebuild", config=many.config).code == 0
        (found,) = timelines(many, "customer", "m@web.de")
    assert (found["id"], found["orders"]) == ("cus_m@web.de", 1)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(1.234, "1.23"), (60, "60.00"), (0, "0.00"), (-0.05, "-0.05"), (-1.5, "-1.50")],
)
def test_a_clock_that_was_set_back_shows_a_negative_time(
    seconds: float, shown: str
) -> None:
    sent = datetime(2026, 1, 1, tzinfo=UTC)
    with lone_office() as lone:
        product = payloads.envelope("products/create", payloads.product())
        asyncio.run(fill(lone, product))
        times = dict.fromkeys(("created_at", "due_at", "sent_at"), to_text(sent))
        command = ("c", "adjust", "prod_1", "applied")
        insert_command(lone.database, *command, instance="books", **times)
        insert(
            lone.database,
            "echoes",
            store="main",
            effect="c",
            lane="product:prod_1",
            event_id=1,
            at=to_text(sent + timedelta(seconds=seconds)),
            command_id="c",
        )
        found = steps(lone, "product", "prod_1")
    assert f"echo of c: confirmed by event 1, {shown} s after it was sent" in found


def test_a_read_is_distinguished_from_a_delivery(office: Office) -> None:
    overwrite(office.database, "inbox", {"kind": "read"}, id=3)
    found = steps(office, "order", "1001")
    assert any(step.startswith("event 5") for step in found)
    assert any(step.startswith("read 3") for step in found)


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("order", "number, name, external id and id of 2 orders"),
        ("product", "handle, external id and id of 1 products"),
        ("sku", "SKU and id of 2 variants"),
        ("customer", "id and e-mail of 1 customers and of 2 orders"),
    ],
)
@pytest.mark.parametrize("name", ["4711", 'x"y@z', "%", "9" * 30, "\0"])
def test_a_missing_object_is_reported_with_the_places_searched(
    kind: str, where: str, name: str, office: Office
) -> None:
    said = in_process("why", kind, name, config=office.config)
    assert (said.code, said.out) == (1, "")
    assert f"the mirror has no {kind}" in said.err
    assert where in said.err


@pytest.mark.parametrize(
    ("kind", "name"),
    [("order", "1001"), ("product", "prod_1"), ("sku", "LS-S"), ("customer", "cus_1")],
)
def test_every_timeline_fits_a_narrow_terminal(
    kind: str, name: str, office: Office
) -> None:
    printed = in_process("why", kind, name, config=office.config)
    assert printed.code == 0
    assert max(map(len, printed.out.splitlines())) <= 80
