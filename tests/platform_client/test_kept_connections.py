"""Commands share connections where the platform honours Idempotency-Key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from backhaul.platform.transport import OutcomeUnknown, SendingEnded, Transport
from platform_client.test_transport import (
    BODY,
    GOOD,
    PATH,
    hang_up,
    reset,
    saying_then_closing,
)
from scenes.scripted_platform import Connection, Request, message, saying, serving

if TYPE_CHECKING:
    from scenes.scripted_platform import Behave

Connect: TypeAlias = Callable[..., Transport]


async def test_commands_share_connections_where_keys_are_honoured(
    connect: Connect,
) -> None:
    async with serving(saying(GOOD)) as server:
        transport = connect(server.url)
        guarded = transport.guarded(nothing)
        transport.keep_connections(keep=True)
        for number in range(3):
            await guarded.send(PATH, BODY, f"key-{number}")
        assert server.connections == 1
        transport.use_key("svc_live_another0123456789")
        await guarded.send(PATH, BODY, "key-3")
        keys = [request.headers["authorization"] for request in server.requests]
        assert keys[-1] == "Bearer svc_live_another0123456789"
        transport.keep_connections(keep=False)
        for number in range(2):
            await guarded.send(PATH, BODY, f"key-{number + 4}")
        assert server.connections == 3


async def nothing() -> None:
    """Require nothing of a request."""


@pytest.mark.parametrize("behave", [reset, hang_up])
async def test_a_command_on_a_kept_connection_is_not_sent_twice(
    behave: Behave, connect: Connect
) -> None:
    """Whether the platform read it before it closed the connection is unknown."""
    behaviors = [saying(GOOD), behave]

    async def first_then(request: Request, connection: Connection) -> None:
        await behaviors.pop(0)(request, connection)

    async with serving(first_then) as server:
        transport = connect(server.url)
        transport.keep_connections(keep=True)
        await transport.send(PATH, BODY, "key-1")
        with pytest.raises(OutcomeUnknown):
            await transport.send(PATH, BODY, "key-2")
        assert (len(server.requests), server.connections) == (2, 1)


async def test_a_connection_that_was_closed_while_idle_is_not_used(
    connect: Connect,
) -> None:
    async with serving(saying_then_closing(GOOD)) as server:
        transport = connect(server.url)
        transport.keep_connections(keep=True)
        for number in range(3):
            await transport.send(PATH, BODY, f"key-{number}")
            await asyncio.sleep(0.05)
        assert server.connections == 3


async def test_nothing_leaves_on_a_kept_connection_without_the_right_to_send(
    connect: Connect,
) -> None:
    rights = iter([True, True, True, False])
    async with serving(saying(GOOD)) as server:
        transport = connect(server.url)
        transport.keep_connections(keep=True)
        await transport.send(PATH, BODY, "key-1", may_send=lambda: next(rights, False))
        with pytest.raises(SendingEnded):
            await transport.send(
                PATH, BODY, "key-2", may_send=lambda: next(rights, False)
            )
        assert len(server.requests) == 1


@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize(
    "more",
    [
        message(201, b'{"data":"again"}'),
        message(408, b"", Connection="close"),
        b"{}",
    ],
    ids=["a second response", "an idle timeout", "a body"],
)
async def test_bytes_behind_a_response_are_not_taken_for_the_next(
    more: bytes, reads: bool, connect: Connect
) -> None:
    parts = [GOOD + more, GOOD]

    async def behave(_: Request, connection: Connection) -> None:
        await connection.send(parts.pop(0))

    async with serving(behave) as server:
        transport = connect(server.url)
        transport.keep_connections(keep=True)
        if reads:
            answers = [await transport.probe("/orders", {}) for _ in range(2)]
        else:
            answers = [await transport.send(PATH, BODY, f"key-{n}") for n in range(2)]
        assert [(each.status, each.body) for each in answers] == [
            (200, b'{"data":{}}'),
        ] * 2
        assert server.connections == 2
