"""Stores, their settings and their keys."""

import sqlite3

from aiohttp import web

from backhaul_reference import documents, money
from backhaul_reference.access import StoreKey
from backhaul_reference.context import Platform, TrackingTokens
from backhaul_reference.control.admission import check_token
from backhaul_reference.control.bodies import NewKey, NewStore, StoreSettings
from backhaul_reference.fixtures import loading
from backhaul_reference.problems import Problem
from backhaul_reference.roll import ROLL, Roll
from backhaul_reference.state import keys, stores
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import bodies
from backhaul_reference.web.answers import data_answer
from backhaul_reference.web.endpoint import Answer, Call, Endpoint, read_raw

ONE = "/_control/stores/{subdomain}"


async def list_stores(request: web.Request) -> web.Response:
    platform = check_token(request)
    found = platform.reader.read(stores.every)
    return data_answer([stores.control_view(store) for store in found])


async def create_store(request: web.Request) -> web.Response:
    platform = check_token(request)
    document = documents.decode_object(await read_raw(request))
    exponent = money.exponent_of(str(document.get("currency", "INR")))
    body = bodies.parse(NewStore, document, exponent)
    created, secret = await add_store(platform, request.app[ROLL], body)
    return data_answer({**stores.control_view(created), "apiKey": secret}, 201)


async def add_store(
    platform: Platform, roll: Roll, body: NewStore
) -> tuple[Store, str]:
    """The new store and its first key, which is shown this once."""
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
    """The store with its fixture and a key that may do everything."""
    values = {"name": body.subdomain, "quirks": quirks, **body.columns()}
    try:
        store = stores.create(tx, values)
    except sqlite3.IntegrityError as error:
        raise Problem(409, "SUBDOMAIN_TAKEN", "another store has it") from error
    keys.add(tx, store.id, secret, name="first")
    loading.fill(tx, store, tokens)
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
    scopes = keys.SCOPES if body.scopes is None else body.scopes
    ends = body.expires_at
    # Not by mutate: an answer kept for an Idempotency-Key would keep the key's text.
    made = await call.platform.writer.run(
        lambda tx: keys.add(
            tx, call.store.id, secret, name=body.name, scopes=scopes, expires_ms=ends
        )
    )
    return data_answer(made, 201)


async def revoke_key(call: Call) -> web.Response:
    key_id = call.path("key_id")

    def revoke(tx: Tx) -> Answer:
        keys.revoke(tx, call.store.id, key_id)
        return Answer({"id": key_id, "revoked": True})

    return await call.mutate(revoke)


ENDPOINTS = (
    Endpoint("GET", ONE, get_store),
    Endpoint("PUT", ONE + "/settings", change_settings, body=StoreSettings),
    Endpoint("POST", ONE + "/keys", create_key, body=NewKey, body_optional=True),
    Endpoint("DELETE", ONE + "/keys/{key_id}", revoke_key),
)
