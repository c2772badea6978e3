"""The daemon's own parsers: webhooks, answers, captures, settings, mended rows."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from backhaul.connect.quarantine_edit import edited_record
from backhaul.connect.quarantine_fields import encode_read
from backhaul.core import strict_json, webhook
from backhaul.core.outcome import OPTIONAL_MEMBERS, classify_refusal
from backhaul.core.rate_limit import Budget
from backhaul.core.webhook import open_envelope
from backhaul.errors import BackhaulError, ConfigurationError, Unusable
from backhaul.maintenance import search_indexer
from backhaul.platform import decoding, responses
from backhaul.platform.responses import Response
from backhaul.settings import load_settings
from backhaul.store.read_records import TimelineEntry
from backhaul.store.records import QuarantinedRow
from backhaul.traffic import capture_files
from backhaul.traffic.capture_files import named_store
from backhaul_sdk import Bad, ReadValue
from fuzzing.targets import Target, as_json, as_text, lines_of
from scenes import payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Read = Callable[[Mapping[str, Any]], object]

READ: dict[str, Read] = {
    "orders/create": decoding.order,
    "products/update": lambda data: decoding.product(data, "INR"),
    "products/delete": decoding.deletion,
    "inventory/level_update": decoding.stock_change,
    "customers/create": decoding.customer,
}
SAMPLES = {
    "orders/create": payloads.order(
        shipments=[payloads.shipment()], cancellation={"cancelledAt": None}
    ),
    "products/update": payloads.product(),
    "products/delete": payloads.deletion(),
    "inventory/level_update": payloads.stock_change(orderId="ord_1"),
    "customers/create": payloads.customer(),
}
HISTORY = {
    "id": "h1",
    "createdAt": "2026-01-01T00:00:00Z",
    "adjustmentId": "adj_1",
    "productId": "p",
    "variantId": "v",
    "adjustment": -2,
    "note": "backhaul:0123",
    "source": {"id": "key_1"},
    "stockAfter": 3,
}


def feed_webhook(topic: str, data: bytes) -> None:
    """Open a delivery, read what is inside, and what it says to the search."""
    entry = TimelineEntry(None, "event", topic, None, None, data, 0)
    search_indexer.detail_of(entry)
    with suppress(Unusable):
        opened = open_envelope(data, topic)
        READ.get(opened.topic, decoding.order)(opened.data)


def feed_signature(data: bytes) -> None:
    assert webhook.verify(data, as_text(data), [payloads.SECRET]) is None


def feed_page(data: bytes) -> None:
    date, *rest = as_text(data).split("\n", 1)
    body = rest[0].encode("utf-8", "surrogateescape") if rest else data
    with suppress(Unusable):
        found = responses.read_page(Response(200, {"date": date}, body))
        for row in found.rows:
            _row(row)


def _row(row: bytes) -> None:
    reads = (
        decoding.entry,
        decoding.moved,
        decoding.hook,
        decoding.level,
        decoding.last_attempt,
        decoding.order,
    )
    with suppress(Unusable):
        document = strict_json.decode_object(row)
        for read in reads:
            with suppress(Unusable):
                read(document)


def feed_refusal(data: bytes) -> None:
    for status in (400, 404, 409, 422, 429, 500):
        answer = Response(status, {}, data)
        answer.said()
        for kind in OPTIONAL_MEMBERS:
            classify_refusal(kind, status, answer.problem())


def feed_limits(data: bytes) -> None:
    policy, limit, after = lines_of(data, 3)
    answer = Response(429, {"retry-after": after}, b"")
    budget = Budget()
    budget.answered(1.0, policy, limit)
    budget.throttled(2.0, answer.retry_after_seconds())


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="backhaul-fuzzing-"))


def _file(name: str, data: bytes) -> Path:
    file = _folder() / name
    file.write_bytes(data)
    return file


def feed_capture(data: bytes) -> None:
    file = _file("day.jsonl", data)
    with suppress(Unusable):
        capture_files.read_head(file)
    with suppress(Unusable):
        for arrival in capture_files.read(file):
            assert isinstance(arrival.body, bytes)


def feed_configuration(data: bytes) -> None:
    with suppress(ConfigurationError):
        load_settings(_file("backhaul.toml", data), {})


def feed_environment(data: bytes) -> None:
    environ = {}
    for line in as_text(data).split("\n"):
        name, _, value = line.partition("=")
        environ[f"BACKHAUL_{name}"] = value.replace("\0", "")
    with suppress(ConfigurationError):
        load_settings(None, {**environ, "BACKHAUL_STATE_DIR": "/nowhere"})


def feed_mending(data: bytes) -> None:
    """Mend a row in quarantine, as a person's form or the command line says."""
    kind, name, value = lines_of(data, 3)
    record = {"key": "k", "order": "#9", "tracking_number": "T"}
    known = msgspec.json.encode({"kind": "fulfill", "record": record})
    values = {name: ReadValue(value, name), "order": ReadValue("#9", "Order")}
    read = encode_read(Bad(key="k", raw="", reason="", kind="fulfill", read=values))
    assert read is not None
    for payload in (known.decode(), "null", read.decode()):
        place = (1, "record", "courier", "k", "f:1", "open", "")
        row = QuarantinedRow(*place, payload, None, "main", value)
        with suppress(BackhaulError):
            assert msgspec.json.decode(edited_record(row, kind or None, {name: value}))


def feed_address(data: bytes) -> None:
    with suppress(Unusable):
        named_store(as_text(data))


WEBHOOKS = tuple(
    Target(
        f"webhook {topic}",
        lambda data, topic=topic: feed_webhook(topic, data),  # type: ignore[misc]
        (payloads.envelope(topic, sample), *as_json(sample)),
    )
    for topic, sample in SAMPLES.items()
)
CAPTURE = b"""\
{"backhaul_capture":1,"captured_at":"2026-01-01T00:00:00Z","stores":{}}
{"store":"main","kind":"delivery","topic":"orders/create","received_at":"x","headers":{},"body":"{}"}
{"store":"main","kind":"read","topic":"","received_at":"x","headers":{},"body_base64":"/w=="}
"""
CONFIGURATION = b"""\
state_dir = "/nowhere"
[stores.main]
base_url = "https://shop.example"
api_key = "svc_live_fuzz"
[jobs.push_fulfillments]
trigger = "cron"
cron = "*/5 * * * *"
[connectors.courier]
type = "file_drop"
every = "5s"
path = "/nowhere"
"""
DAEMON = (
    *WEBHOOKS,
    Target("signature", feed_signature, (b"0" * 44,)),
    Target(
        "page of a list",
        feed_page,
        as_json({"data": [HISTORY], "meta": {"hasMore": False}}, [HISTORY]),
    ),
    Target(
        "refusal", feed_refusal, as_json({"code": "X", "errors": [{"pointer": "/a"}]})
    ),
    Target("limits", feed_limits, (b'"key";q=240;w=60\n"key";r=39;t=2\n30',)),
    Target("capture", feed_capture, (CAPTURE,)),
    Target("configuration", feed_configuration, (CONFIGURATION,)),
    Target(
        "environment",
        feed_environment,
        (b"STORES__MAIN__BASE_URL=https://shop.example\nSTORES__MAIN__API_KEY=k",),
    ),
    Target(
        "mended row",
        feed_mending,
        (b"fulfill\norder\n1001", b'\nlines\n[{"sku": "A", "quantity": 1}]'),
    ),
    Target(
        "address of a receiver", feed_address, (b"http://127.0.0.1:1/webhooks/main",)
    ),
)
