"""The store's settings, the payment code, faults and the clock."""

import io

import aiohttp

from reference_dashboard.conftest import STORE, Browser, Page

STAYS = {"storeName": "New", "country": "IN", "locale": "en", "timezone": "UTC"}
PNG = b"\x89PNG\r\n\x1a\n"


async def test_settings(browser: Browser) -> None:
    form = {"accountMode": "REQUIRED", "codConfirmation": "on"}
    assert (await browser.post("/settings", **STAYS, **form)).status == 303
    shown = (await browser.shop.control("GET", "/stores/demo")).data
    assert shown["storeName"] == "New"
    assert shown["customerAccounts"]["mode"] == "REQUIRED"
    assert shown["codConfirmation"] is True
    assert shown["active"] is False


async def upload(browser: Browser, content: bytes, kind: str = "image/png") -> Page:
    form = aiohttp.FormData({"csrf": browser.csrf, "qrEnabled": "on", "qrFee": "2.50"})
    file = io.BytesIO(content)
    form.add_field("qrFile", file, filename="code.png", content_type=kind)
    return await browser.ask("POST", STORE + "/payments", data=form)


async def test_the_payment_code(browser: Browser) -> None:
    assert (await upload(browser, PNG)).status == 303
    shown = (await browser.shop.control("GET", "/stores/demo")).data
    method = shown["paymentSettings"]["customQr"]
    assert method["qr"].startswith("data:image/png;base64,")
    assert (method["enabled"], method["fee"]) == (True, "2.50")
    assert (await upload(browser, PNG + bytes(140_000))).status == 422
    assert (await upload(browser, b"<svg/>", "image/svg+xml")).status == 422
    assert (await browser.post("/payments", qrEnabled="on")).status == 303
    kept = (await browser.shop.control("GET", "/stores/demo")).data
    assert kept["paymentSettings"]["customQr"]["qr"] == method["qr"]


async def test_faults(browser: Browser) -> None:
    assert (await browser.post("/faults", fault="5xx", count=1)).status == 303
    assert (await browser.shop.v1("GET", "/orders")).status == 503
    assert (await browser.shop.v1("GET", "/orders")).status == 200
    page = await browser.post("/faults", fault="duplicate", probability="2")
    assert page.status == 422
    assert (await browser.post("/faults/disarm")).status == 303
    assert "Everything works" in (await browser.get(STORE + "/faults")).text


async def test_the_clock(browser: Browser) -> None:
    assert (await browser.post("/clock", step="week")).status == 303
    clock = (await browser.shop.control("GET", "/clock")).data
    assert clock["aheadSeconds"] == 604800
    assert (await browser.post("/clock", step="freeze")).status == 303
    assert (await browser.shop.control("GET", "/clock")).data["frozen"] is True
    assert (await browser.post("/clock", seconds=-5)).status == 422
