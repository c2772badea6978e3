"""The text of each mail, by template."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from backhaul_reference.platform import order_models
from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state import order_views, stores
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.stores import Store

REASONS = {
    "GONE": "It answered 410 Gone.",
    "FAILING": "Every delivery has failed for five days.",
}
METHODS = {"COD": "Cash on delivery", "CUSTOM_QR": "Scan & Pay"}


@dataclass(frozen=True, slots=True)
class MailText:
    """One mail's recipient, subject and content; `rows` is a small table."""

    to: str
    subject: str
    opening: Sequence[str]
    rows: Sequence[tuple[str, str]] = ()
    closing: Sequence[str] = ()
    link: tuple[str, str] | None = None
    sender: str = ""


class Tokens(Protocol):
    """Makes the token in a buyer's tracking link."""

    def token(self, order_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class MailRenderer:
    """Renders mails with tracking links for buyers and dashboard links for merchants.

    Without `dashboard_url` merchants' mails have no link.
    """

    tokens: Tokens
    public_url: str
    dashboard_url: str

    def tracking_link(self, store: Store, order: Row) -> tuple[str, str] | None:
        """Return the link to the buyer's page, None for orders merchants record."""
        if order["token_hash"] is None:
            return None
        # After the sign: browsers keep a fragment to themselves.
        page = f"{self.public_url}/shop/{store.subdomain}#/orders/{{token}}"
        token = self.tokens.token(order["id"])
        url = (store.tracking_page or page).replace("{token}", token)
        return ("Follow your order", url)

    def dashboard_link(
        self, words: str, store: Store, *path: str
    ) -> tuple[str, str] | None:
        """Return a link to a page of the merchant's dashboard."""
        if not self.dashboard_url:
            return None
        page = "/".join((store.subdomain, *path))
        return (words, f"{self.dashboard_url}/dashboard/stores/{page}")

    def write(self, rows: Rows, mail: Row) -> MailText | None:
        """Return the text of a queued mail, or None if its object was deleted."""
        store = stores.by_id(rows, mail["store_id"])
        if store is None:
            return None
        try:
            text = WRITERS[mail["template"]](self, rows, store, mail)
        except Problem:
            return None
        return text and replace(text, sender=store.name)


def merchant_of(store: Store) -> str:
    return store.merchant_email or f"owner@{store.subdomain}.example"


def _order_placed(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText:
    row = order_views.find(rows, store, mail["order_id"])
    order = order_views.views(rows, store, [row])[0]
    return MailText(
        to=row["customer_email"],
        subject=f"Your order {order['name']} at {store.name}",
        opening=[*_greeting(row), f"thank you for your order {order['name']}."],
        rows=[*_items(order), *_totals(order)],
        closing=_next_steps(order),
        link=renderer.tracking_link(store, row),
    )


def _order_received(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText:
    order = order_views.view(rows, store, mail["order_id"])
    buyer = order["customer"]
    who = ", ".join(filter(None, (buyer["name"], buyer["email"], buyer["phone"])))
    total = _amount(order, order["totals"]["total"])
    method = order["paymentMethod"]
    return MailText(
        to=merchant_of(store),
        subject=f"New order {order['name']}: {total}",
        opening=[f"{store.name} has a new order, {order['name']}."],
        rows=[*_items(order), *_totals(order)],
        closing=[
            f"Customer: {who}",
            f"Ship to: {_address(order)}",
            f"Payment: {METHODS.get(method or '', method)}",
            *(["It waits for your confirmation."] if _is_waiting(order) else []),
        ],
        link=renderer.dashboard_link("Open the order", store, "orders", order["id"]),
    )


def _order_shipped(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText:
    row = order_views.find(rows, store, mail["order_id"])
    order = order_views.views(rows, store, [row])[0]
    shipment = next(one for one in order["shipments"] if one["id"] == mail["part"])
    tracking = {
        "Carrier": shipment["trackingCompany"],
        "Tracking number": shipment["trackingNumber"],
        "Tracking page": shipment["trackingUrl"],
    }
    titles = {item["id"]: _title(item) for item in order["items"]}
    return MailText(
        to=row["customer_email"],
        subject=f"Your order {order['name']} is on its way",
        opening=[*_greeting(row), f"these things of your order at {store.name} left:"],
        rows=[
            *(
                (titles[item["lineItemId"]], f"{item['quantity']}")
                for item in shipment["items"]
            ),
            *((word, text) for word, text in tracking.items() if text),
        ],
        link=renderer.tracking_link(store, row),
    )


def _order_cancelled(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText:
    row = order_views.find(rows, store, mail["order_id"])
    order = order_views.views(rows, store, [row])[0]
    refunded = order["financialStatus"] == "REFUNDED"
    total = _amount(order, order["totals"]["total"])
    return MailText(
        to=row["customer_email"],
        subject=f"Your order {order['name']} is cancelled",
        opening=[*_greeting(row), f"your order at {store.name} was cancelled."],
        rows=_items(order),
        closing=[f"You get {total} back."] if refunded else [],
        link=renderer.tracking_link(store, row),
    )


def _payment_reported(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText:
    order = order_views.view(rows, store, mail["order_id"])
    report = rows.one("SELECT * FROM payment_report WHERE seq = ?", (mail["part"],))
    assert report is not None  # noqa: S101  - reports are never deleted alone
    other = rows.value(
        "SELECT number FROM orders WHERE id = ?", (report["duplicate_of"],)
    )
    same = f"The same transaction was reported for order #{other} before."
    due = order["payment"]["amountDue"]
    return MailText(
        to=merchant_of(store),
        subject=f"Payment reported for order {order['name']}",
        opening=[f"The buyer of order {order['name']} says that they paid."],
        rows=[
            ("Transaction", report["transaction_id"]),
            ("Payer", report["payer_name"] or "not said"),
            ("Due", _amount(order, due)),
        ],
        closing=[
            *([same] if other is not None else []),
            "Find the payment in your account, then mark the order paid.",
        ],
        link=renderer.dashboard_link("Open the order", store, "orders", order["id"]),
    )


def _webhook_disabled(
    renderer: MailRenderer, rows: Rows, store: Store, mail: Row
) -> MailText | None:
    row = rows.one("SELECT * FROM subscription WHERE id = ?", (mail["part"],))
    if row is None:
        return None
    reason = REASONS.get(row["disabled_reason"] or "", "Its deliveries failed.")
    return MailText(
        to=merchant_of(store),
        subject=f"A webhook of {store.name} was disabled",
        opening=[f"Nothing is sent to {row['address']} any more. {reason}"],
        closing=[
            "New events are kept. Set the webhook ACTIVE again and replay them.",
        ],
        link=renderer.dashboard_link(
            "Open the webhook", store, "api", "webhooks", row["id"]
        ),
    )


Writing = Callable[[MailRenderer, Rows, Store, Row], MailText | None]
WRITERS: dict[str, Writing] = {
    "order_placed": _order_placed,
    "order_received": _order_received,
    "order_shipped": _order_shipped,
    "order_cancelled": _order_cancelled,
    "payment_reported": _payment_reported,
    "webhook_disabled": _webhook_disabled,
}


def _greeting(row: Row) -> list[str]:
    return [f"Dear {row['customer_name']},"] if row["customer_name"] else []


def _title(item: order_models.Item) -> str:
    variant = f" ({item['variantTitle']})" if item["variantTitle"] else ""
    return f"{item['title']}{variant}"


def _items(order: order_models.Order) -> list[tuple[str, str]]:
    return [
        (f"{item['quantity']} x {_title(item)}", _amount(order, item["total"]))
        for item in order["items"]
    ]


def _totals(order: order_models.Order) -> list[tuple[str, str]]:
    totals = order["totals"]
    named = {
        "Shipping": totals["shipping"],
        "Payment fee": totals["paymentFee"],
        "Tax": totals["tax"],
    }
    rows = [
        (word, _amount(order, text)) for word, text in named.items() if text.strip("0.")
    ]
    return [*rows, ("Total", _amount(order, totals["total"]))]


def _amount(order: order_models.Order, text: str) -> str:
    return f"{order['currency']} {text}"


def _is_waiting(order: order_models.Order) -> bool:
    confirmation = order["confirmation"]
    return confirmation["required"] and confirmation["confirmedAt"] is None


def _next_steps(order: order_models.Order) -> list[str]:
    due = _amount(order, order["payment"]["amountDue"])
    if order["paymentMethod"] == "CUSTOM_QR":
        return [f"Please pay {due}: your order's page shows the code to scan."]
    if _is_waiting(order):
        return ["The shop will confirm your order before it is sent."]
    return []


def _address(order: order_models.Order) -> str:
    address: Mapping[str, Any] = order["shippingAddress"] or {}
    names = ("name", "address1", "address2", "city", "province", "zip", "country")
    return ", ".join(address[name] for name in names if address.get(name))
