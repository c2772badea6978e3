"""A 2xx response that proves nothing never marks a command applied.

The platform of these tests shows no order and no history, so an operator must decide.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from scenes import payloads
from scenes.pushing import (
    LONGEST_ANSWER,
    Answer,
    BrokenTransport,
    Scene,
    applied_response,
    order_after,
    scene,
    working,
)
from scenes.scripted_platform import Connection, Request, document, message

if TYPE_CHECKING:
    from backhaul.store import Place
    from scenes.scripted_platform import Behave

PATHS = {
    "fulfill": "/orders/ord_1/fulfill",
    "cancel": "/orders/ord_1/cancel",
    "adjust": "/inventory/adjust",
}


def body(content: bytes) -> bytes:
    return message(200, content)


def cut(request: Request) -> bytes:
    return applied_response(request)[:-10]


def closing(data: bytes) -> Behave:
    async def behave(_: Request, connection: Connection) -> None:
        await connection.send(data)
        connection.writer.close()

    return behave


async def cut_short(request: Request, connection: Connection) -> None:
    await connection.send(cut(request))
    connection.writer.close()


async def reset(_: Request, connection: Connection) -> None:
    connection.reset()


async def silent(_: Request, connection: Connection) -> None:
    await connection.reader.read()


LIES: dict[str, Answer] = {
    "html": message(200, b"<html><body>Login</body></html>", "text/html"),
    "empty": body(b""),
    "204": message(204),
    "202-empty": message(202),
    "null": body(b"null"),
    "list": body(b"[]"),
    "text": body(b'"done"'),
    "ok": body(b'{"ok":true}'),
    "empty-object": body(b"{}"),
    "null-data": body(b'{"data":null}'),
    "not-a-number": body(b'{"data":{"id":NaN}}'),
    "endless-number": body(b'{"data":{"id":1e999999999999999999999}}'),
    "deep": body(b"[" * 10_000),
    "not-utf-8": body(b'{"data":"\xff"}'),
    "truncated-json": body(b'{"data":{"id":"ord_1","items":['),
    "cut-off": cut_short,
    "reset": reset,
    "silent": silent,
    "oversized": message(200, b'{"data":"' + b"x" * LONGEST_ANSWER + b'"}'),
    "garbage": closing(b"\x00\x01\x02\r\n\r\n"),
    "bad-gzip": message(200, b"{}", Content_Encoding="gzip"),
    "problem-as-200": document({"code": "ORDER_NOT_FOUND", "detail": "no"}),
    "list-page-as-200": document({"data": [payloads.order()], "meta": {}}),
}


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("name", LIES)
async def test_an_impossible_answer_is_parked_for_an_operator(
    name: str, kind: str, stage: Scene
) -> None:
    stage.platform.respond(PATHS[kind], LIES[name])
    command = await stage.plan(kind, "prod_1" if kind == "adjust" else "ord_1")
    async with working(stage):
        await stage.await_parked(command)
        await stage.pass_time(86_400)
        await stage.run_pending()
    assert len(stage.server.commands) == 1
    assert stage.attempts(command)[0][:2] == (1, "uncertain")
    assert stage.reason(command)


def other(kind: str, **members: Any) -> bytes:
    asked = {"trackingCompany": "BlueDart", "trackingNumber": "BD1", "restock": True}
    return document({"data": order_after("ord_1", kind, asked) | members})


TRUE: dict[str, Any] = {"adjustmentId": "adj_1", "productId": "prod_1", "levels": []}


def adjusted(**members: Any) -> bytes:
    return document({"data": TRUE | members})


HALF_TRUE = [
    ("fulfill", other("fulfill", id="ord_2")),
    ("fulfill", other("fulfill", shipments=[])),
    ("fulfill", other("fulfill", shipments=[payloads.shipment(trackingNumber="X")])),
    ("fulfill", other("fulfill", updatedAt="soon")),
    ("fulfill", other("fulfill", updatedAt="0001-01-01T00:00:00+05:00")),
    ("cancel", other("cancel", id="ord_2")),
    ("cancel", other("cancel", cancellation=None)),
    ("cancel", other("cancel", cancellation={"cancelledAt": payloads.instant(1)})),
    ("cancel", other("fulfill")),
    ("adjust", adjusted(productId="prod_2")),
    ("adjust", adjusted(adjustmentId=None)),
    ("adjust", adjusted(levels=None)),
]


@pytest.mark.parametrize(("kind", "answer"), HALF_TRUE, ids=range(len(HALF_TRUE)))
async def test_answer_about_something_else_is_parked(
    kind: str, answer: bytes, stage: Scene
) -> None:
    stage.platform.respond(PATHS[kind], answer)
    command = await stage.plan(kind, "prod_1" if kind == "adjust" else "ord_1")
    async with working(stage):
        await stage.await_parked(command)
    assert stage.first_attempt_reason(command).startswith("200, but ")
    assert len(stage.server.commands) == 1


async def test_doubled_member_counts_by_its_last_value(stage: Scene) -> None:
    order = json.dumps(order_after("ord_1", "fulfill", {"trackingCompany": "BlueDart"}))
    doubled = order[:-1] + ',"id":"ord_2"}'
    stage.platform.respond(PATHS["fulfill"], body(doubled.encode()))
    command = await stage.plan("fulfill", "ord_1", tracking_number=None)
    async with working(stage):
        await stage.await_parked(command)
    said = "about order ord_2, and the command is about order ord_1"
    assert said in stage.first_attempt_reason(command)


@pytest.mark.parametrize("status", [200, 201, 202])
@pytest.mark.parametrize("answer", [{"data": TRUE}, TRUE], ids=["wrapped", "bare"])
async def test_true_answer_counts_in_every_shape(
    answer: dict[str, Any], status: int, stage: Scene
) -> None:
    stage.platform.respond(PATHS["adjust"], document(answer, status))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")


async def test_huge_numbers_in_the_proof_are_stored_without_an_error(
    stage: Scene,
) -> None:
    levels = [{"variantId": "var_1", "stock": 10**40}]
    stage.platform.respond(PATHS["adjust"], adjusted(levels=levels))
    command = await stage.plan("adjust", "prod_1")
    async with working(stage):
        await stage.await_state(command, "applied")
    assert str(10**40) in stage.column("evidence", command)


# The first one was observed: uvloop, and a connection that is reset at once.
@pytest.mark.parametrize("error", [AttributeError("peer"), ZeroDivisionError("?")])
async def test_an_unclassified_failure_leaves_it_uncertain_and_ends_nothing(
    database: Place, error: Exception
) -> None:
    broken = BrokenTransport(error)
    async with scene(database, http=broken) as stage, working(stage):
        command = await stage.plan("adjust", "prod_1")
        await stage.await_state(command, "uncertain")
        await stage.pass_time(3_600)
        other = await stage.plan("fulfill", "ord_1")
        stage.dispatcher.wake()
        await stage.await_state(other, "uncertain")
    assert type(error).__name__ in stage.first_attempt_reason(command)
    assert broken.requests == 2
