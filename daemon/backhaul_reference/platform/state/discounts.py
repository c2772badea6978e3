"""Discount codes: validity, arithmetic and usage counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform import formats, order_models
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid, not_found
from backhaul_reference.platform.state.database import (
    Listing,
    Row,
    Rows,
    Window,
    listing,
)
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

HUNDRED_PERCENT = 100_00


@dataclass(frozen=True, slots=True)
class Terms:
    """What a discount gives: hundredths of a percent, minor units, or free freight."""

    type: str
    value: int


def goods_off(terms: Terms, subtotal: int) -> int:
    """Return the amount off the goods, rounded half up, at most their price."""
    if terms.type == "PERCENTAGE":
        rounded = (2 * subtotal * terms.value + HUNDRED_PERCENT) // (
            2 * HUNDRED_PERCENT
        )
        return min(rounded, subtotal)
    return min(terms.value, subtotal) if terms.type == "FIXED_AMOUNT" else 0


def freight_off(terms: Terms, freight: int) -> int:
    return freight if terms.type == "FREE_SHIPPING" else 0


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """Share `amount` out in proportion, by largest remainder; sums to it exactly.

    No share is above its weight as long as `amount` is not above their sum.
    """
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    shares = [amount * weight // whole for weight in weights]
    by_remainder = sorted(
        range(len(weights)), key=lambda n: amount * weights[n] % whole, reverse=True
    )
    for n in by_remainder[: amount - sum(shares)]:
        shares[n] += 1
    return shares


USE = """UPDATE discount SET used = used + 1 WHERE id = :id AND active
  AND (usage_limit IS NULL OR used < usage_limit)
  AND (starts_ms IS NULL OR starts_ms <= :now)
  AND (ends_ms IS NULL OR ends_ms >= :now)"""
USE_BY = """INSERT INTO discount_customer(discount_id, email_key, used)
VALUES(:id, :email, 1) ON CONFLICT(discount_id, email_key)
DO UPDATE SET used = used + 1 WHERE :limit IS NULL OR used < :limit"""
GIVE_BACK = """DELETE FROM discount_order WHERE order_id = ?
RETURNING discount_id, email_key"""
WORDS = {
    "NOT_FOUND": "there is no such discount code",
    "NOT_STARTED": "the discount has not started yet",
    "EXPIRED": "the discount has expired",
    "USED_UP": "the discount is used up",
    "MINIMUM_NOT_MET": "the cart is below the discount's minimum",
}


@dataclass(frozen=True, slots=True)
class DiscountUse:
    """One use of a code: time, subtotal and customer; a check has no customer."""

    now_ms: int
    subtotal: int
    email: str | None = None


def key_of(text: str) -> str:
    """Return a code or an email address in the form used for comparison."""
    return text.strip().casefold()


# In the order in which the reasons are checked.
REASONS: dict[str, Callable[[Row, DiscountUse, int], bool]] = {
    "NOT_FOUND": lambda row, on, mine: not row["active"],
    "NOT_STARTED": lambda row, on, mine: on.now_ms < (row["starts_ms"] or 0),
    "EXPIRED": lambda row, on, mine: _above(on.now_ms, row["ends_ms"]),
    "USED_UP": lambda row, on, mine: (
        _above(row["used"] + 1, row["usage_limit"])
        or _above(mine + 1, row["customer_limit"])
    ),
    "MINIMUM_NOT_MET": lambda row, on, mine: (
        on.subtotal < (row["minimum_subtotal"] or 0)
    ),
}


def _above(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def check(rows: Rows, store: Store, code: str, occasion: DiscountUse) -> Row:
    """Return the discount if it is valid for this use, else 400 with a reason."""
    row = rows.one(
        "SELECT * FROM discount WHERE store_id = ? AND code_key = ?",
        (store.id, key_of(code)),
    )
    if row is None:
        raise refusal("NOT_FOUND")
    mine = _uses_of(rows, row["id"], occasion.email)
    for reason, applies in REASONS.items():
        if applies(row, occasion, mine):
            raise refusal(reason)
    return row


def _uses_of(rows: Rows, discount_id: str, email: str | None) -> int:
    if email is None:
        return 0
    found = rows.value(
        "SELECT used FROM discount_customer WHERE discount_id = ? AND email_key = ?",
        (discount_id, key_of(email)),
    )
    return found or 0


def refusal(reason: str) -> Problem:
    code = f"DISCOUNT_{reason}"
    return Problem(400, code, WORDS[reason], reason=reason, valid=False)


def terms(row: Row) -> Terms:
    return Terms(row["type"], row["value"])


def use(tx: Tx, row: Row, order_id: str, email: str) -> None:
    """Count one use for an order; raises if the usage limit is reached."""
    params: dict[str, Any] = {"id": row["id"], "now": tx.now_ms()}
    if not tx.run(USE, params):
        raise refusal("USED_UP")
    params = {
        "id": row["id"],
        "email": key_of(email),
        "limit": row["customer_limit"],
    }
    if not tx.run(USE_BY, params):
        raise refusal("USED_UP")
    tx.run(
        "INSERT INTO discount_order(order_id, discount_id, email_key) VALUES(?, ?, ?)",
        (order_id, row["id"], key_of(email)),
    )


def give_back(tx: Tx, order_id: str) -> None:
    """Uncount the use of a cancelled order; a second call does nothing."""
    row = tx.one(GIVE_BACK, (order_id,))
    if row is None:
        return
    tx.run("UPDATE discount SET used = used - 1 WHERE id = ?", (row["discount_id"],))
    tx.run(
        "UPDATE discount_customer SET used = used - 1"
        " WHERE discount_id = ? AND email_key = ?",
        (row["discount_id"], row["email_key"]),
    )


def shown(store: Store, row: Row) -> order_models.Discount:
    """The discount as a shopper sees it."""
    return {"code": row["code"], "type": row["type"], "value": _value(store, row)}


def _value(store: Store, row: Row) -> str:
    if row["type"] == "FIXED_AMOUNT":
        return store.money(row["value"])
    whole, rest = divmod(row["value"], 100)
    return f"{whole}.{rest:02d}".rstrip("0") if rest else str(whole)


def control_view(store: Store, row: Row) -> Document:
    minimum = row["minimum_subtotal"]
    return {
        "id": row["id"],
        **shown(store, row),
        "minimumSubtotal": None if minimum is None else store.money(minimum),
        "usageLimit": row["usage_limit"],
        "usageLimitPerCustomer": row["customer_limit"],
        "usedCount": row["used"],
        "startsAt": formats.to_text_or_none(row["starts_ms"]),
        "endsAt": formats.to_text_or_none(row["ends_ms"]),
        "active": bool(row["active"]),
    }


def page(rows: Rows, store: Store, window: Window) -> Listing:
    found = listing(rows, "discount", store.id, {}, window)
    return Listing([control_view(store, row) for row in found.rows], found.total)


def every(rows: Rows, store: Store) -> list[Document]:
    found = rows.all(
        "SELECT * FROM discount WHERE store_id = ? ORDER BY created_ms, id",
        (store.id,),
    )
    return [control_view(store, row) for row in found]


def view(rows: Rows, store: Store, discount_id: str) -> Document:
    return control_view(store, find(rows, store, discount_id))


def find(rows: Rows, store: Store, discount_id: str) -> Row:
    row = rows.one(
        "SELECT * FROM discount WHERE id = ? AND store_id = ?", (discount_id, store.id)
    )
    if row is None:
        raise not_found("DISCOUNT")
    return row


def create(tx: Tx, store: Store, values: dict[str, Any]) -> Document:
    now_ms = tx.now_ms()
    columns = {
        **values,
        "id": tx.ids.new("dsc"),
        "store_id": store.id,
        "code_key": key_of(values["code"]),
        "created_ms": now_ms,
        "updated_ms": now_ms,
    }
    tx.insert("discount", columns)
    return _checked(tx, store, columns["id"])


def change(tx: Tx, store: Store, discount_id: str, values: dict[str, Any]) -> Document:
    find(tx, store, discount_id)
    columns = {**values, "updated_ms": tx.now_ms()}
    if "code" in values:
        columns["code_key"] = key_of(values["code"])
    tx.update("discount", discount_id, columns)
    return _checked(tx, store, discount_id)


def _checked(tx: Tx, store: Store, discount_id: str) -> Document:
    """Return the stored discount; raises if it ends before it starts."""
    row = find(tx, store, discount_id)
    if row["starts_ms"] is not None and _above(row["starts_ms"], row["ends_ms"]):
        raise invalid([Flaw("/endsAt", "OUT_OF_RANGE", "it ends before it starts")])
    return control_view(store, row)


def delete(tx: Tx, store: Store, discount_id: str) -> Document:
    """Remove a discount; orders keep the code they were placed with."""
    find(tx, store, discount_id)
    tx.run("DELETE FROM discount WHERE id = ?", (discount_id,))
    return {"id": discount_id, "deleted": True}
