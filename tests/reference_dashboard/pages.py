"""Every page and every form, and a store with one of everything to show on them."""

from collections.abc import Mapping
from typing import Any

from reference_dashboard.conftest import STORE, Browser

WEBHOOK = "/api/webhooks/{id}"
DELIVERY = WEBHOOK + "/deliveries/{delivery}"
PAGES = {
    "/orders": "",
    "/orders/{id}": "order",
    "/new-order": "",
    "/products": "",
    "/new-product": "",
    "/products/{id}": "product",
    "/products/{id}/edit": "product",
    "/stock": "",
    "/collections": "",
    "/new-collection": "",
    "/collections/{id}": "collection",
    "/navigation": "",
    "/navigation/{handle}": "menu",
    "/customers": "",
    "/new-customer": "",
    "/customers/{id}": "customer",
    "/customers/{id}/edit": "customer",
    "/discounts": "",
    "/new-discount": "",
    "/discounts/{id}": "discount",
    "/shipping": "",
    "/shipping/{id}": "zone",
    "/new-zone": "",
    "/settings": "",
    "/payments": "",
    "/new-store": "",
    "/api": "",
    WEBHOOK: "webhook",
    DELIVERY: "webhook",
    "/mails": "",
    "/mails/{id}": "mail",
    "/quirks": "",
    "/faults": "",
    "/fixtures": "",
    "/clock": "",
}
"""Each page, and whose id stands in its address."""
FORMS = (
    *(f"/orders/{{id}}/{one}" for one in ("confirm", "mark-paid", "refund")),
    *(f"/orders/{{id}}/{one}" for one in ("fulfill", "cancel")),
    *("/new-order", "/new-product", "/new-store", "/navigation"),
    *(f"/products/{{id}}/{one}" for one in ("edit", "stock", "delete")),
    *("/new-customer", "/customers/{id}/edit", "/customers/{id}/delete"),
    *("/new-collection", "/collections/{id}", "/collections/{id}/delete"),
    *("/new-discount", "/discounts/{id}", "/discounts/{id}/active"),
    *("/discounts/{id}/delete", "/navigation/{handle}"),
    "/navigation/{handle}/delete",
    *("/new-zone", "/shipping/{id}", "/shipping/{id}/delete"),
    *("/settings", "/payments", "/quirks", "/fixtures"),
    *("/faults", "/faults/disarm", "/faults/{fault}/disarm", "/clock"),
    *("/api/keys", "/api/keys/{id}/revoke", "/api/webhooks", WEBHOOK),
    *(f"{WEBHOOK}/{one}" for one in ("status", "test", "rotate-secret", "delete")),
    DELIVERY + "/redeliver",
)


def filled(path: str, ids: Mapping[str, str] = {}, kind: str = "") -> str:
    """The page's address; what has no id stands as `x`."""
    names = {"id": kind, "delivery": "delivery", "handle": "menu", "fault": "fault"}
    for name, meant in names.items():
        path = path.replace(f"{{{name}}}", ids.get(meant, "x"))
    return STORE + path


async def scene(browser: Browser) -> dict[str, str]:
    """One of everything; answers their ids."""
    shop = browser.shop
    store = "/stores/demo"
    made: dict[str, Any] = {}
    address = {"address": "http://127.0.0.1:9/", "topics": ["orders/create"]}
    made["webhook"] = (await shop.control("POST", f"{store}/webhooks", address)).data
    made["product"] = await shop.product()
    rates = [{"name": "Post", "price": "5"}]
    zone = {"name": "All", "rates": rates}
    made["zone"] = (await shop.control("POST", f"{store}/zones", zone)).data
    made["order"] = await shop.order(made["product"])
    made["customer"] = made["order"]["customer"]
    made["menu"] = {"id": "main-menu"}
    code = {"code": "SAVE10", "type": "FREE_SHIPPING"}
    made["discount"] = (await shop.control("POST", f"{store}/discounts", code)).data
    collection = {"title": "Lights"}
    reply = await shop.control("POST", f"{store}/collections", collection)
    made["collection"] = reply.data
    listed = await shop.v1("GET", f"/webhooks/{made['webhook']['id']}/deliveries")
    made["delivery"] = listed.data[0]
    made["mail"] = (await shop.control("GET", "/outbox")).data[0]
    return {name: one["id"] for name, one in made.items()}
