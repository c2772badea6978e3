"""Stock: every movement and its log, levels, history and client adjustments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, get_args

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import webhook_outbox
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

MAX_STOCK = 1_000_000_000

MOVE = """UPDATE variant SET stock = stock + :change, stock_ms = :at
WHERE id = :variant AND store_id = :store
  AND stock + :change BETWEEN -1000000000 AND 1000000000
  AND (:force OR :change > 0 OR tracked = 0 OR policy = 'CONTINUE'
       OR stock + :change >= 0)
RETURNING product_id, sku, stock"""
LOG = """INSERT INTO history(id, store_id, adjustment_id, product_id, variant_id, sku,
  adjustment, stock_before, stock_after, reason, note, source_type, source_id,
  order_id, created_ms) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"""


@dataclass(frozen=True, slots=True)
class Source:
    """Who caused a change."""

    type: models.SourceType
    id: str | None = None

    def document(self) -> models.Source:
        return {"type": self.type, "id": self.id}


STOREFRONT = Source("STOREFRONT")
DASHBOARD = Source("DASHBOARD")
SYSTEM = Source("SYSTEM")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why stock moves; the changes of one cause share its adjustment id."""

    adjustment_id: str
    reason: models.Reason
    source: Source
    at_ms: int
    note: str | None = None
    order_id: str | None = None


@dataclass(frozen=True, slots=True)
class Moved:
    """One variant's change, as it happened."""

    product_id: str
    variant_id: str
    sku: str | None
    before: int
    change: int
    after: int

    def level(self) -> models.Moved:
        return {
            "variantId": self.variant_id,
            "sku": self.sku,
            "previousStock": self.before,
            "adjustment": self.change,
            "stock": self.after,
        }


def move(
    tx: Tx,
    store_id: str,
    variant_id: str,
    change: int,
    cause: Cause,
    force: bool = False,
) -> Moved | None:
    """Change one variant's stock and log it; None where the policy forbids it.

    No other function changes stock.
    """
    params = {
        "variant": variant_id,
        "store": store_id,
        "change": change,
        "at": cause.at_ms,
        "force": force,
    }
    row = tx.connection.execute(MOVE, params).fetchone()
    if row is None:
        return None
    after: int = row["stock"]
    moved = Moved(
        row["product_id"], variant_id, row["sku"], after - change, change, after
    )
    _log(tx, store_id, moved, cause)
    return moved


def _log(tx: Tx, store_id: str, moved: Moved, cause: Cause) -> None:
    tx.run(
        LOG,
        (
            tx.ids.new("inv"),
            store_id,
            cause.adjustment_id,
            moved.product_id,
            moved.variant_id,
            moved.sku,
            moved.change,
            moved.before,
            moved.after,
            cause.reason,
            cause.note,
            cause.source.type,
            cause.source.id,
            cause.order_id,
            cause.at_ms,
        ),
    )


def announce(tx: Tx, store_id: str, cause: Cause, moved: Sequence[Moved]) -> None:
    """One inventory/level_update for each product that moved."""
    by_product = sorted(moved, key=lambda one: one.product_id)
    for product_id, group in groupby(by_product, key=lambda one: one.product_id):
        data: models.LevelUpdate = {
            "adjustmentId": cause.adjustment_id,
            "productId": product_id,
            "reason": cause.reason,
            "orderId": cause.order_id,
            "source": cause.source.document(),
            "levels": [one.level() for one in group],
            "updatedAt": formats.to_text(cause.at_ms),
        }
        webhook_outbox.emit(tx, store_id, "inventory/level_update", data)


CLIENT_REASONS: tuple[str, ...] = get_args(models.ClientReason)
REASONS: tuple[str, ...] = get_args(models.Reason)

LEVELS = """SELECT v.*, p.title AS product_title FROM variant v
JOIN product p ON p.id = v.product_id WHERE v.store_id = ?"""
NEWEST_LEVELS = " ORDER BY p.created_ms DESC, p.id DESC, v.position"


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A requested change: a signed amount, or the new stock."""

    product_id: str
    variant_id: str | None
    amount: int
    absolute: bool
    reason: models.Reason
    note: str | None
    expected: int | None


def adjust(
    tx: Tx, store: Store, source: Source, wanted: Adjustment
) -> models.Adjustment:
    """Apply an adjustment to every addressed variant, or to none."""
    store_id, quirks = store.id, store.quirks
    targets = addressed(tx, store_id, wanted)
    _check_expected(wanted, targets)
    at_ms = tx.tick(store_id)
    adjustment_id = tx.ids.new("adj")
    cause = Cause(adjustment_id, wanted.reason, source, at_ms, wanted.note)
    applied = pooled(wanted, targets) if "pooled-stock" in quirks else wanted
    moved = [_apply(tx, store_id, target, applied, cause) for target in targets]
    announce(tx, store_id, cause, [one for one in moved if one.change])
    return {
        "adjustmentId": adjustment_id,
        "productId": wanted.product_id,
        "reason": wanted.reason,
        "levels": [one.level() for one in moved],
        "createdAt": formats.to_text(at_ms),
    }


def addressed(tx: Tx, store_id: str, wanted: Adjustment) -> list[Row]:
    """Return the named variant, or every variant of the product.

    The reading of "synchronised across variants" lives here and nowhere else.
    """
    variants = tx.all(
        "SELECT id, product_id, sku, stock FROM variant"
        " WHERE product_id = ? AND store_id = ? ORDER BY position",
        (wanted.product_id, store_id),
    )
    if not variants:
        raise not_found("PRODUCT", wanted.product_id)
    if wanted.variant_id is None:
        return variants
    named = [row for row in variants if row["id"] == wanted.variant_id]
    if not named:
        raise not_found("VARIANT", wanted.variant_id)
    return named


def pooled(wanted: Adjustment, targets: list[Row]) -> Adjustment:
    """Turn a relative change without a variant into a new stock for all variants.

    The first variant's stock counts as the shared pool.
    """
    if wanted.variant_id is not None or wanted.absolute:
        return wanted
    pool = targets[0]["stock"] + wanted.amount
    return replace(wanted, amount=pool, absolute=True)


def _check_expected(wanted: Adjustment, targets: list[Row]) -> None:
    if wanted.expected is None:
        return
    other = [row for row in targets if row["stock"] != wanted.expected]
    if other:
        raise Problem(
            409,
            "STOCK_CHANGED",
            "the stock is not what was expected",
            items=[_item(row, wanted.expected) for row in other],
        )


def _apply(
    tx: Tx, store_id: str, target: Row, wanted: Adjustment, cause: Cause
) -> Moved:
    change = wanted.amount - target["stock"] if wanted.absolute else wanted.amount
    if change == 0:
        now = target["stock"]
        return Moved(target["product_id"], target["id"], target["sku"], now, 0, now)
    moved = move(tx, store_id, target["id"], change, cause)
    if moved is None:
        raise Problem(
            409,
            "INSUFFICIENT_STOCK" if change < 0 else "STOCK_LIMIT_EXCEEDED",
            "the stock would leave its bounds",
            items=[_item(target, change)],
        )
    return moved


def _item(row: Row, requested: int) -> Document:
    return {
        "pointer": "/adjustment",
        "productId": row["product_id"],
        "variantId": row["id"],
        "requested": requested,
        "available": row["stock"],
    }


def level_view(row: Row) -> models.Level:
    return {
        "productId": row["product_id"],
        "variantId": row["id"],
        "sku": row["sku"],
        "productTitle": row["product_title"],
        "variantTitle": row["title"],
        "stock": row["stock"],
        "trackInventory": bool(row["tracked"]),
        "inventoryPolicy": row["policy"],
        "updatedAt": formats.to_text(row["stock_ms"]),
    }


def levels(rows: Rows, store_id: str, window: Window) -> Listing:
    total = rows.value("SELECT COUNT(*) FROM variant WHERE store_id = ?", (store_id,))
    found = rows.all(
        LEVELS + NEWEST_LEVELS + " LIMIT ? OFFSET ?",
        (store_id, window.limit, window.offset),
    )
    return Listing([level_view(row) for row in found], total)


def every_level(rows: Rows, store_id: str) -> Iterator[models.Level]:
    for found in rows.batches(LEVELS + NEWEST_LEVELS, (store_id,)):
        yield from map(level_view, found)


def product_levels(rows: Rows, store_id: str, product_id: str) -> list[models.Level]:
    found = rows.all(
        LEVELS + " AND v.product_id = ? ORDER BY v.position", (store_id, product_id)
    )
    if not found:
        raise not_found("PRODUCT", product_id)
    return [level_view(row) for row in found]


def history_view(row: Row) -> models.HistoryEntry:
    return {
        "id": row["id"],
        "adjustmentId": row["adjustment_id"],
        "productId": row["product_id"],
        "variantId": row["variant_id"],
        "sku": row["sku"],
        "adjustment": row["adjustment"],
        "stockBefore": row["stock_before"],
        "stockAfter": row["stock_after"],
        "reason": row["reason"],
        "note": row["note"],
        "source": {"type": row["source_type"], "id": row["source_id"]},
        "orderId": row["order_id"],
        "createdAt": formats.to_text(row["created_ms"]),
    }


def history(
    rows: Rows, store_id: str, filters: dict[str, Any], window: Window
) -> Listing:
    """Newest first; filters name columns of the history."""
    found = listing(rows, "history", store_id, filters, window, newest="seq DESC")
    return Listing([history_view(row) for row in found.rows], found.total)


def every_history(rows: Rows, store_id: str) -> Iterator[models.HistoryEntry]:
    sql = "SELECT * FROM history WHERE store_id = ? ORDER BY seq"
    for found in rows.batches(sql, (store_id,)):
        yield from map(history_view, found)
