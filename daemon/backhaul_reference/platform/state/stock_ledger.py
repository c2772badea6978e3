"""The one function that changes stock and logs each movement."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from backhaul_reference.platform import formats, models
from backhaul_reference.platform.state import webhook_outbox
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
    """Change one variant's stock and log it; None where the policy forbids it."""
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
