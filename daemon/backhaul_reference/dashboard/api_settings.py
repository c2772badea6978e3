"""Settings > API & Webhooks: API keys and the list of webhooks."""

from aiohttp import web

from backhaul_reference.control.stores import NewKey
from backhaul_reference.dashboard import forms
from backhaul_reference.dashboard.page_context import STORE, PageContext, Route
from backhaul_reference.platform import formats
from backhaul_reference.platform.json_codec import Document, decode_stored
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import api_keys, subscriptions
from backhaul_reference.platform.state.database import Rows
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.v1.webhooks import NewWebhook, check

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


ROUTES = (
    Route("GET", STORE + "/api", show_api),
    Route("POST", STORE + "/api/keys", create_key, show_api),
    Route("POST", STORE + "/api/keys/{id}/revoke", revoke_key, show_api),
    Route("POST", STORE + "/api/webhooks", create_webhook, show_api),
)
