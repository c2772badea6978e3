"""Orders as JSON for merchants and buyers, and order/updated events."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import segno

from backhaul_reference.platform import formats, models, order_models
from backhaul_reference.platform.json_codec import decode_stored
from backhaul_reference.platform.problems import Problem, not_found
from backhaul_reference.platform.state import webhook_outbox
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
    placeholders,
)
from backhaul_reference.platform.state.order_lifecycle import OrderStatuses, status_of
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

PIXELS_PER_MODULE = 4


@lru_cache(maxsize=256)
def data_url(text: str) -> str:
    """An SVG of the text's QR code, as a `data:` URL."""
    code = segno.make_qr(text, error="m", encoding="utf-8")
    return str(code.svg_data_uri(scale=PIXELS_PER_MODULE))


CHILDREN = ("order_item", "shipment", "payment_report")
Children = dict[str, dict[str, list[Row]]]


def find(rows: Rows, store: Store, order_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM orders WHERE id = ? AND store_id = ?", (order_id, store.id)
    )
    if row is None:
        raise not_found("ORDER", order_id)
    return row


def token_exists(rows: Rows, store_id: str, token_hash: str) -> bool:
    sql = "SELECT 1 FROM orders WHERE token_hash = ? AND store_id = ?"
    return rows.one(sql, (token_hash, store_id)) is not None


def find_by_token(rows: Rows, store: Store, token_hash: str) -> Row:
    row = rows.one(
        "SELECT * FROM orders WHERE token_hash = ? AND store_id = ?",
        (token_hash, store.id),
    )
    if row is None:
        raise not_found("ORDER")
    return row


def view(rows: Rows, store: Store, order_id: str) -> order_models.Order:
    return views(rows, store, [find(rows, store, order_id)])[0]


def page(
    rows: Rows, store: Store, filters: dict[str, str | None], window: Window
) -> Listing:
    found = listing(rows, "orders", store.id, filters, window)
    return Listing(_in_batches(rows, store, found.rows), found.total)


def every(rows: Rows, store: Store) -> Iterator[order_models.Order]:
    sql = "SELECT * FROM orders WHERE store_id = ? ORDER BY number"
    for found in rows.batches(sql, (store.id,)):
        yield from views(rows, store, found)


def _in_batches(
    rows: Rows, store: Store, found: Sequence[Row]
) -> list[order_models.Order]:
    batches = [found[start : start + 500] for start in range(0, len(found), 500)]
    return [order for batch in batches for order in views(rows, store, batch)]


def views(rows: Rows, store: Store, found: Sequence[Row]) -> list[order_models.Order]:
    children = _children(rows, [row["id"] for row in found])
    return [_order(store, row, children) for row in found]


def _children(rows: Rows, order_ids: Sequence[str]) -> Children:
    found: Children = {}
    for table in CHILDREN:
        by_order: dict[str, list[Row]] = defaultdict(list)
        listed = placeholders(order_ids)
        sql = f"SELECT * FROM {table} WHERE order_id IN ({listed}) ORDER BY seq"  # noqa: S608  - literals and placeholders only
        for row in rows.all(sql, order_ids):
            by_order[row["order_id"]].append(row)
        found[table] = by_order
    return found


def status(row: Row) -> models.Status:
    return status_of(
        OrderStatuses(
            row["financial"],
            row["fulfillment"],
            row["confirmed_ms"] is not None,
            row["cancelled_ms"] is not None,
        )
    )


def statuses_view(row: Row) -> order_models.Statuses:
    """Return the three statuses for a 409 response."""
    return {
        "status": status(row),
        "financialStatus": row["financial"],
        "fulfillmentStatus": row["fulfillment"],
    }


def amount_due(row: Row) -> int:
    unpaid = row["financial"] == "PENDING" and row["cancelled_ms"] is None
    return row["total"] if unpaid else 0


def _order(store: Store, row: Row, children: Children) -> order_models.Order:
    order_id = row["id"]
    return {
        "id": order_id,
        "number": row["number"],
        "name": f"#{row['number']}",
        "externalId": row["external_id"],
        "source": row["source"],
        **statuses_view(row),
        "confirmation": {
            "required": bool(row["confirmation_required"]),
            "confirmedAt": formats.to_text_or_none(row["confirmed_ms"]),
        },
        "currency": row["currency"],
        "paymentMethod": row["payment_method"],
        "customer": {
            "id": row["customer_id"],
            "name": row["customer_name"],
            "email": row["customer_email"],
            "phone": row["customer_phone"],
        },
        "items": [_item(store, item) for item in children["order_item"][order_id]],
        "totals": _totals(store, row),
        "discountCode": row["discount_code"],
        "shippingAddress": row["address"] and decode_stored(row["address"]),
        "payment": _payment(store, row, children["payment_report"][order_id]),
        "shipments": [_shipment(one) for one in children["shipment"][order_id]],
        "cancellation": _cancellation(row),
        "note": row["note"],
        "tags": decode_stored(row["tags"]),
        "placedAt": formats.to_text(row["placed_ms"]),
        "createdAt": formats.to_text(row["created_ms"]),
        "updatedAt": formats.to_text(row["updated_ms"]),
        "version": row["version"],
    }


def _totals(store: Store, row: Row) -> order_models.Totals:
    return {
        "subtotal": store.money(row["subtotal"]),
        "discount": store.money(row["discount"]),
        "shipping": store.money(row["shipping"]),
        "paymentFee": store.money(row["payment_fee"]),
        "tax": store.money(row["tax"]),
        "total": store.money(row["total"]),
    }


def _item(store: Store, row: Row) -> order_models.Item:
    return {
        "id": row["id"],
        "productId": row["product_id"],
        "variantId": row["variant_id"],
        "sku": row["sku"],
        "title": row["title"],
        "variantTitle": row["variant_title"],
        "options": decode_stored(row["options"]),
        "imageUrl": row["image_url"],
        "quantity": row["quantity"],
        "fulfilledQuantity": row["fulfilled"],
        "restockedQuantity": row["restocked"],
        "unitPrice": store.money(row["unit_price"]),
        "discount": store.money(row["discount"]),
        "total": store.money(row["total"]),
    }


def _payment(store: Store, row: Row, reports: Sequence[Row]) -> order_models.Payment:
    last = reports[-1] if reports else None
    return {
        "method": row["payment_method"],
        "paidAt": formats.to_text_or_none(row["paid_ms"]),
        "amountDue": store.money(amount_due(row)),
        "report": None
        if last is None
        else {
            "transactionId": last["transaction_id"],
            "payerName": last["payer_name"],
            "reportedAt": formats.to_text(last["reported_ms"]),
            "duplicateOf": last["duplicate_of"],
        },
    }


def _shipment(row: Row) -> order_models.Shipment:
    return {
        "id": row["id"],
        "trackingCompany": row["company"],
        "trackingNumber": row["number"],
        "trackingUrl": row["url"],
        "items": decode_stored(row["items"]),
        "shippedAt": formats.to_text(row["shipped_ms"]),
    }


def _cancellation(row: Row) -> order_models.Cancellation | None:
    if row["cancelled_ms"] is None:
        return None
    return {
        "reason": row["cancel_reason"],
        "note": row["cancel_note"],
        "restocked": bool(row["cancel_restock"]),
        "refunded": bool(row["cancel_refund"]),
        "skippedItems": decode_stored(row["cancel_skipped"]),
        "cancelledAt": formats.to_text(row["cancelled_ms"]),
    }


def tracking_view(rows: Rows, store: Store, row: Row) -> order_models.TrackedOrder:
    """Return the public tracking view: no address, no contact, no ids."""
    return tracked(store, row, views(rows, store, [row])[0])


def tracked(
    store: Store, row: Row, order: order_models.Order
) -> order_models.TrackedOrder:
    """Return the tracking view, made from the order's full view."""
    required = row["confirmation_required"] and row["cancelled_ms"] is None
    return {
        "number": order["number"],
        "name": order["name"],
        "status": order["status"],
        "financialStatus": order["financialStatus"],
        "fulfillmentStatus": order["fulfillmentStatus"],
        "awaitingConfirmation": bool(required) and row["confirmed_ms"] is None,
        "placedAt": order["placedAt"],
        "cancelledAt": formats.to_text_or_none(row["cancelled_ms"]),
        "currency": order["currency"],
        "items": [_tracked_item(item) for item in order["items"]],
        "totals": order["totals"],
        "shipments": [_tracked_shipment(one) for one in order["shipments"]],
        "payment": _tracked_payment(store, row, order["payment"]),
    }


def _tracked_item(item: order_models.Item) -> order_models.TrackedItem:
    return {
        "title": item["title"],
        "variantTitle": item["variantTitle"],
        "imageUrl": item["imageUrl"],
        "quantity": item["quantity"],
        "unitPrice": item["unitPrice"],
        "discount": item["discount"],
        "total": item["total"],
    }


def _tracked_shipment(
    shipment: order_models.Shipment,
) -> order_models.TrackedShipment:
    return {
        "trackingCompany": shipment["trackingCompany"],
        "trackingNumber": shipment["trackingNumber"],
        "trackingUrl": shipment["trackingUrl"],
        "shippedAt": shipment["shippedAt"],
    }


def _qr(store: Store, row: Row) -> str:
    amount = f"{row['currency']} {store.money(amount_due(row))}"
    return data_url(f"{store.name}\nOrder #{row['number']}\n{amount}")


def _tracked_payment(
    store: Store, row: Row, payment: order_models.Payment
) -> order_models.TrackedPayment | None:
    if row["payment_method"] != "CUSTOM_QR" or amount_due(row) == 0:
        return None
    report = payment["report"]
    return {
        "method": "CUSTOM_QR",
        "qr": store.custom_qr.get("qr") or _qr(store, row),
        "amountDue": payment["amountDue"],
        "currency": row["currency"],
        "instructions": store.custom_qr["instructions"],
        "report": report
        and {
            "transactionId": report["transactionId"],
            "reportedAt": report["reportedAt"],
        },
    }


WATCHED = ("status", "financialStatus", "fulfillmentStatus", "confirmation")


def touch(tx: Tx, order_id: str, at_ms: int, values: dict[str, Any]) -> None:
    """Write columns together with the new `updatedAt`; `version` counts up."""
    names = "".join(f"{name} = ?, " for name in values)
    tx.run(
        f"UPDATE orders SET {names}updated_ms = ?, version = version + 1 WHERE id = ?",  # noqa: S608  - names are literals of this package
        (*values.values(), at_ms, order_id),
    )


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> order_models.OrderChanges:
    changes = {
        name: {"from": before[name], "to": after[name]}
        for name in WATCHED
        if before[name] != after[name]
    }
    return cast("order_models.OrderChanges", changes)


def announce_update(
    tx: Tx, store: Store, before: order_models.Order, after: order_models.Order
) -> None:
    data: order_models.UpdatedOrder = {**after, "changes": differences(before, after)}
    webhook_outbox.emit(tx, store.id, "orders/updated", data)


def refusal(code: str, detail: str, row: Any) -> Problem:
    """Return a 409 with the order and its present statuses."""
    named = f"order #{row['number']} ({row['id']}): {detail}"
    return Problem(409, code, named, current=statuses_view(row))
