"""Reads finished shipments and stock levels from Tryton."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from backhaul_sdk import CheckFailed
from backhaul_sdk.erp import (
    Goods,
    Parcel,
    RecordPage,
    RequestRefused,
    all_rows,
    fulfillment,
    stock_count,
)
from backhaul_sdk.fields import UNREADABLE, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul_connectors.tryton.rpc import TrytonClient
    from backhaul_connectors.tryton.settings import Settings
    from backhaul_sdk import Bad, Record

SHIPMENT = "stock.shipment.out"
MOVES_AT_ONCE = 1_000


class TrytonCursor(Struct, frozen=True):
    """How far was read: the last shipment, and the stock.

    `product` is the last product while the stock is being read, `counted` is when the
    last stock reading began, in seconds since 1970.
    """

    written: str = ""
    shipment: int = 0
    product: int = 0
    counted: float = 0.0

    def to_text(self) -> str:
        return json.dumps([self.written, self.shipment, self.product, self.counted])

    @classmethod
    def from_text(cls, text: str | None) -> TrytonCursor:
        """Read the host's text; invalid text means from the beginning."""
        try:
            written, shipment, product, counted = json.loads(text or "")
            datetime.fromisoformat(written or "2000-01-01")
            return cls(str(written), int(shipment), int(product), float(counted))
        except UNREADABLE:
            return cls()


class TrytonReader:
    """Reads shipments and stock of one database."""

    def __init__(self, server: TrytonClient, settings: Settings) -> None:
        self._server = server
        self._settings = settings

    async def shipments(self, cursor: TrytonCursor) -> RecordPage[TrytonCursor]:
        """Return the next finished shipments.

        If the server's clock was set back, new shipments sort before the cursor: then
        all are read again, and the host ignores known keys.
        """
        settings, size = self._settings, self._settings.batch_rows
        self._server.require_no_wait()
        await self._server.call("model.res.user.get_preferences", True)
        if _written(cursor) > self._server.now:
            cursor = replace(cursor, written="", shipment=0)
        settled = self._server.now - timedelta(seconds=settings.lag_seconds)
        fields = [
            "number",
            "write_date",
            *filter(None, [settings.tracking_number_field]),
        ]
        rows = await self._server.call(
            f"model.{SHIPMENT}.search_read",
            [
                ["state", "=", "done"],
                ["write_date", "<=", settled],
                *self._since(),
                *_behind(cursor),
            ],
            *(0, size, [["write_date", "ASC"], ["id", "ASC"]], fields),
        )
        if not rows:
            return RecordPage((), cursor, more=False)
        shipments = [row["id"] for row in rows]
        sold, carriers = await self._sold(shipments), await self._carriers(shipments)
        told = [{**row, "carrier": carriers.get(row["id"])} for row in rows]
        records = [each for row in told for each in self._of(row, sold)]
        last = rows[-1]
        place = replace(
            cursor, written=last["write_date"].isoformat(), shipment=last["id"]
        )
        return RecordPage(records, place, len(rows) == size)

    def _since(self) -> list[Any]:
        day = self._settings.shipped_since
        return [["effective_date", ">=", day]] if day else []

    async def _carriers(self, shipments: list[int]) -> dict[int, Any]:
        """Return the carrier of each shipment, if Tryton knows it.

        It does with the module stock_shipment_cost; a user without access to carriers
        can still ship.
        """
        model = f"model.{SHIPMENT}"
        if not await self._server.call(f"{model}.fields_get", ["carrier"]):
            return {}
        name = ["carrier.party.name"]
        try:
            rows = await self._server.call(f"{model}.read", shipments, name)
        except RequestRefused:
            return {}
        return {row["id"]: _carrier(row) for row in rows}

    async def is_stock_due(self, cursor: TrytonCursor) -> bool:
        """Return True if a stock reading is due, or has not ended."""
        self._server.require_no_wait()
        await self._server.call("model.res.user.get_preferences", True)
        every = self._settings.stock_seconds
        since = self._server.now.timestamp() - cursor.counted
        # A clock that was set back must not delay the stock until the old time.
        return bool(every) and (cursor.product > 0 or abs(since) >= every)

    async def stock(self, cursor: TrytonCursor) -> RecordPage[TrytonCursor]:
        """Return the next stock levels, as of the time of the request."""
        places = await self._house()
        as_of, size = self._server.now, self._settings.batch_rows
        rows = await self._server.call(
            "model.product.product.search_read",
            [
                ["code", "!=", None],
                ["type", "=", "goods"],
                ["id", ">", cursor.product],
            ],
            *(0, size, [["id", "ASC"]], ["code", "quantity"]),
            locations=places,
            with_childs=True,
        )
        more = len(rows) == size
        counted = cursor.counted if cursor.product else as_of.timestamp()
        product = rows[-1]["id"] if more else 0
        behind = replace(cursor, product=product, counted=counted)
        return RecordPage([_level(row, as_of) for row in rows], behind, more)

    async def _house(self) -> list[int]:
        """Return the locations of goods that have not left: stored or picked."""
        name = self._settings.warehouse
        named: list[Any] = [["type", "=", "warehouse"]]
        if name:
            named.append(["OR", [["code", "=", name]], [["name", "=", name]]])
        found = await self._server.call(
            "model.stock.location.search_read",
            *(named, 0, 2, None, ["storage_location", "output_location"]),
        )
        if len(found) == 1:
            return [found[0]["storage_location"], found[0]["output_location"]]
        if name:
            number = "several warehouses have" if found else "no warehouse has"
            raise CheckFailed(f"{number} the code or the name {name!r}")
        if found:
            raise CheckFailed(
                "Tryton has several warehouses; name one of them in warehouse"
            )
        raise CheckFailed("Tryton has no warehouse; create one")

    async def _sold(self, shipments: list[int]) -> dict[int, list[dict[str, Any]]]:
        """Return what each shipment sent to customers, with the sale's line."""
        references = [f"{SHIPMENT},{id_}" for id_ in shipments]

        async def page_after(last: int) -> Sequence[dict[str, Any]]:
            found: Sequence[dict[str, Any]] = await self._server.call(
                "model.stock.move.search_read",
                [
                    ["shipment", "in", references],
                    ["to_location.type", "=", "customer"],
                    ["state", "=", "done"],
                    ["id", ">", last],
                ],
                *(0, MOVES_AT_ONCE, [["id", "ASC"]]),
                ["shipment", "origin", "quantity", "product.code"],
            )
            return found

        moves = await all_rows(page_after, "id", MOVES_AT_ONCE, first=0)
        sales = await self._sales_of(moves)
        sold: dict[int, list[dict[str, Any]]] = {}
        for move in moves:
            shipment = int(str(move["shipment"]).rpartition(",")[2])
            sale = sales.get(str(move["origin"]))
            sold.setdefault(shipment, []).append({**move, "sale": sale})
        return sold

    async def _sales_of(self, moves: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the sale behind each origin of a move."""
        origins = {str(move["origin"]) for move in moves}
        lines = sorted(
            int(origin.rpartition(",")[2])
            for origin in origins
            if origin.startswith("sale.line,")
        )
        if not lines:
            return {}
        rows = await self._server.call(
            "model.sale.line.read",
            lines,
            ["sale.reference", "sale.number", "sale.party.code"],
        )
        return {f"sale.line,{row['id']}": row["sale."] for row in rows}

    def _of(
        self, row: Mapping[str, Any], sold: Mapping[int, list[dict[str, Any]]]
    ) -> Iterator[Record | Bad]:
        """Yield the records of a shipment: a parcel for each of our sales in it."""
        by_sale: dict[str, list[dict[str, Any]]] = {}
        for move in sold.get(row["id"], []):
            sale = move["sale"] or {}
            party = (sale.get("party.") or {}).get("code")
            reference = sale.get("reference")
            ours = not self._settings.customer or party == self._settings.customer
            if reference and ours:
                by_sale.setdefault(str(reference), []).append(move)
        for reference, moves in by_sale.items():
            yield _fulfillment(
                row, reference, moves, row.get(self._settings.tracking_number_field)
            )


def _written(cursor: TrytonCursor) -> datetime:
    return datetime.fromisoformat(cursor.written or "1970-01-01").astimezone(UTC)


def _behind(cursor: TrytonCursor) -> list[Any]:
    if not cursor.written:
        return []
    at = _written(cursor)
    same = [["write_date", "=", at], ["id", ">", cursor.shipment]]
    return [["OR", [["write_date", ">", at]], same]]


def _carrier(row: Mapping[str, Any]) -> Any:
    party = (row.get("carrier.") or {}).get("party.") or {}
    return party.get("name")


def _fulfillment(
    row: Mapping[str, Any],
    reference: str,
    moves: Sequence[Mapping[str, Any]],
    tracking: Any,
) -> Record | Bad:
    return fulfillment(
        Parcel(
            key=f"shipment:{row['id']}:{reference}",
            order=reference,
            carrier=row["carrier"],
            tracking=tracking,
            goods=[
                Goods((move["product."] or {}).get("code"), move["quantity"])
                for move in moves
            ],
            shipped_at=rfc3339(row["write_date"]),
            locator=f"shipment {row['number']}",
            system="Tryton",
        )
    )


def _level(row: Mapping[str, Any], as_of: datetime) -> Record | Bad:
    return stock_count(str(row["id"]), row["code"], row["quantity"], as_of)
