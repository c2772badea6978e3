"""Stores, their settings, keys, webhooks, order steps and mails: operations."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import Field, StringConstraints

from backhaul_reference.data_folder import STORE_REGISTRY, StoreKey, StoreRegistry
from backhaul_reference.fixtures import loader
from backhaul_reference.platform import json_codec, money, order_models
from backhaul_reference.platform.context import PLATFORM, Platform, TrackingTokens
from backhaul_reference.platform.http import query_params, request_bodies
from backhaul_reference.platform.http.endpoint import (
    Answer,
    Call,
    Endpoint,
    Handler,
    read_raw,
)
from backhaul_reference.platform.http.request_bodies import (
    Body,
    Country,
    Email,
    Instant,
    LongText,
    Money,
    OptionalText,
    Printable,
    Text,
    Upper,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import (
    api_keys,
    mail_outbox,
    order_payments,
    stores,
    subscriptions,
)
from backhaul_reference.platform.state.api_keys import Scope
from backhaul_reference.platform.state.database import Listing
from backhaul_reference.platform.state.stores import PAYMENT_OFF, PICTURE, Store
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.webhooks import NewWebhook, check

Subdomain = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")
]
Picture = Annotated[
    str,
    StringConstraints(max_length=200_000, pattern=PICTURE.pattern),
    Printable,
]
TrackingPage = Annotated[
    str, StringConstraints(max_length=2048, pattern=r"^https?://\S*\{token\}\S*$")
]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class Payment(Body):
    enabled: bool = False
    fee: Money = 0
    instructions: LongText | None = None

    def stored(self) -> Document:
        return {**PAYMENT_OFF, **self.model_dump()}


class QrPayment(Payment):
    qr: Picture | None = None


class PaymentSettings(Body):
    cod: Payment | None = None
    custom_qr: QrPayment | None = None


class CustomerAccounts(Body):
    mode: Annotated[Literal["OPTIONAL", "REQUIRED", "GUEST_ONLY"], Upper]


CLEARABLE = {"logo", "seo_title", "seo_description", "merchant_email", "tracking_page"}


class StoreSettings(Body):
    store_name: Text | None = None
    active: bool | None = None
    cod_confirmation: bool | None = None
    payment_settings: PaymentSettings | None = None
    customer_accounts: CustomerAccounts | None = None
    timezone: Text | None = None
    locale: Text | None = None
    country: Country | None = None
    logo: Picture | None = None
    seo_title: OptionalText | None = None
    seo_description: LongText | None = None
    merchant_email: Email | None = None
    tracking_page: TrackingPage | None = None

    def columns(self) -> dict[str, Any]:
        """Return the sent members as columns; null clears an optional one."""
        sent = self.model_dump(
            exclude_unset=True, exclude={"payment_settings", "customer_accounts"}
        )
        columns: dict[str, Any] = {
            "name" if name == "store_name" else name: value
            for name, value in sent.items()
            if value is not None or name in CLEARABLE
        }
        if self.customer_accounts is not None:
            columns["account_mode"] = self.customer_accounts.mode
        payment = self.payment_settings or PaymentSettings()
        if payment.cod is not None:
            columns["cod"] = payment.cod.stored()
        if payment.custom_qr is not None:
            columns["custom_qr"] = payment.custom_qr.stored()
        return columns


class NewStore(StoreSettings):
    subdomain: Subdomain
    currency: Currency = "INR"
    fixture: Literal["demo", "fresh", "empty", "large"] = "empty"


class NewKey(Body):
    name: Text = "key"
    scopes: Annotated[list[Scope], Field(max_length=9)] | None = None
    expires_at: Instant | None = None

    def require_future(self, now_ms: int) -> None:
        if self.expires_at is not None and self.expires_at <= now_ms:
            raise invalid([Flaw("/expiresAt", "OUT_OF_RANGE", "is over already")])


ONE = "/_control/stores/{subdomain}"


async def list_stores(request: web.Request) -> web.Response:
    platform = request.app[PLATFORM]
    found = platform.reader.read(stores.every)
    return data_answer([stores.control_view(store) for store in found])


async def create_store(request: web.Request) -> web.Response:
    platform = request.app[PLATFORM]
    document = json_codec.decode_object(await read_raw(request))
    exponent = money.exponent_of(str(document.get("currency", "INR")))
    body = request_bodies.parse(NewStore, document, exponent)
    created, secret = await add_store(platform, request.app[STORE_REGISTRY], body)
    return data_answer({**stores.control_view(created), "apiKey": secret}, 201)


async def add_store(
    platform: Platform, roll: StoreRegistry, body: NewStore
) -> tuple[Store, str]:
    """Create a store and return it with its first API key, which is shown only once."""
    quirks, secret = list(platform.quirks.texts), platform.ids.api_key()
    tokens = platform.tokens
    created = await platform.writer.run(
        lambda tx: _create(tx, body, quirks, secret, tokens)
    )
    await roll.add(StoreKey(created.subdomain, created.id, secret))
    return created, secret


def _create(
    tx: Tx, body: NewStore, quirks: list[str], secret: str, tokens: TrackingTokens
) -> Store:
    """Create the store, load its fixture and add a key with every scope."""
    values = {"name": body.subdomain, "quirks": quirks, **body.columns()}
    store = stores.create(tx, values)
    api_keys.add(tx, store.id, secret, name="first")
    loader.fill(tx, store, tokens)
    stores.change(tx, store.id, body.columns())
    return stores.by_id(tx, store.id) or store


async def get_store(call: Call) -> web.Response:
    return data_answer(stores.control_view(call.store))


async def change_settings(call: Call) -> web.Response:
    columns = call.body.columns()

    def change(tx: Tx) -> Answer:
        stores.change(tx, call.store.id, columns)
        changed = stores.by_id(tx, call.store.id) or call.store
        return Answer(stores.control_view(changed))

    return await call.mutate(change)


async def create_key(call: Call) -> web.Response:
    secret = call.platform.ids.api_key()
    body: NewKey = call.body
    body.require_future(call.platform.clock.now_ms())
    scopes = api_keys.SCOPES if body.scopes is None else body.scopes
    ends = body.expires_at
    # Not by mutate: an answer kept for an Idempotency-Key would keep the key's text.
    made = await call.platform.writer.run(
        lambda tx: api_keys.add(
            tx, call.store.id, secret, name=body.name, scopes=scopes, expires_ms=ends
        )
    )
    return data_answer(made, 201)


async def revoke_key(call: Call) -> web.Response:
    key_id = call.path("key_id")

    def revoke(tx: Tx) -> Answer:
        api_keys.revoke(tx, call.store.id, key_id)
        return Answer({"id": key_id, "revoked": True})

    return await call.mutate(revoke)


async def list_mails(request: web.Request) -> web.Response:
    """List the mails of all stores, newest first, without their text."""
    platform = request.app[PLATFORM]
    window = query_params.window(request.query)
    found = platform.reader.read(lambda rows: mail_outbox.page(rows, window))
    shown = Listing([mail_outbox.view(row) for row in found.rows], found.total)
    return page_answer(request, shown, window)


Step = Callable[[Tx, Store, str], order_models.Order]


def order_step(step: Step) -> Handler:
    async def handle(call: Call) -> web.Response:
        order_id = call.path("order_id")
        return await call.mutate(lambda tx: Answer(step(tx, call.store, order_id)))

    return handle


async def create_webhook(call: Call) -> web.Response:
    values = check(call.body, allow_private=call.platform.allow_private_targets)
    return await call.mutate(
        lambda tx: Answer(
            subscriptions.add(
                tx,
                call.store.id,
                values["address"],
                values["topics"],
                values.get("description"),
            ),
            201,
        )
    )


ORDER = ONE + "/orders/{order_id}"
ENDPOINTS = (
    Endpoint("GET", ONE, get_store),
    Endpoint("PUT", ONE + "/settings", change_settings, body=StoreSettings),
    Endpoint("POST", ONE + "/keys", create_key, body=NewKey, body_optional=True),
    Endpoint("DELETE", ONE + "/keys/{key_id}", revoke_key),
    Endpoint("POST", ORDER + "/confirm", order_step(order_payments.confirm)),
    Endpoint("POST", ORDER + "/mark-paid", order_step(order_payments.mark_paid)),
    Endpoint("POST", ORDER + "/refund", order_step(order_payments.refund)),
    Endpoint("POST", ONE + "/webhooks", create_webhook, body=NewWebhook),
)
