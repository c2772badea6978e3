"""How the Odoo connector handles each way in which Odoo can fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, web

from backhaul_connectors.odoo import Odoo
from backhaul_connectors.odoo.reader import ROWS_AT_ONCE
from backhaul_sdk import Applied, CheckFailed, NotSent, Rejected, Uncertain
from backhaul_sdk.testing import MemoryHost, sample_change
from connectors.odoo_double import DATABASE, KEY, OdooDouble
from connectors.odoo_records import OdooFault
from scenes.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = [pytest.mark.programs]
CREATE = ("sale.order", "create")
CONFIRM = ("sale.order", "action_confirm")


def fault(name: str, message: str = "x") -> Callable[[], web.Response]:
    def raised() -> web.Response:
        raise OdooFault(name, message)

    return raised


def status(code: int, **headers: str) -> Callable[[], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: web.Response(status=code, headers=named)


def body(text: str) -> Callable[[], web.Response]:
    return lambda: web.Response(text=text, headers={"Date": "Sun, 01 Mar 2026 12:00"})


SENT_AGAIN: dict[str, tuple[Callable[[], web.Response], float | None]] = {
    "too many requests": (status(429), None),
    "too many requests, with a wait": (status(429, Retry_After="7"), 7.0),
    "down for a while": (status(503, Retry_After="30"), 30.0),
    "a conflict of transactions": (
        fault("psycopg2.errors.SerializationFailure", "could not serialize access"),
        None,
    ),
    "a lock": (fault("odoo.exceptions.LockError", "Please try again."), None),
    "a right is missing": (fault("odoo.exceptions.AccessError"), None),
    "the key was revoked": (fault("odoo.exceptions.AccessDenied"), None),
    "no access": (status(403), None),
    "no such path": (status(404), None),
    "moved": (status(301, Location="/elsewhere"), None),
}
LOOKED_UP = {
    "took too long": status(408),
    "a fault": fault("builtins.TypeError", "'NoneType' object is not iterable"),
    "broke": status(500),
    "its proxy lost it": status(502),
    "timed out": status(504),
    "no JSON": body("<html>"),
}
REFUSED = {
    "an error for a person": fault("odoo.exceptions.UserError", "The year is closed."),
    "a constraint": fault("odoo.exceptions.ValidationError", "The year is closed."),
    "a record is gone": fault("odoo.exceptions.MissingError", "The year is closed."),
}


@pytest.fixture(params=["17.0", "19.0"])
async def odoo(request: pytest.FixtureRequest) -> AsyncIterator[OdooDouble]:
    odoo = OdooDouble(request.param)
    await odoo.plug_in()
    yield odoo
    await odoo.close()


@pytest.mark.parametrize("call", [CREATE, CONFIRM])
@pytest.mark.parametrize("name", SENT_AGAIN)
async def test_a_change_with_a_temporary_error_is_sent_again(
    odoo: OdooDouble, name: str, call: tuple[str, str]
) -> None:
    odoo.answers[call], wait = SENT_AGAIN[name]
    connector = odoo.connector(orders="confirmed")
    said = await connector.push(sample_change(1))
    assert isinstance(said, NotSent), said
    assert said.retry_after_seconds == wait
    odoo.answers.clear()
    assert await connector.push(sample_change(1)) == Applied("1")
    assert odoo.records.only("sale.order")["state"] == "sale"


@pytest.mark.parametrize("name", LOOKED_UP)
async def test_a_change_that_may_have_been_applied_is_looked_up(
    odoo: OdooDouble, name: str
) -> None:
    odoo.answers[CREATE] = LOOKED_UP[name]
    connector = odoo.connector()
    said = await connector.push(sample_change(1))
    assert isinstance(said, Uncertain), said
    odoo.answers.clear()
    assert await connector.push(sample_change(1)) == Applied("1")


@pytest.mark.parametrize("name", REFUSED)
async def test_an_error_for_an_operator_is_rejected_as_odoo_says(
    odoo: OdooDouble, name: str
) -> None:
    odoo.answers[CREATE] = REFUSED[name]
    said = await odoo.connector().push(sample_change(1))
    assert said == Rejected("Odoo refuses: The year is closed.")


async def test_odoos_words_are_shown_without_the_key(odoo: OdooDouble) -> None:
    """The arguments of a call contain the key, and a fault may repeat them."""
    for name in ("odoo.exceptions.UserError", "builtins.TypeError"):
        odoo.answers[CREATE] = fault(name, f"bad arguments: {KEY}")
        said = await odoo.connector().push(sample_change(1))
        assert isinstance(said, Rejected | Uncertain), said
        assert "bad arguments: [redacted]" in said.reason
        assert KEY not in repr(said)


async def test_a_database_is_named_to_a_server_that_has_several() -> None:
    odoo = OdooDouble("19.0")
    await odoo.plug_in()
    assert await odoo.connector().push(sample_change(1)) == Applied("1")
    said = await odoo.connector(database="").push(sample_change(2))
    assert isinstance(said, NotSent), said
    odoo.databases = [DATABASE]
    assert await odoo.connector(database="").push(sample_change(2)) == Applied("2")
    await odoo.close()


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("search_count", {"args": [[]]}),
        ("create", {"values": [{}]}),
        ("create", {"vals_list": [{}], "ids": [1]}),
        ("action_confirm", {"ids": [1], "force": True}),
    ],
)
async def test_the_double_refuses_arguments_that_odoo_does_not_have(
    method: str, arguments: dict[str, Any]
) -> None:
    odoo = OdooDouble("19.0")
    await odoo.plug_in()
    headers = {"Authorization": f"bearer {KEY}", "X-Odoo-Database": DATABASE}
    url = f"{odoo.url}/json/2/sale.order/{method}"
    async with (
        ClientSession(headers=headers) as session,
        session.post(url, json=arguments) as answer,
    ):
        assert answer.status == 422
        assert (await answer.json())["name"].endswith("UnprocessableEntity")
    await odoo.close()


async def test_disabled_json_rpc_is_reported() -> None:
    """From Odoo 19 on a parameter switches the old services on."""
    odoo = OdooDouble("17.0")
    error = {"code": 404, "message": "404: Not Found", "data": {}}
    answer = {"jsonrpc": "2.0", "id": 1, "error": error}
    headers = {"Date": "Sun, 01 Mar 2026 12:00:00 GMT"}
    odoo.answers["product.product", "search_read"] = lambda: web.json_response(
        answer, headers=headers
    )
    await odoo.plug_in()
    with pytest.raises(CheckFailed, match="does not offer JSON-RPC; set api to json-2"):
        await pull(odoo, shipments=False)
    await odoo.close()


async def test_a_wait_that_odoo_requests_is_kept_before_the_next_pull(
    odoo: OdooDouble,
) -> None:
    seconds = [0.0]
    settings = odoo.settings(shipments=False)
    connector = odoo.made(Odoo("erp", settings, clock=lambda: seconds[0]))
    odoo.answers["product.product", "search_read"] = status(429, Retry_After="40")
    with pytest.raises(CheckFailed, match="asks to retry later"):
        await MemoryHost().pull(connector)
    odoo.answers.clear()
    odoo.calls.clear()
    with pytest.raises(CheckFailed, match="and 40 s are left"):
        await MemoryHost().pull(connector)
    assert odoo.calls == []
    seconds[0] = 40.0
    host = MemoryHost()
    await host.pull(connector)
    assert len(host.records) == 1


async def test_an_answer_without_a_time_is_refused(odoo: OdooDouble) -> None:
    """Without the server's clock no stock count has its time."""
    odoo.answers["product.product", "search_read"] = lambda: web.json_response(
        [], headers={"Date": "today"}
    )
    with pytest.raises(CheckFailed, match="has no header Date"):
        await pull(odoo, shipments=False)


async def pull(odoo: OdooDouble, **options: Any) -> None:
    await MemoryHost().pull(odoo.connector(**options))


@pytest.mark.parametrize("options", [{"shipments": False}, {"stock_seconds": 0}])
async def test_a_server_that_repeats_its_page_is_not_read_for_ever(
    odoo: OdooDouble, options: dict[str, Any]
) -> None:
    """As one does behind a proxy that answers from its cache."""
    odoo.deliver(odoo.sell("ord_1"))
    odoo.now += timedelta(seconds=1)
    model = "product.product" if "shipments" in options else "stock.picking"
    row = {**odoo.records.rows[model][1], "write_date": None, "date_done": None}
    document: Any = [row]
    if odoo.major < 19:
        document = {"jsonrpc": "2.0", "id": 1, "result": document}
    headers = {"Date": format_datetime(odoo.now, usegmt=True)}
    odoo.answers[model, "search_read"] = lambda: web.json_response(
        document, headers=headers
    )
    with pytest.raises(CheckFailed, match="returned the same page again"):
        await pull(odoo, batch_rows=1, **options)


async def test_a_server_that_repeats_the_rows_of_a_delivery_is_not_read_for_ever(
    odoo: OdooDouble,
) -> None:
    odoo.deliver(odoo.sell("ord_1"))
    odoo.now += timedelta(seconds=1)
    document: Any = [{"id": number} for number in range(ROWS_AT_ONCE)]
    if odoo.major < 19:
        document = {"jsonrpc": "2.0", "id": 1, "result": document}
    headers = {"Date": format_datetime(odoo.now, usegmt=True)}
    odoo.answers["stock.move.line", "search_read"] = lambda: web.json_response(
        document, headers=headers
    )
    with pytest.raises(CheckFailed, match="returned the same page again"):
        async with asyncio.timeout(HANG_SECONDS):
            await pull(odoo, stock_seconds=0)
