"""Input of fuzzers is refused, and never causes a server error."""

import asyncio
from contextlib import suppress
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from backhaul_reference.platform import formats, money
from backhaul_reference.platform.json_codec import decode_object, encode
from backhaul_reference.platform.problems import Problem
from scenes.reference_shop import Shop, cart

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"a":NaN}', 400),
        (b'{"a":Infinity}', 400),
        (b'{"title":"\\ud800"}', 400),
        (b'{"title":"\xff"}', 400),
        (b'{"a":' * 3000 + b"1" + b"}" * 3000, 400),
        (b'{"a":' * 70 + b"1" + b"}" * 70, 400),
        (b'{"title":"a\\u0000b","price":"1"}', 422),
        (b'{"title":"T","price":"1","stock":99999999999999999999999}', 422),
        (b'{"title":"T","price":"1","stock":1e400}', 422),
        (b'{"title":"T","price":"1","stock":true}', 422),
        (b'{"title":"T","price":' + b"9" * 4000 + b"}", 422),
        (b'{"title":1.5,"price":"1"}', 422),
        (b'{"title":"' + b"x" * (1024 * 1024) + b'"}', 413),
    ],
)
async def test_broken_bodies(shop: Shop, raw: bytes, status: int) -> None:
    reply = await shop.v1("POST", "/products", data=BytesIO(raw), headers=JSON)
    assert reply.status == status
    assert reply.headers["Content-Type"].startswith("application/problem+json")
    assert reply.body["requestId"] == reply.headers["X-Request-Id"]
    assert reply.body["status"] == status


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=-1",
        "page=1000000000",
        "page=" + "9" * 400,
        "page=1.0",
        "page=%D9%A3",
        "page=",
        "limit=101",
        "limit=0",
        "updatedSince=yesterday",
        "updatedSince=0001-01-01T00:00:00%2B14:00",
        "updatedSince=9999-12-31T23:59:59-14:00",
        "updatedSince=2024-01-01",
        "sort=price",
        "search=" + "x" * 201,
    ],
)
async def test_broken_queries(shop: Shop, query: str) -> None:
    reply = await shop.v1("GET", f"/products?{query}")
    assert (reply.status, reply.code) == (422, "VALIDATION_ERROR")


async def test_odd_but_harmless_queries(shop: Shop) -> None:
    for query in (
        "page=1&page=2",
        "unknown=1",
        "search=%00",
        "search=%FF",
        "page=1000000",
    ):
        assert (await shop.v1("GET", f"/products?{query}")).status == 200


@pytest.mark.parametrize("name", ["a%2Fb", "%00", "%FF", "x" * 3000, "'", "%", "ord_%"])
async def test_odd_ids_are_unknown(shop: Shop, name: str) -> None:
    for path in ("/products/", "/orders/", "/inventory/", "/customers/", "/webhooks/"):
        assert (await shop.v1("GET", path + name)).status == 404


async def test_encoded_bodies_are_not_unpacked(shop: Shop) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    reply = await shop.v1("POST", "/products", data=b"\x1f\x8b", headers=headers)
    assert reply.status == 415


@pytest.mark.parametrize("member", ["items", "customer", "shippingAddress"])
@pytest.mark.parametrize("value", [None, True, 1, "x", [], {}, [None], [[]]])
async def test_wrong_types_in_orders(shop: Shop, member: str, value: Any) -> None:
    body = cart({"id": "p", "variants": [{"id": "v"}]})
    reply = await shop.shopper("POST", "/orders", {**body, member: value})
    assert reply.status == 422
    assert all(one["pointer"].startswith(f"/{member}") for one in reply.body["errors"])


async def test_an_order_beyond_all_money_is_refused(shop: Shop) -> None:
    price = "999999999999.00"
    line = {"title": "Gold", "quantity": 1_000_000, "price": price}
    refused = await shop.v1("POST", "/orders", {"items": [line] * 500})
    product = await shop.product(stock=100_000, price=price)
    lines = cart(product, 999)["items"] * 2
    many = await shop.shopper("POST", "/orders", cart(product, items=lines))
    for reply in (refused, many):
        assert (reply.status, reply.code) == (409, "TOTAL_LIMIT_EXCEEDED")
    assert (await shop.v1("GET", "/orders")).data == []


async def first_line(url: str, request: bytes) -> bytes:
    """Send bytes that no client would, and answer the first line of the answer."""
    address = URL(url)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize(
    ("side", "path", "header", "status"),
    [
        ("public", b"/api/v1/products", b"Authorization: Bearer \xff", b"401"),
        ("public", b"/api/v1/products", b"X-Service-Access-Token: \xff", b"401"),
        ("control", b"/_control/stores", b"Authorization: Bearer \xff", b"401"),
        ("control", b"/dashboard", b"Cookie: backhaul_reference_session=\xff", b"303"),
        ("control", b"/dashboard/login", b"Cookie: backhaul_login=\xff", b"403"),
    ],
)
async def test_secrets_that_are_no_text_are_refused(
    shop: Shop, side: str, path: bytes, header: bytes, status: bytes
) -> None:
    access = shop.running.access
    url = access.public_url if side == "public" else access.control_url
    method = b"POST " if path.endswith(b"login") else b"GET "
    asked = method + path + b" HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n"
    assert (await first_line(url, asked)).split()[1] == status


async def test_a_form_in_an_unknown_charset_is_read_in_the_expected_one(
    shop: Shop,
) -> None:
    """It is refused for its token, then, or else for the letters that are none."""
    kind = b"application/x-www-form-urlencoded; charset=nope"
    asked = b"POST /dashboard/login HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    asked += b"Content-Type: " + kind + b"\r\n\r\ncsrf="
    url = shop.running.access.control_url
    assert (await first_line(url, asked)).split()[1] == b"403"


async def test_a_request_that_is_no_http_is_refused_without_a_failure(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    url = URL(shop.running.access.public_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Null: \x00\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"400"
    await reader.read()
    writer.close()
    assert "method=UNKNOWN route=- status=400" in caplog.text
    assert "Unhandled exception" not in caplog.text


@pytest.mark.parametrize("line", [b"GET %s HTTP/1.1", b"GET %s\xff HTTP/1.1", b"%s"])
async def test_a_line_that_cannot_be_read_is_not_logged(
    shop: Shop, caplog: pytest.LogCaptureFixture, line: bytes
) -> None:
    asked = line % b"/storefront/orders/track/3a5f0c" + b"\r\n: x\r\n\r\n"
    assert b" 400 " in await first_line(shop.running.access.public_url, asked)
    assert "3a5f0c" not in caplog.text
    assert "error=" in caplog.text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.binary() | json_values.map(lambda value: repr(value).encode()))
def test_reading_json_never_fails_otherwise(raw: bytes) -> None:
    with suppress(Problem):
        assert isinstance(decode_object(raw), dict)


@given(st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**63 - 1)))
def test_written_values_read_back(document: dict[str, Any]) -> None:
    assert decode_object(encode(document)) == document


@given(st.data(), st.sampled_from([0, 2, 3]))
def test_money_round_trip(data: st.DataObject, exponent: int) -> None:
    largest = 10 ** (money.WHOLE_DIGITS + exponent) - 1
    minor = data.draw(st.integers(0, largest))
    assert money.to_minor(money.to_text(minor, exponent), exponent) == minor


@given(st.text() | st.integers() | st.decimals() | st.booleans())
def test_money_is_read_or_refused(value: Any) -> None:
    with suppress(ValueError):
        assert 0 <= money.to_minor(value, 2) <= money.MAX_MINOR


@given(st.integers(0, formats.MAX_MS))
def test_instants_round_trip(ms: int) -> None:
    assert formats.from_text(formats.to_text(ms)) == ms


SCRIPTS = (
    "javascript:alert(1)",
    " javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "data:image/png",
    "vbscript:x",
    "//evil.example/x.png",
    "logo.png",
    "https://",
    "file:///etc/passwd",
)


@pytest.mark.parametrize("address", SCRIPTS)
async def test_an_address_that_a_page_shows_is_one_of_a_picture(
    shop: Shop, address: str
) -> None:
    path = "/stores/demo/settings"
    assert (await shop.control("PUT", path, {"logo": address})).status == 422
    picture = {"title": "T", "price": "1", "images": [{"url": address}]}
    assert (await shop.v1("POST", "/products", picture)).status == 422
    order = await shop.order(await shop.product())
    tracking = {"trackingNumber": "JD1", "trackingUrl": address}
    fulfilled = await shop.v1("POST", f"/orders/{order['id']}/fulfill", tracking)
    assert fulfilled.status == 422


@pytest.mark.parametrize(
    "address", ["https://cdn.example/l.png", "data:image/png;base64,iVBORw0KGgo="]
)
async def test_a_logo_is_shown(shop: Shop, address: str) -> None:
    await shop.settings(logo=address)
    assert (await shop.shopper("GET", "/store")).data["logo"] == address


async def test_a_logo_kept_from_before_is_not_shown(shop: Shop) -> None:
    await shop.settings(logo="https://cdn.example/l.png")
    old = "UPDATE store SET logo = 'javascript:alert(1)'"
    await shop.running.platform.writer.run(lambda tx: tx.run(old))
    assert (await shop.shopper("GET", "/store")).data["logo"] is None
