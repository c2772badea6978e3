"""The retirement of v1 is announced a year ahead in every response (contract 1.1)."""

from email.utils import parsedate_to_datetime

import pytest

from backhaul_reference.platform import formats
from scenes.reference_shop import Shop

DAY_MS = 24 * 3600 * 1000
PATH = "/retirement"


async def in_days(shop: Shop, days: int) -> str:
    now = (await shop.control("POST", "/clock", {"freeze": True})).data["now"]
    return formats.to_text(formats.from_text(now) + days * DAY_MS)


async def test_no_version_is_deprecated_by_default(shop: Shop) -> None:
    reply = await shop.v1("GET", "/store")
    assert not {"Deprecation", "Sunset"} & set(reply.headers)
    nothing = {"deprecatedAt": None, "sunsetAt": None}
    assert (await shop.control("GET", PATH)).data == nothing


async def test_every_answer_of_v1_names_its_sunset(shop: Shop) -> None:
    ends = await in_days(shop, 365)
    told = (await shop.control("PUT", PATH, {"sunsetAt": ends})).data
    assert told == {"deprecatedAt": await in_days(shop, 0), "sunsetAt": ends}
    for path, key in (("/store", ""), ("/orders/ord_x", ""), ("/store", "nobody")):
        headers = (await shop.v1("GET", path, key=key)).headers
        announced = formats.from_text(told["deprecatedAt"]) // 1000
        assert headers["Deprecation"] == f"@{announced}"
        moment = parsedate_to_datetime(headers["Sunset"])
        assert moment.timestamp() == formats.from_text(ends) // 1000
        assert headers["Sunset"].endswith(" GMT")
    assert "Sunset" not in (await shop.shopper("GET", "/store")).headers


@pytest.mark.parametrize("way", ["DELETE", "reset"])
async def test_a_sunset_can_be_withdrawn(shop: Shop, way: str) -> None:
    await shop.control("PUT", PATH, {"sunsetAt": await in_days(shop, 400)})
    if way == "DELETE":
        await shop.control("DELETE", PATH)
    else:
        await shop.control("POST", "/reset")
    assert "Sunset" not in (await shop.v1("GET", "/store")).headers


async def test_a_sunset_within_a_year_is_refused(shop: Shop) -> None:
    for body in ({"sunsetAt": await in_days(shop, 364)}, {"sunsetAt": "soon"}, {}):
        reply = await shop.control("PUT", PATH, body)
        assert reply.status == 422
        assert reply.body["errors"][0]["pointer"] == "/sunsetAt"
    assert "Sunset" not in (await shop.v1("GET", "/store")).headers


async def test_only_the_merchant_may(shop: Shop) -> None:
    url = f"{shop.running.access.control_url}/_control{PATH}"
    for method in ("GET", "PUT", "DELETE"):
        assert (await shop.ask(method, url, {})).status == 401
