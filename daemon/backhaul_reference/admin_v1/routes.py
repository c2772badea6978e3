"""Every operation of v1."""

from aiohttp import web

from backhaul_reference.admin_v1 import (
    customers,
    inventory,
    orders,
    products,
    store,
    webhook_care,
    webhooks,
)
from backhaul_reference.admin_v1.admission import admit
from backhaul_reference.web.endpoint import mount

ENDPOINTS = (
    *products.ENDPOINTS,
    *orders.ENDPOINTS,
    *inventory.ENDPOINTS,
    *customers.ENDPOINTS,
    *store.ENDPOINTS,
    *webhooks.ENDPOINTS,
    *webhook_care.ENDPOINTS,
)


def add_routes(app: web.Application) -> None:
    mount(app, ENDPOINTS, admit)
