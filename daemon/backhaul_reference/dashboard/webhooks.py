"""One webhook: its state, and every delivery with what was sent and answered."""

from aiohttp import web

from backhaul_reference.admin_v1.webhooks import ChangedWebhook
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.visit import STORE, Route, Visit
from backhaul_reference.documents import Document
from backhaul_reference.problems import not_found
from backhaul_reference.state import deliveries, replays, subscriptions
from backhaul_reference.state.database import Rows
from backhaul_reference.state.writer import Tx
from backhaul_reference.webhooks import signing

ONE = STORE + "/api/webhooks/{id}"
SENT = """SELECT d.id, d.subscription_id, s.secret, e.id AS event_id, e.topic, e.body,
  e.created_ms, a.number, a.at_ms
FROM delivery d JOIN subscription s ON s.id = d.subscription_id
JOIN event e ON e.seq = d.event_seq
LEFT JOIN delivery_attempt a ON a.delivery_seq = d.seq
WHERE d.id = ? AND d.subscription_id = ? ORDER BY a.seq DESC LIMIT 1"""


def _webhook(visit: Visit) -> Document:
    store_id, webhook_id = visit.store.id, visit.path("id")
    return visit.read(lambda rows: subscriptions.view(rows, store_id, webhook_id))


async def show_webhook(visit: Visit) -> web.Response:
    return _page(visit)


def _page(visit: Visit, secret: str | None = None) -> web.Response:
    webhook, window = _webhook(visit), visit.window()
    listing = visit.read(lambda rows: deliveries.page(rows, webhook["id"], window))
    return visit.render(
        "api_webhook.html",
        webhook=webhook,
        listing=listing,
        window=window,
        secret=secret,
    )


async def set_status(visit: Visit) -> web.Response:
    webhook_id, store_id = _webhook(visit)["id"], visit.store.id
    document = forms.document(visit.form, words=("status",))
    values = visit.body(ChangedWebhook, document).model_dump(exclude_unset=True)

    def change(tx: Tx) -> None:
        subscriptions.change(tx, store_id, webhook_id, values)
        if values.get("status") == "PAUSED":
            deliveries.hold(tx, webhook_id)

    await visit.change(change)
    return visit.go("api", "webhooks", webhook_id, notice="The webhook is changed.")


async def send_test(visit: Visit) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    await visit.change(
        lambda tx: replays.send_test(tx, subscriptions.find(tx, store_id, webhook_id))
    )
    return visit.go("api", "webhooks", webhook_id, notice="A test event is queued.")


async def rotate_secret(visit: Visit) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    made = await visit.change(
        lambda tx: replays.rotate_secret(
            tx, subscriptions.find(tx, store_id, webhook_id)
        )
    )
    return _page(visit, made["secret"])


async def delete(visit: Visit) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    await visit.change(lambda tx: subscriptions.remove(tx, store_id, webhook_id))
    return visit.go("api", notice="The webhook is deleted.")


async def show_delivery(visit: Visit) -> web.Response:
    webhook, delivery_id = _webhook(visit), visit.path("delivery")
    delivery = visit.read(
        lambda rows: deliveries.view(rows, webhook["id"], delivery_id)
    )
    request = visit.read(lambda rows: _request(visit, rows, webhook["id"], delivery_id))
    return visit.render(
        "api_delivery.html", webhook=webhook, delivery=delivery, request=request
    )


def _request(visit: Visit, rows: Rows, webhook_id: str, delivery_id: str) -> Document:
    """The bytes of the delivery, and the headers of its latest attempt."""
    row = rows.one(SENT, (delivery_id, webhook_id))
    if row is None:
        raise not_found("DELIVERY")
    envelope = signing.Envelope(
        event_id=row["event_id"],
        delivery_id=row["id"],
        subscription_id=row["subscription_id"],
        subdomain=visit.store.subdomain,
        topic=row["topic"],
        triggered_ms=row["created_ms"],
        body=row["body"],
    )
    number, at_ms = row["number"] or 1, row["at_ms"] or row["created_ms"]
    headers = signing.headers(envelope, [row["secret"]], number, at_ms)
    return {"headers": headers, "body": row["body"], "sent": row["number"] is not None}


async def redeliver(visit: Visit) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    delivery_id = visit.path("delivery")

    def queue(tx: Tx) -> None:
        row = subscriptions.find(tx, store_id, webhook_id)
        deliveries.redeliver(tx, row, delivery_id)

    await visit.change(queue)
    parts = ("api", "webhooks", webhook_id, "deliveries", delivery_id)
    return visit.go(*parts, notice="It is queued to be sent again.")


DELIVERY = ONE + "/deliveries/{delivery}"
ROUTES = (
    Route("GET", ONE, show_webhook),
    Route("POST", ONE + "/status", set_status, show_webhook),
    Route("POST", ONE + "/test", send_test, show_webhook),
    Route("POST", ONE + "/rotate-secret", rotate_secret, show_webhook),
    Route("POST", ONE + "/delete", delete, show_webhook),
    Route("GET", DELIVERY, show_delivery),
    Route("POST", DELIVERY + "/redeliver", redeliver, show_delivery),
)
