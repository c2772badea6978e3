"""A refused form shows each error beside its field, and loses no input."""

from typing import Any

import pytest

from backhaul_reference.dashboard.forms import field_of, flaws_of, sentence
from backhaul_reference.platform.problems import Flaw, Problem, invalid
from reference_dashboard.conftest import Browser


@pytest.mark.parametrize(
    ("pointer", "name"),
    [
        ("/title", "title"),
        ("/rates/2/price", "price2"),
        ("/customer/email", "email"),
        ("/shippingAddress/country", "country"),
        ("/totals/shipping", "shipping"),
        ("/tags/3", "tags"),
        ("/paymentSettings/cod/fee", "codFee"),
        ("/paymentSettings/customQr/instructions", "qrInstructions"),
        ("", ""),
    ],
)
def test_which_field_is_meant(pointer: str, name: str) -> None:
    assert field_of(pointer) == name


@pytest.mark.parametrize(
    ("name", "code", "detail", "told"),
    [
        ("title", "REQUIRED", "Field required", "Fill this in"),
        ("stock", "WRONG_TYPE", "Input should be a valid integer", "whole number"),
        ("country", "BAD_FORMAT", "String should match pattern '^[A-Z]{2}$'", "IN"),
        ("country7", "BAD_FORMAT", "String should match pattern 'x'", "two letters"),
        ("n", "TOO_BIG", "Input should be less than or equal to 9", "Must be less"),
        ("price", "BAD_MONEY", "must be a plain decimal", "like 1499.00"),
        ("price", "BAD_MONEY", "has more than 2 fraction digits", "like 1499.00"),
        ("endsAt", "OUT_OF_RANGE", "it ends before it starts", "It ends before"),
    ],
)
def test_each_problem_is_described_in_a_sentence(
    name: str, code: str, detail: str, told: str
) -> None:
    found = sentence(name, code, detail)
    assert told in found
    assert "should" not in found
    assert "pattern" not in found


def test_a_value_in_use_is_reported_at_its_field() -> None:
    found = flaws_of(Problem(409, "EMAIL_TAKEN", "another customer has it"))
    assert list(found) == ["email"]
    short = [{"pointer": "/items/1", "available": 3}]
    found = flaws_of(Problem(409, "OUT_OF_STOCK", "not enough", items=short))
    assert found == {"quantity1": "Only 3 left"}
    both = [Flaw("/a", "X", "first"), Flaw("/a", "Y", "second")]
    assert flaws_of(invalid(both)) == {"a": "First"}


SETTINGS = {"storeName": "S", "country": "IN", "locale": "en", "timezone": "UTC"}
DISCOUNT = {"code": "X", "type": "PERCENTAGE", "value": "5"}
ITEM = {"title": "M", "label0": "A", "leads0": "URL", "address0": "https://a.example"}
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("/new-product", {"title": "Lamp", "price": "1.999"}, "price", "amount"),
    ("/new-product", {"title": "Lamp", "price": "1", "stock": "-1"}, "stock", "Must"),
    ("/new-customer", {"name": "Asha"}, "email", "Email or phone is required"),
    ("/new-customer", {"email": "a@b.example", "country0": "India"}, "country0", "two"),
    ("/new-discount", {**DISCOUNT, "value": "101"}, "value", "at most 100"),
    ("/new-discount", {**DISCOUNT, "endsAt": "soon"}, "endsAt", "a date and a time"),
    ("/new-collection", {"title": "X", "handle": "A b"}, "handle", "small letters"),
    ("/new-zone", {"name": "X", "rate1": "P", "price1": "a"}, "price1", "amount"),
    (
        "/new-zone",
        {
            "name": "X",
            "rate0": "P",
            "price0": "1",
            "minSubtotal0": 9,
            "maxSubtotal0": 1,
        },
        "maxSubtotal0",
        "Must not be below",
    ),
    ("/settings", {**SETTINGS, "country": ""}, "country", "Fill this in"),
    (
        "/settings",
        {**SETTINGS, "timezone": "Nowhere"},
        "timezone",
        "Must be a time zone",
    ),
    ("/settings", {**SETTINGS, "trackingPage": "x"}, "trackingPage", "{token}"),
    ("/settings", {**SETTINGS, "merchantEmail": "x"}, "merchantEmail", "email"),
    ("/payments", {"codFee": "-1"}, "codFee", "amount"),
    ("/api/keys", {"name": "Till"}, "scopes", "at least one scope"),
    ("/api/webhooks", {"address": "ftp://x", "topics": "orders/create"}, "address", ""),
    ("/faults", {"fault": "5xx", "status": "200"}, "status", "Must"),
    ("/faults", {"fault": "5xx", "probability": "2"}, "probability", "Must"),
    ("/quirks", {"tracking-fields": "a"}, "tracking-fields", "two different names"),
    ("/fixtures", {"fixture": "empty"}, "sure", "Tick the box"),
    (
        "/new-store",
        {"storeName": "X", "subdomain": "-", "currency": "INR"},
        "subdomain",
        "",
    ),
    (
        "/new-store",
        {"storeName": "X", "subdomain": "demo", "currency": "INR"},
        "subdomain",
        "Another store",
    ),
    ("/navigation", {"title": "X", "handle": "main-menu"}, "handle", "Something else"),
    ("/navigation/main-menu", ITEM | {"order0": "first"}, "order0", "whole number"),
    ("/new-product", {"title": "Lamp", "price": "1", "stock": "1_0"}, "stock", "whole"),
    ("/clock", {"seconds": "-5"}, "seconds", "Must"),
]


@pytest.mark.parametrize(("path", "form", "name", "told"), REFUSED)
async def test_a_refused_form(
    browser: Browser, path: str, form: dict[str, Any], name: str, told: str
) -> None:
    page = await browser.post(path, **form)
    assert page.status in (409, 422)
    assert f'href="#field-{name}"' in page.text
    flaw = page.text.partition(f'id="field-{name}-flaw">')[2].partition("</small>")[0]
    assert flaw
    assert told in flaw
    for typed in form.values():
        assert str(typed) in page.text


async def test_stock_that_runs_short_is_reported_in_its_row(browser: Browser) -> None:
    product = await browser.shop.product(stock=2)
    variant = product["variants"][0]["id"]
    page = await browser.post("/new-order", name="Asha", variant2=variant, quantity2=3)
    assert page.status == 409
    assert 'id="field-quantity2-flaw">Only 2 left<' in page.text
    assert 'id="field-quantity0-flaw"' not in page.text


async def test_another_form_of_the_page_is_left_alone(browser: Browser) -> None:
    order = await browser.shop.order(await browser.shop.product())
    line = order["items"][0]["id"]
    path = f"/orders/{order['id']}"
    form = {f"q-{line}": "many", "trackingCompany": "BlueDart"}
    page = await browser.post(path + "/fulfill", **form)
    assert page.status == 422
    assert f'id="field-q-{line}-flaw">Must be a whole number<' in page.text
    assert 'value="BlueDart"' in page.text
    cancelling = page.text.partition(path + "/cancel")[2]
    assert 'name="restock" value="on" checked' in cancelling
