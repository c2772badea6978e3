"""Records submitted through the API: stored once, then planned, waiting or refused."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Any, get_args

import pytest
from pydantic import ValidationError

from backhaul.admin.api.submissions import CancelReason, StockReason
from backhaul.connect.record_matching import Matcher
from backhaul.settings import Settings
from backhaul.store.testing.mirror_scenes import show_order, show_product
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS
from scenes.stored import lists

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from scenes.api import Program
    from scenes.dashboard import Office

PARCEL = {"order": "1001", "everything": True, "tracking_number": "JD1"}
KINDS: dict[str, dict[str, Any]] = {
    "fulfillments": PARCEL,
    "cancellations": {"order": "1001", "restock": True, "reason": "CUSTOMER"},
    "adjustments": {"sku": "SKU-1", "delta": -2, "reason": "DAMAGED"},
    "counts": {"sku": "SKU-1", "quantity": 4, "as_of": "2026-03-01T11:00:00+01:00"},
}


def records(office: Office) -> list[tuple[str, str]]:
    with lists(office.path) as reader:
        return [(each.key, each.state) for each in reader.last_records("api", 100)]


async def mirror(office: Office) -> None:
    """Let the mirror know an order and a product."""
    await show_order(office.store, "ord_1", number=1001)
    await show_product(office.store, "prod_1")


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_planned(
    office: Office, program: Program, kind: str
) -> None:
    await mirror(office)
    done = await program.submit(kind, "key-0001", KINDS[kind])
    assert done["accepted"] is True
    assert (done["state"], done["connection"], done["store"]) == (
        "planned",
        "api",
        "main",
    )
    assert done["locator"] == "key-0001 (token program)"
    command = await program.get(f"/commands/{done['command_id']}")
    assert command["connection"] == "api"
    assert await program.get(f"/records/{done['id']}") == done


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_name_waits(
    office: Office, program: Program, kind: str
) -> None:
    done = await program.submit(kind, "key-0001", KINDS[kind], 202)
    assert (done["state"], done["command_id"]) == ("waiting", None)
    assert "is not known" in done["reason"] or "SKU-1" in done["reason"]
    await mirror(office)
    await office.store.records.match(Matcher(office.clock, 60.0), 9)
    now = await program.get(f"/records/{done['id']}")
    assert now["state"] == "planned"


async def test_a_repeated_request_is_stored_once(
    office: Office, program: Program
) -> None:
    await mirror(office)
    first = await program.submit("fulfillments", "key-0001", PARCEL)
    answers = await asyncio.gather(
        *(program.submit("fulfillments", "key-0001", PARCEL) for _ in range(8))
    )
    assert answers == [first] * 8
    assert records(office) == [("key-0001", "accepted")]
    assert len((await program.get("/commands"))["items"]) == 1


async def test_a_repeat_is_marked(office: Office, program: Program) -> None:
    await mirror(office)
    sent = {"json": PARCEL, "headers": {"Idempotency-Key": "key-0001"}}
    found: list[ClientResponse] = [
        await program.ask("POST", "/fulfillments", **sent) for _ in range(2)
    ]
    marks = [each.headers.get("Idempotency-Replayed") for each in found]
    assert marks == [None, "true"]
    assert {each.headers["Location"] for each in found} == {"/backhaul/v1/records/1"}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("fulfillments", {"tracking_number": "JD2"}),
        ("fulfillments", {"shipped_at": "2026-03-01T12:00:00Z"}),
        ("cancellations", None),
    ],
)
async def test_a_known_key_with_another_body_is_refused(
    office: Office, program: Program, kind: str, change: dict[str, Any] | None
) -> None:
    await mirror(office)
    first = await program.submit("fulfillments", "key-0001", PARCEL)
    body = KINDS[kind] if change is None else PARCEL | change
    refused = await program.submit(kind, "key-0001", body, 422)
    assert f"which is record {first['id']}; nothing was stored" in refused["detail"]
    assert records(office) == [("key-0001", "accepted")]


async def test_the_only_store_need_not_be_named(
    office: Office, program: Program
) -> None:
    await mirror(office)
    first = await program.submit("fulfillments", "key-0001", PARCEL)
    named = PARCEL | {"store": "main"}
    assert await program.submit("fulfillments", "key-0001", named) == first
    refused = await program.submit(
        "fulfillments", "key-0002", PARCEL | {"store": "other"}, 422
    )
    assert refused["detail"] == "store: no store is 'other'; the stores are main"


async def test_an_edited_record_still_answers_to_its_key(
    office: Office, program: Program
) -> None:
    await mirror(office)
    body = PARCEL | {"everything": False, "lines": [{"sku": "NO", "quantity": 1}]}
    held = await program.submit("fulfillments", "key-0001", body, 202)
    assert held["state"] == "quarantined", held
    row = held["quarantine_id"]
    await program.post(f"/quarantine/{row}/edit", {"fields": {"tracking_number": "X"}})
    again = await program.submit("fulfillments", "key-0001", body, 202)
    assert again["id"] == held["id"]
    assert len(records(office)) == 1


@pytest.mark.parametrize("key", ["", "short", "x" * 256, "caf\u00e9-key-1"])
async def test_a_key_is_needed(office: Office, program: Program, key: str) -> None:
    refused = await program.submit("fulfillments", key, PARCEL, 400)
    assert "Idempotency-Key with 8 to 255 printable" in refused["detail"]
    assert records(office) == []


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("fulfillments", {"order": "1001"}, "give either `lines`"),
        (
            "fulfillments",
            PARCEL | {"lines": [{"sku": "A", "quantity": 1}]},
            "give either `lines`",
        ),
        ("fulfillments", PARCEL | {"colour": "red"}, "unknown field `colour`"),
        ("fulfillments", PARCEL | {"shipped_at": "soon"}, "shipped_at"),
        ("fulfillments", PARCEL | {"order": " "}, "order"),
        ("fulfillments", PARCEL | {"order": "1\0"}, "NUL character"),
        ("cancellations", {"order": "1001"}, "missing required field `restock`"),
        ("adjustments", {"sku": "A", "delta": 0}, "delta: 0 changes nothing"),
        (
            "adjustments",
            {"sku": "A", "delta": 1, "reason": "FUN"},
            "Invalid enum value",
        ),
        (
            "counts",
            {"sku": "A", "quantity": -1, "as_of": "2026-03-01T00:00Z"},
            "`int` >=",
        ),
        ("counts", {"sku": "A", "quantity": 1, "as_of": "yesterday"}, "as_of"),
        ("counts", {"sku": "A", "quantity": 1}, "missing required field `as_of`"),
    ],
)
async def test_an_unusable_body_is_refused(
    office: Office, program: Program, kind: str, body: dict[str, Any], reason: str
) -> None:
    refused = await program.submit(kind, "key-0001", body, 422)
    assert reason in refused["detail"]
    assert records(office) == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"data": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": b"\xff", "headers": {"Content-Type": "application/json"}}, 400),
        ({"data": b"[" * 9_999, "headers": {"Content-Type": "application/json"}}, 422),
        ({"data": {"order": "1"}}, 415),
        (
            {
                "data": BytesIO(b" " * (2 << 20)),
                "headers": {"Content-Type": "application/json"},
            },
            413,
        ),
    ],
)
async def test_a_body_that_is_no_json_is_refused(
    office: Office, program: Program, sent: dict[str, Any], status: int
) -> None:
    headers = {"Idempotency-Key": "key-0001"} | sent.pop("headers", {})
    answer = await program.ask("POST", "/fulfillments", headers=headers, **sent)
    assert answer.status == status
    assert answer.content_type == "application/problem+json"
    assert records(office) == []


def test_the_reasons_are_those_of_the_sdk() -> None:
    assert set(get_args(CancelReason)) == CANCEL_REASONS
    assert set(get_args(StockReason)) == STOCK_REASONS


def test_no_connection_has_the_name_of_the_records_of_programs() -> None:
    store = {"base_url": "https://shop.example", "api_key": "k"}
    connectors = {"api": {"type": "file_drop"}}
    with pytest.raises(ValidationError, match="cannot have the name 'api'"):
        Settings.model_validate(
            {"state_dir": "x", "stores": {"main": store}, "connectors": connectors}
        )
