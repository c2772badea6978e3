"""Shipping: which zone covers an address, its price, and its quotes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_reference.platform.state.shipping import cheapest, zip_matches
from scenes.merchant import ONE, QUOTE, address, buy, quote, zones
from scenes.reference_shop import Shop


@pytest.mark.parametrize(
    ("pattern", "code", "matches"),
    [
        ("411001", "411001", True),
        ("411001", "411002", False),
        ("411001", "41100", False),
        ("SW1A 1AA", "sw1a 1aa", True),
        (" 411001 ", "411001", True),
        ("12*", "12", True),
        ("12*", "12345", True),
        ("12*", "1", False),
        ("12*", "x12", False),
        ("ab*", "ABC", True),
        ("*", "", True),
        ("100...200", "100", True),
        ("100...200", "200", True),
        ("100...200", "99", False),
        ("100...200", "201", False),
        ("100...200", "150a", False),
        ("100...200", "", False),
        ("100...200", "\u0661\u0665\u0660", False),
        ("1.2", "1x2", False),
    ],
)
def test_zip_patterns(pattern: str, code: str, matches: bool) -> None:
    assert zip_matches(pattern, code) is matches


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_ranges_contain_the_values_between(low: int, high: int, code: int) -> None:
    assert zip_matches(f"{low}...{high}", str(code)) == (low <= code <= high)


words = st.text("abcXYZ019 -", min_size=1).filter(lambda text: text == text.strip())


@given(words, words)
def test_a_star_is_a_prefix_and_a_plain_pattern_is_the_whole(a: str, b: str) -> None:
    assert zip_matches(a + "*", (a + b).swapcase())
    assert zip_matches(a, a)
    assert zip_matches(a, b) == (a.casefold() == b.casefold())


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))))
def test_the_cheapest_applicable_rate(rates: list[tuple[int, int, int]]) -> None:
    stored = [
        {"price": price, "minSubtotal": low, "maxSubtotal": high}
        for price, low, high in rates
    ]
    fitting = [price for price, low, high in rates if low <= 50 <= high]
    assert cheapest(stored, 50) == min(fitting, default=None)


IN_PUNE = {"country": "IN", "province": "MH", "city": "Pune", "zip": "411001"}


@pytest.mark.parametrize(
    ("zone", "covered"),
    [
        ({}, True),
        ({"countries": ["IN"]}, True),
        ({"countries": ["in", "US"]}, True),
        ({"countries": ["US"]}, False),
        ({"provinces": ["mh"]}, True),
        ({"provinces": ["M"]}, False),
        ({"cities": ["PUNE"]}, True),
        ({"cities": ["Mumbai"]}, False),
        ({"zips": ["400...420", "41*"]}, True),
        ({"zips": ["40*"]}, False),
        ({"countries": ["IN"], "cities": ["Mumbai"]}, False),
        ({"countries": ["IN"], "provinces": ["MH"], "zips": ["411001"]}, True),
    ],
)
async def test_a_zone_covers_by_all_its_patterns(
    shop: Shop, zone: dict[str, Any], covered: bool
) -> None:
    await zones(shop, zone)
    reply = await quote(shop, address=IN_PUNE)
    expected = (
        {"total": "1.00", "currency": "INR"} if covered else {"unavailable": True}
    )
    assert (reply.status, reply.body) == (200, expected)


async def test_the_first_zone_that_matches_decides(shop: Shop) -> None:
    """Even if it has no rate and another zone would."""
    dear = [{"name": "Dear", "price": "9", "minSubtotal": "500"}]
    await zones(
        shop, {"priority": 5}, {"priority": 2, "countries": ["IN"], "rates": dear}
    )
    assert (await quote(shop)).body == {"unavailable": True}
    elsewhere = {"country": "US"}
    assert (await quote(shop, address=elsewhere)).body["total"] == "1.00"
    await zones(shop)
    assert (await quote(shop)).body == {"unavailable": True}


@pytest.mark.parametrize(
    ("price", "total"),
    [("50.00", "20.00"), ("50.01", "5.00"), ("100.00", "5.00"), ("100.01", "0.00")],
)
async def test_rates_apply_by_the_prices_sent(
    shop: Shop, price: str, total: str
) -> None:
    rates = [
        {"name": "Always", "price": "20"},
        {"name": "Above", "price": "5", "minSubtotal": "100.02"},
        {"name": "Free", "price": 0, "minSubtotal": "200.01", "maxSubtotal": "1000"},
    ]
    await zones(shop, {"rates": rates})
    items = [{"productId": "prod_any", "quantity": 2, "price": price}]
    assert (await quote(shop, items=items)).body["total"] == total


async def test_which_store_is_quoted(shop: Shop) -> None:
    await shop.control("POST", "/stores", {"subdomain": "other", "currency": "JPY"})
    other = (await shop.shopper("GET", "/store", store="other")).data["id"]
    assert (await quote(shop)).status == 200
    assert (await quote(shop, store="demo")).status == 200
    yen = [{"productId": "p", "quantity": 1, "price": "1500"}]
    found = await quote(shop, storeId=other, items=yen)
    assert found.body == {"total": "0", "currency": "JPY"}
    for store, body in (
        ("demo", {"storeId": other, "items": yen}),
        ("other", {}),
        ("nothing", {}),
        ("", {"storeId": "sto_nothing"}),
    ):
        reply = await quote(shop, store=store, **body)
        assert (reply.status, reply.code) == (404, "STORE_NOT_FOUND")
    await shop.settings(active=False)
    assert (await quote(shop)).status == 404


@pytest.mark.parametrize(
    ("member", "value", "pointers"),
    [
        ("storeId", 1, {"/storeId"}),
        ("items", [], {"/items"}),
        ("items", [{}], {"/items/0/productId", "/items/0/quantity", "/items/0/price"}),
        ("items", [{"productId": "p", "quantity": 0, "price": "x"}],
         {"/items/0/quantity", "/items/0/price"}),
        ("address", {}, {"/address/country"}),
        ("address", {"country": "India"}, {"/address/country"}),
    ],
)  # fmt: skip
async def test_bad_quotes(
    shop: Shop, member: str, value: Any, pointers: set[str]
) -> None:
    reply = await quote(shop, **{member: value})
    assert reply.status == 422
    assert {one["pointer"] for one in reply.body["errors"]} == pointers


async def test_quotes_accept_json_objects_only(shop: Shop) -> None:
    url = shop.running.access.public_url + QUOTE
    text = {"Content-Type": "text/plain"}
    assert (await shop.ask("POST", url, text, data=b"{}")).status == 415
    assert (await shop.ask("POST", url, {}, json=[])).code == "INVALID_JSON"
    assert (await shop.ask("GET", url, {})).status == 405


async def test_a_repeated_key_repeats_the_quote(shop: Shop) -> None:
    url, body = (
        shop.running.access.public_url + QUOTE,
        {
            "storeId": shop.running.access.store_id,
            "items": [{"productId": "p", "quantity": 1, "price": "1"}],
            "address": {"country": "IN"},
        },
    )
    headers = {"Idempotency-Key": "k"}
    first = await shop.ask("POST", url, headers, json=body)
    await zones(shop)
    again = await shop.ask("POST", url, headers, json=body)
    assert again.body == first.body == {"total": "0.00", "currency": "INR"}
    assert again.headers["Idempotency-Replayed"] == "true"


async def test_placement_quotes_again_from_the_catalogue(shop: Shop) -> None:
    rates = [
        {"name": "R", "price": "30"},
        {"name": "F", "price": "0", "minSubtotal": "200"},
    ]
    await zones(shop, {"rates": rates, "cities": ["Pune"]})
    product = await shop.product()
    one, two = await buy(shop, product, 1), await buy(shop, product, 2)
    assert one.data["totals"]["shipping"] == "30.00"
    assert two.data["totals"]["shipping"] == "0.00"
    reply = await buy(shop, product, shippingAddress=address(city="Goa"))
    assert (reply.status, reply.code) == (409, "SHIPPING_UNAVAILABLE")


async def test_zones_are_kept_and_changed(shop: Shop) -> None:
    body = {
        "name": "West",
        "priority": 3,
        "countries": ["in"],
        "zips": ["40*"],
        "rates": [{"name": "R", "price": "30", "maxSubtotal": "99.5"}],
    }
    made = (await shop.control("POST", f"{ONE}/zones", body)).data
    rate = {"name": "R", "price": "30.00", "minSubtotal": None, "maxSubtotal": "99.50"}
    assert made == {
        **body,
        "id": made["id"],
        "countries": ["IN"],
        "provinces": [],
        "cities": [],
        "rates": [rate],
    }
    path = f"{ONE}/zones/{made['id']}"
    changed = (await shop.control("PUT", path, {"priority": 1})).data
    assert changed == {**made, "priority": 1}
    listed = (await shop.control("GET", f"{ONE}/zones")).data
    assert [one["name"] for one in listed] == ["Everywhere", "West"]
    assert (await shop.control("DELETE", path)).data == {
        "id": made["id"],
        "deleted": True,
    }
    assert (await shop.control("GET", path)).code == "ZONE_NOT_FOUND"


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"zips": ["2...1"]}, "/zips/0"),
        ({"zips": ["a...b"]}, "/zips/0"),
        ({"zips": ["1*2"]}, "/zips/0"),
        ({"zips": ["ok", ""]}, "/zips/1"),
        ({"countries": ["IND"]}, "/countries/0"),
        ({"priority": -1}, "/priority"),
        ({"rates": [{"name": "R", "price": "-1"}]}, "/rates/0/price"),
        ({"rates": [{"name": "R", "price": 1, "minSubtotal": 2, "maxSubtotal": 1}]},
         "/rates/0"),
    ],
)  # fmt: skip
async def test_bad_zones(shop: Shop, values: dict[str, Any], pointer: str) -> None:
    body = {"name": "Z", "rates": [], **values}
    reply = await shop.control("POST", f"{ONE}/zones", body)
    assert reply.status == 422
    assert [one["pointer"] for one in reply.body["errors"]] == [pointer]
