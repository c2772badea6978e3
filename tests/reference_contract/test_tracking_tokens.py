"""No tracking token is in a log, a body or a database where it must not be."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from reference_contract.moves import (
    TRACKING,
    cancel,
    fulfill,
    placed,
    report,
    settle,
    track,
)
from scenes.merchant import idle_outbox, scan_and_pay
from scenes.reference_shop import Receiver, Shop, cart, open_shop, subscribe

LISTS = ("/orders", "/customers", "/webhooks", "/inventory/history")
PRIVATE = {
    "Cache-Control": "no-store",
    "X-Robots-Tag": "noindex, nofollow",
    "Referrer-Policy": "no-referrer",
}
LETTERS = "mails"
"""The folder of the letters themselves: the buyer's is where the token belongs."""


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """All that is logged, by whatever means."""
    lines: list[str] = []
    sink = logger.add(lines.append, level=0, format="{message} {extra} {exception}")
    caplog.set_level(logging.DEBUG)
    yield lines
    lines += [record.getMessage() for record in caplog.records]
    logger.remove(sink)


async def one_order(shop: Shop, product: Any, number: int) -> Any:
    """An order with a life of its own, placed twice with one key."""
    body = cart(product, paymentMethod="CUSTOM_QR" if number % 2 else "COD")
    key = {"Idempotency-Key": f"k{number}"}
    order = (await shop.shopper("POST", "/orders", body, headers=key)).data
    again = (await shop.shopper("POST", "/orders", body, headers=key)).data
    assert again["trackingToken"] == order["trackingToken"]
    await report(shop, order)
    if number % 3:
        await settle(shop, order, "mark-paid")
        await fulfill(shop, order, **TRACKING)
    await cancel(shop, order, restock=True)
    return order


async def clumsy(shop: Shop, order: Any) -> None:
    """A token where none is asked for, and a link that goes wrong."""
    token = order["trackingToken"]
    link = f"/orders/track/{token}"
    await track(shop, order)
    for path in (link + "/nothing", link + "x", link + "?a=b", f"/products/{token}"):
        await shop.shopper("GET", path, headers={"Referer": link})
    await shop.shopper("DELETE", link)
    await shop.shopper("POST", link + "/payment", {})
    await shop.shopper("POST", link + "/payment", data=b"{broken")
    await shop.shopper("GET", link, store="nobody")
    await shop.v1("GET", f"/orders/{token}")
    await shop.v1("GET", "/orders", headers={"Idempotency-Key": token})


async def lived(shop: Shop, receiver: Receiver) -> tuple[list[str], list[Any]]:
    """Run every flow; answers the tokens, and all that may not show one."""
    await subscribe(shop, receiver)
    await scan_and_pay(shop)
    await shop.settings(merchantEmail="me@shop.example")
    product = await shop.product(stock=100)
    orders = [await one_order(shop, product, number) for number in range(6)]
    for order in orders:
        await clumsy(shop, order)
    await idle_outbox(shop)
    told = await receiver.until(await shop.sequence())
    shown = [[dict(one.headers), one.body.decode()] for one in told]
    kept = [(await shop.v1("GET", path)).data for path in LISTS]
    outbox = (await shop.control("GET", "/outbox?limit=100")).body
    tokens = [order["trackingToken"] for order in orders]
    return tokens, [shown, kept, outbox, await shop.state()]


async def test_tokens_are_in_no_log_body_or_database(
    folder: Path, receiver: Receiver, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_shop(folder) as shop:
        tokens, shown = await lived(shop, receiver)
        texts = {"answers and webhooks": json.dumps(shown)}
        texts |= _kept(folder)
    texts |= {f"{name}, closed": text for name, text in _kept(folder).items()}
    texts["log"] = "\n".join([*log, caplog.text])
    assert "route=/storefront/orders/track/{token}" in texts["log"]
    assert len(set(tokens)) == 6
    found = [name for name, text in texts.items() for one in tokens if one in text]
    assert found == []


def _kept(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes().decode("latin-1")
        for path in files
        if LETTERS not in path.parts
    }


@pytest.mark.parametrize(
    ("method", "end", "status"),
    [
        ("PATCH", "", 405),
        ("POST", "", 405),
        ("OPTIONS", "", 204),
        ("GET", "/", 404),
        ("GET", "/payment", 405),
        ("GET", "/receipt", 404),
    ],
)
async def test_a_mistaken_request_is_private_too(
    shop: Shop, method: str, end: str, status: int
) -> None:
    """A link that was copied wrongly holds the whole token all the same."""
    token = (await placed(shop))["trackingToken"]
    reply = await shop.shopper(method, f"/orders/track/{token}{end}")
    assert reply.status == status
    assert {name: reply.headers.get(name) for name in PRIVATE} == PRIVATE
    assert token not in str(reply.body)
