"""Every operation of v1."""

from aiohttp import web

from backhaul_reference.admin_v1 import inventory, orders, products, store, webhooks
from backhaul_reference.admin_v1.admission import admit
from backhaul_reference.web.endpoint import mount

ENDPOINTS = (
    *products.ENDPOINTS,
    *orders.ENDPOINTS,
    *inventory.ENDPOINTS,
    *store.ENDPOINTS,
    *webhooks.ENDPOINTS,
)


def add_routes(app: web.Application) -> None:
    mount(app, ENDPOINTS, admit)
