"""How the Tryton connector handles each way in which Tryton can fail."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from backhaul_connectors.tryton import Tryton, reader
from backhaul_connectors.tryton.rpc import LOGIN_REST_SECONDS
from backhaul_sdk import Applied, Bad, Line, NotSent, Rejected, StockLevel, Uncertain
from backhaul_sdk.testing import sample_change
from connectors.erp_answers import AnsweringErp
from connectors.test_tryton import settings_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from backhaul_sdk import Pushed

AT = datetime(2026, 1, 2, tzinfo=UTC)
CREATE = "model.sale.sale.create"
LOGIN = "common.db.login"


def status(code: int, **headers: str) -> Callable[[], web.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: web.Response(status=code, headers=named)


def error(*said: Any) -> Callable[[], web.Response]:
    """Return what an exception in the server becomes: its arguments."""
    return lambda: web.json_response({"id": 1, "error": list(said)})


def body(text: str) -> Callable[[], web.Response]:
    return lambda: web.Response(text=text)


SENT_AGAIN: dict[str, tuple[Callable[[], web.Response], float | None]] = {
    "too many requests": (status(429), None),
    "too many requests, with a wait": (status(429, Retry_After="7"), 7.0),
    "down for a while": (status(503, Retry_After="30"), 30.0),
    "changed meanwhile": (
        error("ConcurrencyException", "Records were modified in the meanwhile"),
        None,
    ),
    "the session is over": (status(401), None),
    "not let in": (status(403), None),
    "the database is not there": (status(404), None),
    "moved": (status(301, Location="/elsewhere"), None),
    "asks who it is": (error("LoginException", ["sms_code", "Code", "char"]), None),
}
LOOKED_UP = {
    "took too long": status(408),
    "locked": status(423),
    "a fault": error("'NoneType' object has no attribute 'id'", "Traceback …"),
    "a fault without words": error(),
    "broke": status(500),
    "its proxy lost it": status(502),
    "the database is locked": status(503),
    "timed out": status(504),
    "no JSON": body("<html>"),
    "no JSON-RPC": body('{"id": 1}'),
}
REFUSED = {
    "an error for a person": (
        error("UserError", ["The quantity must be rounded.", "Take 2.", None]),
        "The quantity must be rounded. Take 2.",
    ),
    "a warning for a person": (
        error("UserWarning", ["no_stock", "There is not enough in stock.", ""]),
        "There is not enough in stock.",
    ),
    "not understood": (status(400), "refused: 400"),
    "too large": (status(413), "refused: 413"),
    "of no use": (status(422), "refused: 422"),
}


@pytest.fixture
async def erp() -> AsyncIterator[AnsweringErp]:
    erp = AnsweringErp()
    await erp.plug_in()
    yield erp
    await erp.close()


async def push_through(
    erp: AnsweringErp, method: str, answer: Callable[[], web.Response]
) -> tuple[Pushed, Pushed]:
    """Return what comes of an order while it fails, and after that."""
    connector = erp.connector()
    erp.answers[method] = answer
    first = await connector.push(sample_change(1))
    del erp.answers[method]
    return first, await connector.push(sample_change(1))


@pytest.mark.parametrize("method", [CREATE, "model.sale.sale.quote"])
@pytest.mark.parametrize("name", SENT_AGAIN)
async def test_a_change_with_a_temporary_error_is_sent_again(
    erp: AnsweringErp, name: str, method: str
) -> None:
    answer, wait = SENT_AGAIN[name]
    first, then = await push_through(erp, method, answer)
    assert isinstance(first, NotSent), first
    assert first.retry_after_seconds == wait
    assert then == Applied("1")
    assert erp.sales == [{"id": 1, "number": "1", "state": "quotation"}]


@pytest.mark.parametrize("name", LOOKED_UP)
async def test_a_change_that_may_have_been_applied_is_looked_up(
    erp: AnsweringErp, name: str
) -> None:
    first, then = await push_through(erp, CREATE, LOOKED_UP[name])
    assert isinstance(first, Uncertain), first
    assert then == Applied("1")


@pytest.mark.parametrize("name", REFUSED)
async def test_an_error_for_an_operator_is_rejected_as_tryton_says(
    erp: AnsweringErp, name: str
) -> None:
    answer, words = REFUSED[name]
    first, _ = await push_through(erp, CREATE, answer)
    assert isinstance(first, Rejected), first
    assert words in first.reason


async def test_a_cancellation_waits_like_an_order(erp: AnsweringErp) -> None:
    connector = erp.connector()
    await connector.push(sample_change(1))
    erp.answers["model.sale.sale.cancel"] = SENT_AGAIN["changed meanwhile"][0]
    cancelled = sample_change(1, "order.cancelled")
    said = await connector.push(cancelled)
    assert said == NotSent("Tryton refuses: Records were modified in the meanwhile")


async def test_a_login_that_is_not_let_in_is_no_fault_of_the_order(
    erp: AnsweringErp,
) -> None:
    for name in ("not let in", "asks who it is"):
        answer, _ = SENT_AGAIN[name]
        first, then = await push_through(erp, LOGIN, answer)
        assert isinstance(first, NotSent), first
        assert isinstance(then, Applied)


@pytest.mark.parametrize(
    ("answer", "rest"),
    [(status(429), LOGIN_REST_SECONDS), (status(429, Retry_After="40"), 40.0)],
)
async def test_after_too_many_logins_no_login_is_tried_for_a_while(
    erp: AnsweringErp, answer: Callable[[], web.Response], rest: float
) -> None:
    seconds = [0.0]
    settings = settings_of(erp.port)
    connector = erp.made(Tryton("erp", settings, clock=lambda: seconds[0]))
    erp.answers[LOGIN] = answer
    for _ in range(3):
        said = await connector.push(sample_change(1))
        why = "too many logins at Tryton failed; Backhaul waits before it tries again"
        assert said == NotSent(why, rest)
    assert erp.asked == [LOGIN], "Tryton counts each login, and never lets it in"
    del erp.answers[LOGIN]
    seconds[0] = rest
    assert isinstance(await connector.push(sample_change(1)), Applied)


def goods_of(quantity: Any) -> Any:
    """Return the record of a shipment with one row of goods."""
    row = {"id": 1, "number": "1", "write_date": AT, "carrier": None}
    move = {"product.": {"code": "LS-S"}, "quantity": quantity}
    return reader._fulfillment(row, "ord_1", [move], None)


@pytest.mark.parametrize(
    "quantity", [None, 0.5, 1e999, float("nan"), True, "x", Decimal("0.5")]
)
def test_a_quantity_that_is_no_number_of_pieces_is_quarantined(quantity: Any) -> None:
    row = {"id": 1, "code": "LS-S", "quantity": quantity}
    found = reader._level(row, AT)
    assert isinstance(found, Bad)
    assert found.reason.startswith("quantity of LS-S must be a whole number, not ")
    shipped = goods_of(quantity)
    assert isinstance(shipped, Bad)
    assert shipped.reason == found.reason


@pytest.mark.parametrize("quantity", [2, 2.0, "2", Decimal(2)])
def test_a_whole_number_is_one_in_every_type(quantity: Any) -> None:
    row = {"id": 1, "code": "LS-S", "quantity": quantity}
    found = reader._level(row, AT)
    assert isinstance(found, StockLevel)
    assert found.quantity == 2
    assert goods_of(quantity).lines == (Line(sku="LS-S", quantity=2),)
