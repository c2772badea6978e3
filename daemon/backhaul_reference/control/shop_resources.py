"""Collections, menus, discounts and shipping zones: operations."""

from collections.abc import Callable
from typing import Any

from aiohttp import web

from backhaul_reference.control.shop_resource_bodies import (
    ChangedCollection,
    ChangedDiscount,
    ChangedZone,
    CollectionProducts,
    Menu,
    NewCollection,
    NewDiscount,
    NewZone,
    discount_value,
)
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint, Handler
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import not_found
from backhaul_reference.platform.state import collections, discounts, menus, shipping
from backhaul_reference.platform.state.database import Listing, Rows, Window
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

ONE = "/_control/stores/{subdomain}"
Page = Callable[[Rows, Store, Window], Listing]
View = Callable[[Rows, Store, str], Document]
Create = Callable[[Tx, Store, Any], Document]
Change = Callable[[Tx, Store, str, Any], Document]
Delete = Callable[[Tx, Store, str], Document]


def lister(page: Page) -> Handler:
    async def handle(call: Call) -> web.Response:
        window = query_params.window(call.request.query)
        listing = call.read(lambda rows: page(rows, call.store, window))
        return page_answer(call.request, listing, window)

    return handle


def viewer(view: View) -> Handler:
    async def handle(call: Call) -> web.Response:
        return data_answer(
            call.read(lambda rows: view(rows, call.store, call.path("id")))
        )

    return handle


def creator(create: Create) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(create(tx, call.store, call.body), 201)
        )

    return handle


def changer(change: Change) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(change(tx, call.store, call.path("id"), call.body))
        )

    return handle


def deleter(delete: Delete) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(delete(tx, call.store, call.path("id")))
        )

    return handle


def create_collection(tx: Tx, store: Store, body: NewCollection) -> Document:
    return collections.create(tx, store, body.values())


def change_collection(
    tx: Tx, store: Store, collection_id: str, body: ChangedCollection
) -> Document:
    return collections.change(tx, store, collection_id, body.values())


def fill_collection(
    tx: Tx, store: Store, collection_id: str, body: CollectionProducts
) -> Document:
    values = {"product_ids": body.product_ids}
    return collections.change(tx, store, collection_id, values)


def publishing(published: bool) -> Handler:
    async def handle(call: Call) -> web.Response:
        values, collection_id = {"published": published}, call.path("id")
        return await call.mutate(
            lambda tx: Answer(collections.change(tx, call.store, collection_id, values))
        )

    return handle


def create_discount(tx: Tx, store: Store, body: NewDiscount) -> Document:
    value = discount_value(body.type, body.value, store.exponent)
    return discounts.create(tx, store, {**body.columns(), "value": value})


def change_discount(
    tx: Tx, store: Store, discount_id: str, body: ChangedDiscount
) -> Document:
    """Merge a change; a new type needs a value of its own."""
    columns = body.columns()
    if {"type", "value"} & body.model_fields_set:
        before = discounts.find(tx, store, discount_id)
        kind = columns.get("type", before["type"])
        columns["value"] = discount_value(kind, body.value, store.exponent)
    return discounts.change(tx, store, discount_id, columns)


def create_zone(tx: Tx, store: Store, body: NewZone) -> Document:
    return shipping.create(tx, store, body.values())


def change_zone(tx: Tx, store: Store, zone_id: str, body: ChangedZone) -> Document:
    return shipping.change(tx, store, zone_id, body.values())


async def list_menus(call: Call) -> web.Response:
    return data_answer(call.read(lambda rows: menus.control_views(rows, call.store.id)))


async def get_menu(call: Call) -> web.Response:
    handle = call.path("handle")
    return data_answer(
        call.read(lambda rows: menus.control_view(rows, call.store.id, handle))
    )


async def put_menu(call: Call) -> web.Response:
    body: Menu = call.body
    handle = call.path("handle")
    if not menus.HANDLE.fullmatch(handle):
        raise not_found("MENU")
    items = [item.model_dump() for item in body.items]
    return await call.mutate(
        lambda tx: Answer(menus.put(tx, call.store.id, handle, body.title, items))
    )


async def delete_menu(call: Call) -> web.Response:
    store_id, handle = call.store.id, call.path("handle")
    return await call.mutate(lambda tx: Answer(menus.delete(tx, store_id, handle)))


COLLECTIONS, DISCOUNTS = f"{ONE}/collections", f"{ONE}/discounts"
ZONES, MENUS = f"{ONE}/zones", f"{ONE}/menus"
COLLECTION, DISCOUNT = COLLECTIONS + "/{id}", DISCOUNTS + "/{id}"
ZONE, MENU = ZONES + "/{id}", MENUS + "/{handle}"
ENDPOINTS = (
    Endpoint("GET", COLLECTIONS, lister(collections.page)),
    Endpoint("POST", COLLECTIONS, creator(create_collection), body=NewCollection),
    Endpoint("GET", COLLECTION, viewer(collections.view)),
    Endpoint("PUT", COLLECTION, changer(change_collection), body=ChangedCollection),
    Endpoint("DELETE", COLLECTION, deleter(collections.delete)),
    Endpoint(
        "PUT",
        COLLECTION + "/products",
        changer(fill_collection),
        body=CollectionProducts,
    ),
    Endpoint("POST", COLLECTION + "/publish", publishing(True)),
    Endpoint("POST", COLLECTION + "/unpublish", publishing(False)),
    Endpoint("GET", DISCOUNTS, lister(discounts.page)),
    Endpoint("POST", DISCOUNTS, creator(create_discount), body=NewDiscount),
    Endpoint("GET", DISCOUNT, viewer(discounts.view)),
    Endpoint("PUT", DISCOUNT, changer(change_discount), body=ChangedDiscount),
    Endpoint("DELETE", DISCOUNT, deleter(discounts.delete)),
    Endpoint("GET", ZONES, lister(shipping.page)),
    Endpoint("POST", ZONES, creator(create_zone), body=NewZone),
    Endpoint("GET", ZONE, viewer(shipping.view)),
    Endpoint("PUT", ZONE, changer(change_zone), body=ChangedZone),
    Endpoint("DELETE", ZONE, deleter(shipping.delete)),
    Endpoint("GET", MENUS, list_menus),
    Endpoint("GET", MENU, get_menu),
    Endpoint("PUT", MENU, put_menu, body=Menu),
    Endpoint("DELETE", MENU, delete_menu),
)
