"""Simulated shoppers, clerks with CSV files, scanners, packing stations and an ERP."""

from __future__ import annotations

import asyncio
import csv
import json
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httpx
import msgspec
from msgspec.structs import replace
from sqlite_utils import Database

from backhaul.core.clock import to_text
from backhaul.demo.daemon_rows import Cause, Placement
from backhaul.demo.demo_folder import COURIER, ERP, HOST, SCANNER, STATION
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.demo.demo_folder import Access


PATIENCE_SECONDS = 0.2
"""Wait before asking again a server that gave no answer."""
LIMIT_SECONDS = 2.0
ADDRESS = {"address1": "12 MG Road", "city": "Pune", "country": "IN", "zip": "411001"}
NAMES = ("Asha Rao", "Dev Menon", "Ira Sethi", "Kabir Das", "Meera Nair", "Om Joshi")


class Article(msgspec.Struct, frozen=True):
    """Something in the shop window."""

    product_id: str
    variant_id: str
    sku: str


class SoldOut(Exception):
    """Somebody was faster; the shopper takes something else."""


class Storefront:
    """The shop as a browser sees it. An order is placed once, however often tried."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._clock = clock
        self._client = httpx.AsyncClient(
            base_url=f"{access.public_url}/storefront",
            headers={"x-subdomain": access.subdomain},
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def articles(self) -> list[Article]:
        """Return everything that is for sale, once the store answers."""
        while True:
            try:
                answer = await self._client.get("/products", params={"limit": 100})
                break
            except httpx.TransportError:
                await self._clock.sleep(PATIENCE_SECONDS)
        return [
            Article(product["id"], variant["id"], variant["sku"])
            for product in answer.raise_for_status().json()["data"]
            for variant in product["variants"]
        ]

    async def place(self, cart: Mapping[str, Any], key: str) -> Placement:
        """Place an order, trying with the same key until the store answers.

        Raises SoldOut; BackhaulError for any other refusal.
        """
        body = msgspec.json.encode(cart)
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        while True:
            try:
                answer = await self._client.post(
                    "/orders", content=body, headers=headers
                )
            except httpx.TransportError:
                await self._clock.sleep(PATIENCE_SECONDS)
                continue
            if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                await self._clock.sleep(LIMIT_SECONDS)
            elif answer.is_server_error:
                await self._clock.sleep(PATIENCE_SECONDS)
            else:
                return _placement(answer, cart)


def _placement(answer: httpx.Response, cart: Mapping[str, Any]) -> Placement:
    document = answer.json()
    code = document.get("code", "")
    if code == "OUT_OF_STOCK":
        raise SoldOut
    if not answer.is_success:
        raise BackhaulError(
            f"the reference server refused an order: status {answer.status_code},"
            f" code {code}"
        )
    lines = {item["variantId"]: item["quantity"] for item in cart["items"]}
    return Placement(document["data"]["id"], document["data"]["number"], lines)


def fill_cart(
    rng: random.Random, articles: Sequence[Article], customers: int
) -> dict[str, Any]:
    """Choose one to three articles for one of `customers` people."""
    person = rng.randrange(customers)
    chosen = rng.sample(articles, k=rng.choice((1, 1, 1, 2, 2, 3)))
    return {
        "paymentMethod": "COD",
        "items": [
            {
                "productId": article.product_id,
                "variantId": article.variant_id,
                "quantity": rng.choice((1, 1, 1, 2)),
            }
            for article in chosen
        ],
        "customer": {
            "name": NAMES[person % len(NAMES)],
            "email": f"shopper{person}@example.com",
        },
        "shippingAddress": ADDRESS,
    }


COMPANY = "City Couriers"
FULFILLMENTS = ("fulfillments", ("order", "tracking_company", "tracking_number"))
CANCELLATIONS = ("cancellations", ("order", "restock", "reason"))
STOCK_DELTAS = ("stock-deltas", ("document", "sku", "adjustment", "reason"))


class Clerk:
    """Writes one kind of file. `said` hears of each row once its file lies there."""

    def __init__(
        self,
        folder: Path,
        form: tuple[str, Sequence[str]],
        said: Callable[[Cause], None],
    ) -> None:
        self._folder = folder
        self._name, self._columns = form
        self._said = said
        self._rows: list[tuple[Sequence[object], Cause]] = []
        self._files = 0

    def note(self, row: Sequence[object], cause: Cause) -> None:
        """Put a row on the desk; where it will stand is not known yet."""
        self._rows.append((row, cause))

    async def work(self, every_seconds: float, clock: Clock) -> None:
        """Hand in what has come up, for ever. Cancel to stop."""
        while True:
            await clock.sleep(every_seconds)
            self.hand_in()

    def hand_in(self) -> None:
        """Write a file of all rows on the desk; it appears whole under its name."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        self._files += 1
        target = self._folder / f"{self._name}-{self._files:04}.csv"
        scratch = target.with_suffix(".tmp")
        with scratch.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self._columns)
            writer.writerows(row for row, _ in rows)
        scratch.rename(target)
        for line, (_, cause) in enumerate(rows, start=2):
            self._said(replace(cause, locator=f"{target.name}:{line}"))


def parcel(order: Placement) -> tuple[Sequence[object], Cause]:
    """Return the courier's row for an order that was picked up, and what it means."""
    tracking = f"CC{order.number:06}"
    cause = Cause(
        kind="fulfill",
        instance=COURIER,
        locator="",
        order_id=order.order_id,
        tracking_company=COMPANY,
        tracking_number=tracking,
    )
    return (order.number, COMPANY, tracking), cause


def cancellation(order: Placement) -> tuple[Sequence[object], Cause]:
    """Return the office's row for an order whose goods go back on the shelf."""
    cause = Cause(kind="cancel", instance=COURIER, locator="", order_id=order.order_id)
    return (f"#{order.number}", "yes", "customer"), cause


def count(document: str, sku: str, delta: int) -> tuple[Sequence[object], Cause]:
    """Return the stock keeper's row for a difference that was counted."""
    cause = Cause(kind="adjust", instance=COURIER, locator="", sku=sku, delta=delta)
    return (document, sku, delta, "STOCK_COUNT"), cause


SCANNED_COMPANY = "Demo Express"
SCAN_PAUSE_SECONDS = 0.15
ANSWER_SECONDS = 5.0


class Handheld:
    """One device. A scan without an answer may have been heard: it is sent again."""

    def __init__(self, device: str, token: str, scanner_url: str, clock: Clock) -> None:
        self._device = device
        self._clock = clock
        self._sequence = 0
        self._client = httpx.AsyncClient(
            base_url=scanner_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def pack(self, order: Placement) -> Cause:
        """Scan a packed order; return once the daemon has said what it makes of it."""
        self._sequence += 1
        scan, cause = scan_of(order, self._device, self._sequence, "DX")
        while not await self._heard(scan):
            await self._clock.sleep(SCAN_PAUSE_SECONDS)
        return cause

    async def _heard(self, scan: dict[str, object]) -> bool:
        """Send it once. A refusal is an answer: the report will miss the command."""
        try:
            answer = await self._client.post("/scan", json=scan)
        except httpx.TransportError:
            return False
        return answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR


def scan_of(
    order: Placement, device: str, sequence: int, prefix: str
) -> tuple[dict[str, object], Cause]:
    """Return the scan of a packed order and what it means; parcels begin with `prefix`.

    The tracking number is the order's, so that a scan that is repeated is the same.
    """
    tracking = f"{prefix}{order.number:06}"
    scan = {
        "device": device,
        "sequence": sequence,
        "mode": "pack",
        "code": f"#{order.number}",
        "trackingCompany": SCANNED_COMPANY,
        "trackingNumber": tracking,
    }
    cause = Cause(
        kind="fulfill",
        instance=SCANNER,
        locator=f"scan {sequence} of {device}",
        order_id=order.order_id,
        tracking_company=SCANNED_COMPANY,
        tracking_number=tracking,
    )
    return scan, cause


FIRST_STATUS_TO_REPEAT = 500


class Station:
    """One device, known by its address. What is not answered is sent again."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._sequence = 0
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def close(self) -> None:
        """Hang up."""
        line, self._line = self._line, None
        if line is not None:
            line[1].close()

    async def pack(self, order: Placement) -> Cause:
        """Scan a packed order; return once the daemon has said what it makes of it."""
        self._sequence += 1
        scan, cause = scan_of(order, STATION, self._sequence, "PS")
        while not await self._heard(scan):
            await self.close()
            await self._clock.sleep(SCAN_PAUSE_SECONDS)
        return cause

    async def _heard(self, scan: dict[str, object]) -> bool:
        """Send it once. A refusal is an answer: the report will miss the command."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await self._connected()
                writer.write(json.dumps(scan).encode() + b"\n")
                answer = json.loads(await reader.readline())
        except (OSError, TimeoutError, ValueError):
            return False
        return bool(answer["status"] < FIRST_STATUS_TO_REPEAT)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._line is None:
            self._line = await asyncio.open_connection(HOST, self._port)
        return self._line


HOUSE_COMPANY = "House Freight"
BUSY_SECONDS = 10.0
"""How long to wait while the connector writes."""


class ReceivedByErp(msgspec.Struct, frozen=True):
    """What the ERP received: its orders, and each change notification."""

    orders: Sequence[dict[str, Any]]
    news: Sequence[dict[str, Any]]


class Erp:
    """The merchant's own program. Its tables are what the daemon reads and writes."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def set_up(self) -> None:
        """Make the tables."""
        with self._open() as database:
            database.enable_wal()
            database.executescript(_SCHEMA)

    def ship(self, order: Placement) -> Cause:
        """Enter a shipment that left the house."""
        tracking = f"HF{order.number:06}"
        row = self._insert(
            "shipments",
            order_number=f"#{order.number}",
            tracking_company=HOUSE_COMPANY,
            tracking_number=tracking,
        )
        return Cause(
            kind="fulfill",
            instance=ERP,
            locator=f"shipments {row}",
            order_id=order.order_id,
            tracking_company=HOUSE_COMPANY,
            tracking_number=tracking,
        )

    def count(self, sku: str, quantity: int) -> Cause:
        """Enter how many there are; the ERP's clock shows whole seconds."""
        counted_at = to_text(self._clock.now().replace(microsecond=0))
        row = self._insert("counts", sku=sku, quantity=quantity, counted_at=counted_at)
        return Cause(
            kind="target",
            instance=ERP,
            locator=f"counts {row}",
            sku=sku,
            quantity=quantity,
            counted_at=counted_at,
        )

    def untaken(self) -> int:
        """Return how many rows nobody has taken yet."""
        with self._open() as database:
            tables = ("shipments", "counts")
            return sum(database[name].count_where(_UNTAKEN) for name in tables)

    def received(self) -> ReceivedByErp:
        """Return what the daemon has written."""
        with self._open() as database:
            return ReceivedByErp(
                list(database["shop_orders"].rows), list(database["shop_news"].rows)
            )

    def _insert(self, table: str, **row: object) -> int:
        with self._open() as database:
            return cast("int", database.table(table).insert(row).last_pk)

    @contextmanager
    def _open(self) -> Iterator[Database]:
        database = Database(self._file)
        try:
            database.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            yield database
        finally:
            database.close()


_UNTAKEN = "taken_at IS NULL"
_SCHEMA = """
    CREATE TABLE shipments (id INTEGER PRIMARY KEY, order_number TEXT NOT NULL,
        tracking_company TEXT NOT NULL, tracking_number TEXT NOT NULL, taken_at TEXT);
    CREATE TABLE counts (id INTEGER PRIMARY KEY, sku TEXT NOT NULL,
        quantity INTEGER NOT NULL, counted_at TEXT NOT NULL, taken_at TEXT);
    CREATE TABLE shop_orders (order_id TEXT PRIMARY KEY, change_id TEXT NOT NULL,
        number INTEGER NOT NULL, status TEXT NOT NULL);
    CREATE TABLE shop_news (change_id TEXT PRIMARY KEY, topic TEXT NOT NULL,
        order_id TEXT NOT NULL);
"""
