"""Every page and every form of the dashboard, checked against its route table."""

import pytest

from backhaul_reference.dashboard.page_context import STORE as PREFIX
from backhaul_reference.dashboard.routes import OPEN, ROUTES
from reference_dashboard.conftest import Browser
from reference_dashboard.pages import FORMS, PAGES, filled, scene

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


async def test_every_page_answers(browser: Browser) -> None:
    ids = await scene(browser)
    for path, kind in PAGES.items():
        url = filled(path, ids, kind)
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


async def test_an_absent_object_is_a_404(browser: Browser) -> None:
    for path, kind in PAGES.items():
        if kind:
            page = await browser.get(filled(path))
            assert page.status == 404, path
    page = await browser.get("/dashboard/stores/nowhere/orders")
    assert page.status == 404


async def test_a_failure_is_shown_as_a_page(browser: Browser) -> None:
    page = await browser.get("/dashboard/nowhere/at/all")
    assert page.status == 404
    assert "This page does not exist." in page.text
    browser.shop.running.platform.reader.connection.close()
    page = await browser.get(filled("/orders"))
    assert page.status == 500
    assert "The failure was logged." in page.text
    assert page.headers.items() >= HEADERS.items()


@pytest.mark.parametrize("name", ["style.css", "htmx.min.js"])
async def test_assets(visitor: Browser, name: str) -> None:
    page = await visitor.get(f"/dashboard/assets/{name}")
    assert page.status == 200
    assert (await visitor.get("/dashboard/assets/routes.py")).status == 404
