"""Every page and every form of the dashboard, held against its route table."""

from typing import Any

import pytest

from backhaul_reference.dashboard.routes import OPEN, ROUTES
from backhaul_reference.dashboard.visit import STORE as PREFIX
from reference_dashboard.conftest import STORE, Browser

WEBHOOK = "/api/webhooks/{id}"
DELIVERY = WEBHOOK + "/deliveries/{delivery}"
PAGES = {
    "/orders": "",
    "/orders/{id}": "order",
    "/new-order": "",
    "/products": "",
    "/products/{id}": "product",
    "/stock": "",
    "/collections": "",
    "/collections/{id}": "collection",
    "/navigation": "",
    "/customers": "",
    "/customers/{id}": "customer",
    "/discounts": "",
    "/shipping": "",
    "/shipping/{id}": "zone",
    "/new-zone": "",
    "/settings": "",
    "/payments": "",
    "/api": "",
    WEBHOOK: "webhook",
    DELIVERY: "webhook",
    "/mails": "",
    "/mails/{id}": "mail",
    "/faults": "",
    "/clock": "",
}
"""Each page, and whose id stands in its address."""
FORMS = (
    *(f"/orders/{{id}}/{one}" for one in ("confirm", "mark-paid", "refund")),
    *(f"/orders/{{id}}/{one}" for one in ("fulfill", "cancel")),
    *("/new-order", "/products", "/products/{id}/stock", "/navigation/{handle}"),
    *("/collections", "/collections/{id}", "/collections/{id}/delete"),
    *("/discounts", "/discounts/{id}/active", "/discounts/{id}/delete"),
    *("/new-zone", "/shipping/{id}", "/shipping/{id}/delete"),
    *("/settings", "/payments", "/faults", "/faults/disarm", "/clock"),
    *("/api/keys", "/api/keys/{id}/revoke", "/api/webhooks"),
    *(f"{WEBHOOK}/{one}" for one in ("status", "test", "rotate-secret", "delete")),
    DELIVERY + "/redeliver",
)
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
}


def test_the_tables_name_every_route() -> None:
    mounted = {(route.method, route.path) for route in ROUTES}
    listed = {("GET", PREFIX + path) for path in PAGES}
    listed |= {("POST", PREFIX + path) for path in FORMS}
    assert listed == mounted
    assert len(ROUTES) == len(mounted)
    assert len(OPEN) == 6


def filled(path: str, **ids: str) -> str:
    for name in ("id", "delivery", "handle"):
        path = path.replace(f"{{{name}}}", ids.get(name, "x"))
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
    collection = {"title": "Lights"}
    reply = await shop.control("POST", f"{store}/collections", collection)
    made["collection"] = reply.data
    listed = await shop.v1("GET", f"/webhooks/{made['webhook']['id']}/deliveries")
    made["delivery"] = listed.data[0]
    made["mail"] = (await shop.control("GET", "/outbox")).data[0]
    return {name: one["id"] for name, one in made.items()}


async def test_every_page_answers(browser: Browser) -> None:
    ids = await scene(browser)
    for path, kind in PAGES.items():
        url = filled(path, id=ids.get(kind, ""), delivery=ids["delivery"])
        page = await browser.get(url)
        assert page.status == 200, (path, page.text)
        assert page.headers.items() >= HEADERS.items()
        policy = page.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "<style" not in page.text
        assert " style=" not in page.text


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_leads_to_the_login(visitor: Browser, path: str) -> None:
    page = await visitor.get(filled(path))
    assert (page.status, page.headers["Location"]) == (303, "/dashboard/login")
    assert page.text == ""
    assert page.headers.items() >= HEADERS.items()


async def test_no_form_works_without_login_or_token(visitor: Browser) -> None:
    for path in FORMS:
        page = await visitor.ask("POST", filled(path))
        assert (page.status, page.headers["Location"]) == (303, "/dashboard/login")
    await visitor.log_in()
    for path in FORMS:
        for token in ("", "x" * 43):
            page = await visitor.ask("POST", filled(path), data={"csrf": token})
            assert page.status == 403, path
            assert "CSRF_TOKEN_INVALID" in page.text


async def test_what_is_absent_is_a_404(browser: Browser) -> None:
    for path, kind in PAGES.items():
        if kind:
            page = await browser.get(filled(path))
            assert page.status == 404, path
    page = await browser.get("/dashboard/stores/nowhere/orders")
    assert page.status == 404


@pytest.mark.parametrize("name", ["style.css", "htmx.min.js"])
async def test_assets(visitor: Browser, name: str) -> None:
    page = await visitor.get(f"/dashboard/assets/{name}")
    assert page.status == 200
    assert (await visitor.get("/dashboard/assets/routes.py")).status == 404
