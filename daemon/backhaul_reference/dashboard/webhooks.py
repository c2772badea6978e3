"""One webhook: settings, deliveries, requests and responses."""

from aiohttp import web

from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import deliveries, subscriptions
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.events import TOPICS
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.webhooks import ChangedWebhook, check

ONE = STORE + "/api/webhooks/{id}"
BODY = """SELECT e.body FROM delivery d JOIN event e ON e.seq = d.event_seq
WHERE d.id = ? AND d.subscription_id = ?"""


def _webhook(visit: PageContext) -> Document:
    store_id, webhook_id = visit.store.id, visit.path("id")
    return visit.read(lambda rows: subscriptions.view(rows, store_id, webhook_id))


async def show_webhook(visit: PageContext) -> web.Response:
    return _page(visit)


def _page(visit: PageContext, secret: str | None = None) -> web.Response:
    webhook, window = _webhook(visit), visit.window()
    listing = visit.read(lambda rows: deliveries.page(rows, webhook["id"], window))
    return visit.render(
        "api_webhook.html",
        webhook=webhook,
        listing=listing,
        window=window,
        secret=secret,
        topics=TOPICS,
    )


async def save(visit: PageContext) -> web.Response:
    """Another address, other topics, another description."""
    store_id, webhook_id = visit.store.id, _webhook(visit)["id"]
    document = forms.document(
        visit.form, words=("address", "description"), clearing=True
    )
    forms.require(visit.form, "address")
    document["topics"] = forms.texts(visit.form, "topics")
    body = visit.body(ChangedWebhook, document)
    values = check(body, allow_private=visit.platform.allow_private_targets)
    await visit.change(
        lambda tx: subscriptions.change(tx, store_id, webhook_id, values)
    )
    return visit.go("api", "webhooks", webhook_id, notice="The webhook is saved.")


async def set_status(visit: PageContext) -> web.Response:
    webhook_id, store_id = _webhook(visit)["id"], visit.store.id
    document = forms.document(visit.form, words=("status",))
    values = visit.body(ChangedWebhook, document).model_dump(exclude_unset=True)
    await visit.change(
        lambda tx: subscriptions.change(tx, store_id, webhook_id, values)
    )
    return visit.go("api", "webhooks", webhook_id, notice="The webhook is changed.")


async def send_test(visit: PageContext) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    await visit.change(
        lambda tx: subscriptions.send_test(
            tx, subscriptions.find(tx, store_id, webhook_id)
        )
    )
    return visit.go("api", "webhooks", webhook_id, notice="A test event is queued.")


async def rotate_secret(visit: PageContext) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    made = await visit.change(
        lambda tx: subscriptions.rotate_secret(
            tx, subscriptions.find(tx, store_id, webhook_id)
        )
    )
    return _page(visit, made["secret"])


async def delete(visit: PageContext) -> web.Response:
    webhook_id, store_id = visit.path("id"), visit.store.id
    await visit.change(lambda tx: subscriptions.remove(tx, store_id, webhook_id))
    return visit.go("api", notice="The webhook is deleted.")


async def show_delivery(visit: PageContext) -> web.Response:
    webhook, delivery_id = _webhook(visit), visit.path("delivery")

    def find(rows: Rows) -> Document:
        delivery = deliveries.view(rows, webhook["id"], delivery_id)
        kept = deliveries.of_delivery(rows, webhook["id"], delivery_id)
        body = rows.value(BODY, (delivery_id, webhook["id"]))
        return {"delivery": delivery, "exchanges": kept, "body": body}

    return visit.render("api_delivery.html", webhook=webhook, **visit.read(find))


async def redeliver(visit: PageContext) -> web.Response:
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
    Route("POST", ONE, save, show_webhook),
    Route("POST", ONE + "/status", set_status, show_webhook),
    Route("POST", ONE + "/test", send_test, show_webhook),
    Route("POST", ONE + "/rotate-secret", rotate_secret, show_webhook),
    Route("POST", ONE + "/delete", delete, show_webhook),
    Route("GET", DELIVERY, show_delivery),
    Route("POST", DELIVERY + "/redeliver", redeliver, show_delivery),
)
