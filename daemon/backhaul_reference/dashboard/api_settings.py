"""Settings > API & Webhooks: API keys, webhooks and their deliveries."""

from aiohttp import web

from backhaul_reference.control.stores import NewKey
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform import formats, models
from backhaul_reference.platform.json_codec import Document, decode_stored
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import api_keys, subscriptions, webhook_outbox
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.webhooks import ChangedWebhook, NewWebhook, check

EVENT_BODY = """SELECT e.body FROM delivery d JOIN event e ON e.seq = d.event_seq
WHERE d.id = ? AND d.subscription_id = ?"""
KEYS = "SELECT * FROM api_key WHERE store_id = ? ORDER BY created_ms DESC, id"


def _keys(rows: Rows, store_id: str, now_ms: int) -> list[Document]:
    return [
        {
            "id": row["id"],
            "name": row["name"],
            "last4": row["last4"],
            "scopes": decode_stored(row["scopes"]),
            "createdAt": formats.to_text(row["created_ms"]),
            "usedAt": formats.to_text_or_none(row["used_ms"]),
            "expiresAt": formats.to_text_or_none(row["expires_ms"]),
            "revokedAt": formats.to_text_or_none(row["revoked_ms"]),
            "ended": row["expires_ms"] is not None and row["expires_ms"] <= now_ms,
        }
        for row in rows.all(KEYS, (store_id,))
    ]


async def show_api(context: PageContext) -> web.Response:
    return _page(context)


def _page(context: PageContext, shown_once: Document | None = None) -> web.Response:
    store_id, now_ms = context.store.id, context.platform.clock.now_ms()
    return context.render(
        "api.html",
        keys=context.read(lambda rows: _keys(rows, store_id, now_ms)),
        subscriptions=context.read(lambda rows: subscriptions.every(rows, store_id)),
        scopes=api_keys.SCOPES,
        topics=TOPICS,
        shown_once=shown_once,
    )


async def create_key(context: PageContext) -> web.Response:
    """Create an API key; only this response shows it."""
    forms.require(context.form, "name")
    document = forms.document(context.form, words=("name", "expiresAt"))
    ends = forms.instant(document.get("expiresAt"), context.store.timezone)
    document["expiresAt"] = ends
    document["scopes"] = forms.texts(context.form, "scopes")
    if not document["scopes"]:
        raise invalid([Flaw("/scopes", "REQUIRED", "choose at least one scope")])
    body = context.body(NewKey, document)
    body.require_future(context.platform.clock.now_ms())
    secret, store_id = context.platform.ids.api_key(), context.store.id
    made = await context.change(
        lambda tx: api_keys.add(
            tx,
            store_id,
            secret,
            name=body.name,
            scopes=body.scopes or (),
            expires_ms=body.expires_at,
        )
    )
    return _page(
        context, {"kind": "API key", "name": made["name"], "text": made["key"]}
    )


async def revoke_key(context: PageContext) -> web.Response:
    key_id = context.path("id")
    await context.change(lambda tx: api_keys.revoke(tx, context.store.id, key_id))
    return context.go("api", notice="The key is revoked.")


async def create_webhook(context: PageContext) -> web.Response:
    """Create a webhook; only this response shows its signing secret."""
    forms.require(context.form, "address")
    document = forms.document(context.form, words=("address", "description"))
    document["topics"] = forms.texts(context.form, "topics")
    body = context.body(NewWebhook, document)
    values = check(body, allow_private=context.platform.allow_private_targets)
    made = await context.change(
        lambda tx: subscriptions.add(
            tx, context.store.id, body.address, body.topics, values.get("description")
        )
    )
    shown = {"kind": "signing secret", "name": made["address"], "text": made["secret"]}
    return _page(context, shown)


def _webhook(context: PageContext) -> models.Webhook:
    store_id, webhook_id = context.store.id, context.path("id")
    return context.read(lambda rows: subscriptions.view(rows, store_id, webhook_id))


async def show_webhook(context: PageContext) -> web.Response:
    return _webhook_page(context)


def _webhook_page(context: PageContext, secret: str | None = None) -> web.Response:
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


async def save_webhook(context: PageContext) -> web.Response:
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
    return _webhook_page(context, made["secret"])


async def delete_webhook(context: PageContext) -> web.Response:
    webhook_id, store_id = context.path("id"), context.store.id
    await context.change(lambda tx: subscriptions.remove(tx, store_id, webhook_id))
    return context.go("api", notice="The webhook is deleted.")


async def show_delivery(context: PageContext) -> web.Response:
    webhook, delivery_id = _webhook(context), context.path("delivery")

    def find(rows: Rows) -> Document:
        delivery = webhook_outbox.view(rows, webhook["id"], delivery_id)
        kept = webhook_outbox.of_delivery(rows, webhook["id"], delivery_id)
        body = rows.value(EVENT_BODY, (delivery_id, webhook["id"]))
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


API = STORE + "/api"
WEBHOOK = API + "/webhooks/{id}"
DELIVERY = WEBHOOK + "/deliveries/{delivery}"
ROUTES = (
    Route("GET", API, show_api),
    Route("POST", API + "/keys", create_key, show_api),
    Route("POST", API + "/keys/{id}/revoke", revoke_key, show_api),
    Route("POST", API + "/webhooks", create_webhook, show_api),
    Route("GET", WEBHOOK, show_webhook),
    Route("POST", WEBHOOK, save_webhook, show_webhook),
    Route("POST", WEBHOOK + "/status", set_status, show_webhook),
    Route("POST", WEBHOOK + "/test", send_test, show_webhook),
    Route("POST", WEBHOOK + "/rotate-secret", rotate_secret, show_webhook),
    Route("POST", WEBHOOK + "/delete", delete_webhook, show_webhook),
    Route("GET", DELIVERY, show_delivery),
    Route("POST", DELIVERY + "/redeliver", redeliver, show_delivery),
)
