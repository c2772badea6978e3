"""The parsers of connectors: what couriers, scanners, files and back offices send."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from yarl import URL

from backhaul.connect.record_matching import decode, encode
from backhaul_connectors.courier import parsing as courier_parsing
from backhaul_connectors.courier import polling as courier_asking
from backhaul_connectors.courier import settings as courier_settings
from backhaul_connectors.courier import signatures as courier_signatures
from backhaul_connectors.courier.parsing import raw_of, records_of
from backhaul_connectors.file_drop import files as file_cursor
from backhaul_connectors.file_drop.csv_reader import CellOrigin as FileOrigin
from backhaul_connectors.file_drop.json_reader import JsonRowReader
from backhaul_connectors.file_drop.parsing import file_kinds
from backhaul_connectors.file_drop.settings import Settings as FileSettings
from backhaul_connectors.http_json import client as http_cursor
from backhaul_connectors.http_json.client import next_url
from backhaul_connectors.http_json.settings import List
from backhaul_connectors.scanner import Scanner
from backhaul_connectors.scanner.actions import action_of, normalized
from backhaul_connectors.scanner.codes import (
    article_of,
    order_of,
    parcel_of,
    why_no_order,
)
from backhaul_connectors.scanner.intake import reply_to
from backhaul_connectors.scanner.labels import tracking_number
from backhaul_connectors.scanner.order_validation import StoreLookup
from backhaul_connectors.scanner.scan import ScanRefused, read_line, scan_of
from backhaul_connectors.scanner.settings import Settings as ScannerSettings
from backhaul_connectors.scanner.settings import parse_tokens
from backhaul_connectors.sql import cursor as sql_cursor
from backhaul_connectors.sql import parsing as sql_parsing
from backhaul_connectors.sql.values import from_plain
from backhaul_connectors.tryton import reader as tryton_reading
from backhaul_connectors.tryton.rpc import untyped
from backhaul_sdk import Bad, CheckFailed, HttpRequest, Receipt, json_items
from backhaul_sdk.addresses import AddressRefused, Guard, Network
from backhaul_sdk.calls import Answer, NotJson, outcome_of, read_json
from backhaul_sdk.erp import ErpCursor
from backhaul_sdk.fields import Unusable, reason_of, rfc3339
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS
from backhaul_sdk.testing import MemoryDocuments
from connectors import couriers
from fuzzing.targets import Target, as_json, as_text, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul_sdk import Record

NOW = "2026-01-02T00:00:00.000Z"
VENDORS = ("easypost", "aftership", "sendcloud", "generic")


def keep(records: Iterable[Record | Bad]) -> None:
    """Keep records as the host does: what is kept must be read again the same."""
    for record in records:
        if not isinstance(record, Bad):
            with suppress(UnicodeEncodeError):  # which the host sets aside
                assert encode(decode(encode(record))[1]) == encode(record)


PRESETS = ("shippo", "shippo-hmac", "17track", "ship24")


def _courier(name: str) -> courier_settings.Settings:
    told: dict[str, Any] = {"secrets": [couriers.SECRET], "ship": "order"}
    if name in VENDORS:
        told |= {"vendor": name, "signature": {"timestamp_header": "x-timestamp"}}
    else:
        told |= {"preset": name}
    return courier_settings.Settings.model_validate(told)


def feed_courier(settings: courier_settings.Settings, data: bytes) -> None:
    with suppress(NotJson, Unusable):
        message = read_json(data)
        for event in courier_parsing.events_of(settings, message):
            keep(records_of(settings, event, as_text(data)))
    with suppress(NotJson, Unusable):
        row = read_json(data)
        raw = raw_of(row)
        event = courier_parsing.ROWS[settings.vendor](settings, row)
        keep(records_of(settings, event, raw))


def feed_signature(settings: courier_settings.Settings, data: bytes) -> None:
    given, time, path = lines_of(data, 3)
    names = (
        *("x-hmac-signature-v2", "x-hmac-signature", "x-signature"),
        *("aftership-hmac-sha256", "sendcloud-signature"),
        *("shippo-auth-signature", "sign", "authorization"),
    )
    headers = {**dict.fromkeys(names, given), "x-timestamp": time, "x-path": path}
    request = HttpRequest("POST", "/events", headers, data, {"token": given})
    assert not courier_signatures.is_genuine(settings, request, couriers.NOW)


def feed_courier_page(data: bytes) -> None:
    url = URL("https://api.example/trackers")
    with suppress(NotJson, Unusable, CheckFailed):
        document = read_json(data)
        for listing in courier_asking.LISTINGS.values():
            courier_asking._next(listing, url, document)


COURIERS = tuple(
    Target(
        f"courier {vendor}",
        partial(feed_courier, _courier(vendor)),
        as_json(message, message.get("result") or message.get("msg") or message),
    )
    for vendor, message in zip(
        VENDORS,
        (
            couriers.easypost(1, reference="1001"),
            couriers.aftership(1, order_id="1001"),
            couriers.sendcloud(1, order_number="1001", parcel_items=[{"sku": "A"}]),
            couriers.generic(1, order="1001", lines=[{"sku": "A", "quantity": 2}]),
        ),
        strict=True,
    )
)
SIGNATURES = tuple(
    Target(
        f"signature of {name}",
        partial(feed_signature, _courier(name)),
        (b"hmac-sha256-hex=00\nWed, 31 Dec 2025 08:00:00 GMT\n/events", b"00\n5\n/"),
    )
    for name in (*VENDORS, *PRESETS)
)


def feed_scan(data: bytes) -> None:
    with suppress(ScanRefused):
        scan = normalized(scan_of(read_line(data), "gun", as_text(data)))
        keep(
            [action_of(scan, StoreLookup(), numeric_skus=False).record(scan.key or "k")]
        )


def feed_code(data: bytes) -> None:
    code = as_text(data)
    for read in (article_of, parcel_of, order_of, why_no_order, tracking_number):
        with suppress(ScanRefused):
            read(code)


async def _kept(_: Record | Bad) -> Receipt:
    return Receipt("accepted", "")


def feed_message(data: bytes) -> None:
    settings = ScannerSettings.model_validate({"devices": {"gun": "t" * 32}})
    scanner = Scanner("gun", settings)
    scanner.documents = MemoryDocuments()
    scanner.intake.emit = _kept
    reply = asyncio.run(reply_to(data, "gun", scanner.intake))
    assert b"\n" not in reply.formed_for(data)


def feed_tokens(data: bytes) -> None:
    with suppress(ValueError):
        assert all(
            isinstance(t, SecretStr) for t in parse_tokens(as_text(data)).values()
        )


PACKED = {
    "mode": "pack",
    "code": "1001",
    "sequence": 5,
    "trackingNumber": "T1",
    "at": "2026-03-31T14:05:00Z",
}
SCANS = as_json(
    PACKED,
    {"mode": "receive", "code": "4006381333931", "quantity": 3, "device": "gun"},
    {"mode": "pack", "order": "1001", "code": "(01)04006381333931(10)AB-123"},
)
CODES = (
    b"4006381333931",
    b"]d20104006381333931" + b"10AB-123\x1d2112345",
    b"(01)04006381333931(10)AB-123",
    b"https://id.gs1.org/01/04006381333931?10=AB",
    b"106141412345678908",
    b"(00)106141412345678908(15)260331",
)


FIELDS: dict[str, dict[str, str]] = {
    "fulfillment": {"order": "order", "shipped_at": "at"},
    "cancellation": {"order": "order", "restock": "restock", "reason": "reason"},
    "stock_adjustment": {"sku": "sku", "delta": "delta"},
    "stock_level": {"sku": "sku", "quantity": "delta", "as_of": "at"},
    "tracking": {"tracking_number": "order", "status": "status", "at": "at"},
}
ITEM = {
    "id": 7,
    "order": "1001",
    "at": "2026-01-01T10:00:00+01:00",
    "restock": True,
    "reason": "OTHER",
    "sku": "A",
    "delta": 5,
    "status": "delivered",
    "lines": [{"sku": "A", "quantity": 2.0}],
}
LISTS = tuple(
    List(kind=kind, path="/x", key="id", fields=fields, lines="lines || null")  # type: ignore[arg-type]  # a Literal
    for kind, fields in FIELDS.items()
)
LINKS = (
    List(
        kind="cancellation", path="/x", key="id", fields={"order": "o"}, paging="link"
    ),
    List(
        kind="cancellation",
        path="/x",
        key="id",
        fields={"order": "o"},
        paging="link",
        next="next",
    ),
    List(
        kind="cancellation",
        path="/x",
        key="id",
        fields={"order": "o"},
        paging="cursor",
        next="next",
    ),
)


def feed_item(data: bytes) -> None:
    with suppress(NotJson):
        item = read_json(data)
        text = json_items.text_of(item)
        for each in LISTS:
            keep([json_items.ItemParser("x", each, NOW).read(item, text)])


def feed_page(data: bytes) -> None:
    link, url = as_text(data), URL("https://erp.example/x?page=1")
    answer = Answer(200, {"link": link, "retry-after": link, "date": link}, data)
    with suppress(NotJson):
        document = read_json(data)
        for each in LINKS[1:]:
            with suppress(CheckFailed):
                next_url(each, url, answer, document, 1)
    with suppress(CheckFailed):
        next_url(LINKS[0], url, answer, {}, 1)


def feed_answer(data: bytes) -> None:
    after, date, rest = lines_of(data, 3)
    for status in (200, 302, 401, 404, 409, 429, 503, 599):
        answer = Answer(
            status,
            {"retry-after": after, "date": date},
            rest.encode("utf-8", "replace"),
        )
        outcome_of(answer)
        assert "\n" not in answer.words()


ROWS: dict[str, tuple[str, ...]] = {
    "fulfillments": (
        "order",
        "tracking_number",
        "lines",
        "sku",
        "quantity",
        "shipped_at",
    ),
    "cancellations": ("order", "restock", "reason"),
    "stock_deltas": ("sku", "adjustment", "reason"),
    "stock_levels": ("sku", "quantity", "as_of"),
}
ROW = {
    "id": 5,
    "changed_at": {"datetime": "2026-01-01T00:00:00"},
    "order": "1001",
    "tracking_number": "T1",
    "lines": '[{"sku": "A", "quantity": 1}]',
    "sku": "A",
    "quantity": {"decimal": "3.000"},
    "shipped_at": 1_767_225_600,
    "restock": "yes",
    "reason": "",
    "adjustment": "-5",
    "as_of": "2026-01-01T10:00",
}


def feed_row(data: bytes) -> None:
    """Give each kind of table a row; typed values are written as cursors write them."""
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict):
            _row({name: _cell(value) for name, value in found.items()})


def _cell(value: Any) -> Any:
    try:
        return from_plain(value)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return json.dumps(value)


def _row(row: dict[str, Any]) -> None:
    origin = sql_parsing.RowOrigin("table", row.get("id"), row.get("changed_at"), UTC)
    for kind, names in ROWS.items():
        values = {name: row.get(name) for name in names}
        try:
            keep([sql_parsing.record_of(kind, values, origin)])
        except (ValueError, RecursionError) as error:
            # Not to be taken for an input that is no row at all.
            raise AssertionError(f"{kind}: {error!r}") from error


def feed_typed(data: bytes) -> None:
    with suppress(NotJson):
        untyped(read_json(data))


AT = datetime(2026, 1, 2, tzinfo=UTC)
GOODS = {"code": "LS-S", "quantity": 2.0, "tracking": "BD1"}


def feed_goods(data: bytes) -> None:
    """Read a parcel of such goods, and how many of them are in the house."""
    with suppress(NotJson):
        found = untyped(read_json(data))
        told = GOODS | (found if isinstance(found, dict) else {"quantity": found})
        goods = {"code": str(told["code"]), "quantity": told["quantity"]}
        row = {"id": 1, "number": "1", "write_date": AT, "carrier": None}
        move = {"product.": goods, **goods}
        keep([tryton_reading._fulfillment(row, "ord_1", [move], told["tracking"])])
        keep([tryton_reading._level({"id": 1, **goods}, AT)])


def feed_reason(data: bytes) -> None:
    for known in (CANCEL_REASONS, STOCK_REASONS):
        with suppress(Unusable):
            assert reason_of(as_text(data), known, "OTHER") in known


def feed_moment(data: bytes) -> None:
    """Write a time as records have it: it must be read again as the same."""
    try:
        at = datetime.fromisoformat(as_text(data))
    except ValueError:
        return
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    with suppress(OverflowError):  # behind the calendar's ends, in UTC
        told = rfc3339(aware)
        assert told.endswith("Z")
        assert datetime.fromisoformat(told) == aware


SHIPPED = FileSettings.model_validate({"path": "/nowhere", "key_columns": ["document"]})
FORMS = file_kinds(SHIPPED)


def feed_lines(data: bytes) -> None:
    """Read lines of JSON, and make of each what each kind of file makes of it."""
    origin = FileOrigin(file="f", dated=NOW, row=1, locator="f:1", raw="")
    for form in FORMS:
        reader = JsonRowReader(io.BytesIO(data), form.columns)
        for row in reader:
            cells = dict(zip(form.columns, row.cells, strict=False))
            if row.problem or len(cells) < len(form.columns):
                continue
            with suppress(Unusable):
                keep([form.understand(cells)(origin)])


def feed_cursors(data: bytes) -> None:
    """Give each connector a text that it may have written in another version."""
    text = as_text(data)
    for made in (
        courier_asking.SeenStatuses.from_text(text).to_text(),
        file_cursor.FileCursor.from_text(text).to_text(),
        http_cursor.cursor_of(http_cursor.positions_of(text)),
        sql_cursor.SqlCursor.from_text(text).to_text(),
        tryton_reading.TrytonCursor.from_text(text).to_text(),
        ErpCursor.from_text(text).to_text(),
    ):
        assert isinstance(made, str)


def feed_address(data: bytes) -> None:
    for allowed in ((), ("10.0.0.0/8",)):
        with suppress(AddressRefused):
            Guard(Network(allow=allowed)).check(as_text(data))


CONNECTORS = (
    *COURIERS,
    *SIGNATURES,
    Target("page of a courier", feed_courier_page, as_json({"next": "/p?x=2"})),
    Target("scan", feed_scan, SCANS),
    Target("scanned code", feed_code, CODES),
    Target("line of a scanner", feed_message, (*SCANS, *CODES)),
    Target(
        "tokens of devices", feed_tokens, (b"gun=0123456789abcdef0123456789abcdef",)
    ),
    Target("item of http_json", feed_item, as_json(ITEM)),
    Target(
        "page of http_json",
        feed_page,
        (b'<https://erp.example/x?page=2>; rel="next"', *as_json({"next": "?c=2"})),
    ),
    Target(
        "answer of a system", feed_answer, (b"120\nWed, 31 Dec 2025 08:00:00 GMT\n{}",)
    ),
    Target("row of a table", feed_row, as_json(ROW)),
    Target(
        "values of Tryton",
        feed_typed,
        as_json([{"__class__": "Decimal", "decimal": "1.50"}, {"__class__": "date"}]),
    ),
    Target("goods of Tryton", feed_goods, as_json(GOODS, GOODS["quantity"])),
    Target("reason", feed_reason, (b"out of stock", b"Customer", b"STOCK-COUNT")),
    Target("moment", feed_moment, (b"2026-03-31T14:05:00.123456+05:30", b"2026-03-31")),
    Target("lines of JSON", feed_lines, as_json({"order": "1", "restock": "yes"})),
    Target(
        "cursors", feed_cursors, as_json({"asked_at": 1, "words": {}}, ["", 1, 2, 3.0])
    ),
    Target("address to call", feed_address, (b"https://erp.example:8443/x?y=1",)),
)
