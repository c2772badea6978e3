"""Quirks, faults, fixtures and more stores are controlled from the dashboard."""

import re

from reference_dashboard.conftest import STORE, Browser
from reference_dashboard.test_settings import STAYS


async def quirks(browser: Browser) -> list[str]:
    found: list[str] = (await browser.shop.control("GET", "/stores/demo/quirks")).data
    return found


async def test_quirks_are_switched(browser: Browser) -> None:
    form = {"quirks": ["bare-v1", "no-note"], "restock-field": "putBack"}
    assert (await browser.post("/quirks", **form)).status == 303
    assert await quirks(browser) == ["bare-v1", "no-note", "restock-field=putBack"]
    assert isinstance((await browser.shop.v1("GET", "/orders")).body, list)
    shown = (await browser.get(STORE + "/quirks")).text
    assert 'value="bare-v1" checked' in shown
    assert 'value="putBack"' in shown
    assert (await browser.post("/quirks")).status == 303
    assert await quirks(browser) == []


async def test_a_fault_leaves_the_others_as_they_are(browser: Browser) -> None:
    await browser.post("/faults", fault="5xx", count=1, place="*/orders")
    assert (await browser.shop.v1("GET", "/orders")).status == 503
    await browser.post("/faults", fault="rate429", count=1, place="*/customers")
    assert (await browser.shop.v1("GET", "/orders")).status == 200
    assert (await browser.shop.v1("GET", "/customers")).status == 429
    listed = (await browser.shop.control("GET", "/stores/demo/faults")).data
    assert [(one["fault"], one["fired"]) for one in listed] == [
        ("5xx", 1),
        ("rate429", 1),
    ]


async def test_a_single_fault_is_disarmed(browser: Browser) -> None:
    await browser.post("/faults", fault="5xx", place="*/orders")
    await browser.post("/faults", fault="rate429", place="*/customers")
    shown = (await browser.get(STORE + "/faults")).text
    first, _ = re.findall(r"/faults/(\w+)/disarm", shown)
    assert (await browser.post(f"/faults/{first}/disarm")).status == 303
    assert (await browser.shop.v1("GET", "/orders")).status == 200
    assert (await browser.shop.v1("GET", "/customers")).status == 429
    # A page that is out of date ends nothing else.
    await browser.post("/faults", fault="5xx", place="*/orders")
    assert (await browser.post(f"/faults/{first}/disarm")).status == 404
    assert (await browser.shop.v1("GET", "/orders")).status == 503


async def test_a_fixture_is_loaded(browser: Browser) -> None:
    await browser.shop.product()
    key = browser.shop.running.access.api_key
    await browser.post("/faults", fault="5xx")
    page = await browser.post("/fixtures", fixture="empty", sure="on")
    assert page.status == 303
    reply = await browser.shop.v1("GET", "/products", key=key)
    assert (reply.status, reply.data) == (200, [])
    await browser.shop.product()
    assert (await browser.post("/fixtures", fixture="empty")).status == 422
    assert (await browser.post("/fixtures", fixture="huge", sure="on")).status == 422
    assert len((await browser.shop.v1("GET", "/products")).data) == 1


async def test_a_store_is_opened(browser: Browser) -> None:
    form = {"storeName": "Second", "subdomain": "second", "currency": "KWD"}
    page = await browser.post("/new-store", fixture="empty", **form)
    assert page.status == 200
    found = re.search(r'class="secret">([^<]+)<', page.text)
    assert found is not None
    store = (await browser.shop.v1("GET", "/store", key=found[1])).data
    assert (store["storeName"], store["currencyExponent"]) == ("Second", 3)
    assert (await browser.get("/dashboard/stores/second/orders")).status == 200


async def test_an_optional_setting_is_cleared(browser: Browser) -> None:
    shown = {
        "logo": "https://images.example/logo.png",
        "seoTitle": "Lamps",
        "seoDescription": "Many lamps",
        "merchantEmail": "me@shop.example",
        "trackingPage": "https://shop.example/{token}",
    }
    assert (await browser.post("/settings", **STAYS, **shown)).status == 303
    found = (await browser.shop.control("GET", "/stores/demo")).data
    assert found.items() >= shown.items()
    emptied = dict.fromkeys(shown, "")
    assert (await browser.post("/settings", **STAYS, **emptied)).status == 303
    found = (await browser.shop.control("GET", "/stores/demo")).data
    assert [found[name] for name in shown] == [None] * len(shown)
    assert found["storeName"] == "New"


async def test_time_has_an_end(browser: Browser) -> None:
    decade = {"advance": 3_600 * 24 * 366 * 10}
    while (await browser.shop.control("POST", "/clock", decade)).status == 200:
        pass
    page = await browser.post("/clock", step="other", seconds=decade["advance"])
    assert page.status == 422
    assert "after the year 9999</small>" in page.text
