"""Unreadable form input is reported beside its field, and the rest is kept."""

from io import BytesIO
from typing import Any

import aiohttp
import pytest

from reference_dashboard.conftest import STORE, Browser, Page
from reference_dashboard.forms_shown import Reading, Shown
from reference_dashboard.pages import PAGES, filled, scene

UNREADABLE = "\ufffd"
STRANGE = ("abc", "9" * 40, UNREADABLE)
BLANK = {
    "title": "Lamp",
    "price": "5",
    "name": "Asha",
    "email": "a@b.example",
    "code": "X1",
    "amount": "1",
    "storeName": "S",
    "subdomain": "s9",
    "handle": "hh",
    "address": "http://127.0.0.1:9/",
    "rate0": "P",
    "price0": "1",
    "seconds": "1",
}
"""What a person would type where a form is empty and must not be."""
TAKEN, REFUSED = {200, 303}, {409, 422}


async def every_form(browser: Browser) -> dict[str, Shown]:
    """Return each form of the dashboard into which something is typed."""
    ids = await scene(browser)
    found: dict[str, Shown] = {}
    for path, kind in PAGES.items():
        page = await browser.get(filled(path, ids, kind))
        assert page.status == 200, path
        found |= Reading(page.text).forms
    for form in found.values():
        for name in BLANK.keys() & form.values.keys():
            form.values[name] = [form.values[name][0] or BLANK[name]]
    return {action: form for action, form in found.items() if form.typed}


def complaint(page: Page, action: str, name: str, typed: str) -> str:
    """Return what is wrong with an answer to something strange, if anything.

    An order that was shipped has no form to be shipped with any more.
    """
    if page.status in TAKEN and typed != UNREADABLE:
        return ""
    if page.status not in REFUSED:
        return f"{name} = {typed:.9}: {page.status}"
    if typed not in page.text and f'action="{action}"' in page.text:
        return f"{name} = {typed:.9}: it is lost"
    is_named = f'href="#field-{name}"' in page.text
    return "" if is_named or typed != UNREADABLE else f"{name}: it is not named"


async def test_nothing_strange_that_is_typed_is_lost_or_breaks_a_page(
    browser: Browser,
) -> None:
    forms = await every_form(browser)
    assert len(forms) > 20
    wrong = []
    for action, form in forms.items():
        path = action.removeprefix(STORE)
        for name in form.typed:
            for typed in STRANGE:
                values = {**form.values, name: [typed]}
                del values["csrf"]
                page = await browser.post(path, **values)
                if told := complaint(page, action, name, typed):
                    wrong.append(f"{path}: {told}")
    assert wrong == []


async def send(browser: Browser, path: str, body: bytes, kind: str) -> Page:
    return await browser.ask(
        "POST", STORE + path, data=BytesIO(body), headers={"Content-Type": kind}
    )


URLENCODED = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"title=Lamp\xe9&price=12.50", URLENCODED),
        (b"title=Lamp%E9&price=12.50", URLENCODED),
        (b"title=Lamp\xe9&price=12.50", f"{URLENCODED}; charset=nonsense"),
    ],
)
async def test_another_encoding_is_reported_beside_its_field(
    browser: Browser, body: bytes, kind: str
) -> None:
    token = f"&csrf={browser.csrf}".encode()
    page = await send(browser, "/new-product", body + token, kind)
    assert page.status == 422
    assert 'href="#field-title"' in page.text
    assert f'value="Lamp{UNREADABLE}"' in page.text
    assert 'value="12.50"' in page.text
    assert (await browser.shop.v1("GET", "/products?search=lamp")).data == []


@pytest.mark.parametrize(
    "body",
    [
        b"--x\r\n",
        b"no boundary at all",
        b"--x\r\n\r\nnameless\r\n--x--\r\n",
        b"--x\r\n" + b"A: b\r\n" * 5_000,
        b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n\xff\r\n--x--\r\n',
    ],
    ids=range(5),
)
async def test_a_body_that_is_no_form_is_answered_by_the_page(
    browser: Browser, body: bytes
) -> None:
    kind = "multipart/form-data; boundary=x"
    page = await send(browser, "/payments", body, kind)
    assert (page.status, "INVALID_FORM" in page.text) == (400, True)
    assert 'name="codFee"' in page.text


def payments(browser: Browser, picture: bytes) -> aiohttp.FormData:
    form = aiohttp.FormData({"csrf": browser.csrf, "codInstructions": "Have change"})
    form.add_field(
        "qrFile", BytesIO(picture), filename="qr.png", content_type="image/png"
    )
    return form


async def test_a_picture_that_is_too_large_is_reported_beside_its_field(
    browser: Browser,
) -> None:
    sent: dict[str, Any] = {"data": payments(browser, bytes(5_000_000))}
    page = await browser.ask("POST", STORE + "/payments", **sent)
    assert page.status == 422
    assert 'id="field-qrFile-flaw">Must be at most 140 kB<' in page.text
    assert ">Have change</textarea>" in page.text


async def test_a_body_that_is_far_too_large_is_answered_by_the_page(
    browser: Browser,
) -> None:
    page = await send(browser, "/payments", b"codFee=" + b"9" * (17 << 20), URLENCODED)
    assert (page.status, "larger than 16 MiB" in page.text) == (413, True)
    assert "go back to what you typed" in page.text
    assert 'name="codFee"' in page.text


async def test_an_object_deleted_meanwhile_keeps_the_typed_text(
    browser: Browser,
) -> None:
    product = await browser.shop.product()
    form = {"variantId": "var_gone", "amount": 7, "note": "Found some", "how": "add"}
    page = await browser.post(f"/products/{product['id']}/stock", **form)
    assert (page.status, "VARIANT_NOT_FOUND" in page.text) == (404, True)
    assert 'value="7"' in page.text
    assert 'value="Found some"' in page.text
