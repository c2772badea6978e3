"""One webhook: settings, deliveries, requests and responses."""

from aiohttp import web

from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform import models
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import subscriptions, webhook_outbox
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.webhooks import ChangedWebhook, check

ONE = STORE + "/api/webhooks/{id}"
BODY = """SELECT e.body FROM delivery d JOIN event e ON e.seq = d.event_seq
WHERE d.id = ? AND d.subscription_id = ?"""


def _webhook(context: PageContext) -> models.Webhook:
    store_id, webhook_id = context.store.id, context.path("id")
    return context.read(lambda rows: subscriptions.view(rows, store_id, webhook_id))


async def show_webhook(context: PageContext) -> web.Response:
    return _page(context)


def _page(context: PageContext, secret: str | None = None) -> web.Response:
    webhook, window = _webhook(context), context.window()
    listing = context.read(
        lambda rows: webhook_outbox.page(rows, webhook["id"], window)
    )
    return context.render(
        "api_webhook.html",
        webhook=webhook,
        listing=listing,
        window=window,
        secret=secret,
        topics=TOPICS,
    )


async def save(context: PageContext) -> web.Response:
    """Save a webhook's URL, topics and description."""
    store_id, webhook_id = context.store.id, _webhook(context)["id"]
    document = forms.document(
        context.form, words=("address", "description"), clearing=True
    )
    forms.require(context.form, "address")
    document["topics"] = forms.texts(context.form, "topics")
    body = context.body(ChangedWebhook, document)
    values = check(body, allow_private=context.platform.allow_private_targets)
    await context.change(
        lambda tx: subscriptions.change(tx, store_id, webhook_id, values)
    )
    return context.go("api", "webhooks", webhook_id, notice="The webhook is saved.")


async def set_status(context: PageContext) -> web.Response:
    webhook_id, store_id = _webhook(context)["id"], context.store.id
    document = forms.document(context.form, words=("status",))
    values = context.body(ChangedWebhook, document).model_dump(exclude_unset=True)
    await context.change(
        lambda tx: subscriptions.change(tx, store_id, webhook_id, values)
    )
    return context.go("api", "webhooks", webhook_id, notice="The webhook is changed.")


async def send_test(context: PageContext) -> web.Response:
    webhook_id, store_id = context.path("id"), context.store.id
    await context.change(
        lambda tx: subscriptions.send_test(
            tx, subscriptions.find(tx, store_id, webhook_id)
        )
    )
    return context.go("api", "webhooks", webhook_id, notice="A test event is queued.")


async def rotate_secret(context: PageContext) -> web.Response:
    webhook_id, store_id = context.path("id"), context.store.id
    made = await context.change(
        lambda tx: subscriptions.rotate_secret(
            tx, subscriptions.find(tx, store_id, webhook_id)
        )
    )
    return _page(context, made["secret"])


async def delete(context: PageContext) -> web.Response:
    webhook_id, store_id = context.path("id"), context.store.id
    await context.change(lambda tx: subscriptions.remove(tx, store_id, webhook_id))
    return context.go("api", notice="The webhook is deleted.")


async def show_delivery(context: PageContext) -> web.Response:
    webhook, delivery_id = _webhook(context), context.path("delivery")

    def find(rows: Rows) -> Document:
        delivery = webhook_outbox.view(rows, webhook["id"], delivery_id)
        kept = webhook_outbox.of_delivery(rows, webhook["id"], delivery_id)
        body = rows.value(BODY, (delivery_id, webhook["id"]))
        return {"delivery": delivery, "exchanges": kept, "body": body}

    return context.render("api_delivery.html", webhook=webhook, **context.read(find))


async def redeliver(context: PageContext) -> web.Response:
    webhook_id, store_id = context.path("id"), context.store.id
    delivery_id = context.path("delivery")

    def queue(tx: Tx) -> None:
        row = subscriptions.find(tx, store_id, webhook_id)
        webhook_outbox.redeliver(tx, row, delivery_id)

    await context.change(queue)
    parts = ("api", "webhooks", webhook_id, "deliveries", delivery_id)
    return context.go(*parts, notice="The delivery is queued again.")


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
