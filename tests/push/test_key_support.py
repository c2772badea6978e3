"""A platform that supports idempotency keys now may not support them later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.platform.client import StoreFacts
from backhaul.push.resolver import KEYED_ONCE, IdempotencySupport
from backhaul.settings import Push
from scenes.pushing import Scene, applied_response, scene, working
from scenes.scripted_platform import Connection, Request, document, message
from scenes.stock_history import HISTORY, history, move
from scenes.uncertain_commands import advance_until, check_results, plan_uncertain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from backhaul.store import Place

STORE = "/store"
ADJUST = "/inventory/adjust"
TAKES = StoreFacts(features=("updatedSince", KEYED_ONCE))
NO_LONGER = StoreFacts(features=("updatedSince",))


async def close(_: Request, connection: Connection) -> None:
    connection.writer.close()


async def answer(request: Request, connection: Connection) -> None:
    await connection.send(applied_response(request))


def said(facts: StoreFacts) -> bytes:
    return document({"data": {"features": list(facts.features)}})


@pytest.fixture
async def keyed(database: Place) -> AsyncIterator[Scene]:
    async with scene(database, keyed=True) as made:
        yield made


def idempotency_of(stage: Scene, word: bool | None = None) -> IdempotencySupport:
    """Return the key support as a later start reads it from the database."""
    client, marks = stage.resolver._resend.client, stage.store.kv
    return IdempotencySupport("main", client, marks, stage.clock, word)


def asked(stage: Scene) -> int:
    return sum(request.path == STORE for request in stage.server.requests)


@pytest.mark.parametrize(
    "answer", [said(NO_LONGER), message(404)], ids=["another version", "none"]
)
async def test_a_platform_that_stopped_accepting_keys_is_checked_by_reads(
    answer: bytes, keyed: Scene
) -> None:
    """The platform would apply a repeated request as a new one."""
    command = await plan_uncertain(keyed)
    keyed.platform.respond(STORE, answer)
    keyed.platform.respond(HISTORY, history(move(1, command)))
    async with working(keyed):
        await keyed.await_state(command, "applied")
    assert len(keyed.server.commands) == 1
    assert "history shows our reference tag" in keyed.reason(command)


async def test_nothing_is_sent_again_while_key_support_is_unknown(keyed: Scene) -> None:
    command = await plan_uncertain(keyed)
    keyed.platform.respond(STORE, message(503))
    keyed.platform.respond(HISTORY, history())
    async with working(keyed):
        await advance_until(keyed, lambda: "503" in keyed.reason(command))
        await keyed.await_commands(1)
        assert check_results(keyed, command) == []
        keyed.platform.respond(STORE, said(TAKES))
        await advance_until(keyed, lambda: keyed.state(command) == "applied")
    assert len(keyed.server.commands) == 2


async def test_a_shown_effect_is_believed_while_key_support_is_unknown(
    keyed: Scene,
) -> None:
    """Otherwise the ordering key would be blocked for most of a day."""
    command = await plan_uncertain(keyed)
    keyed.platform.respond(STORE, message(503))
    keyed.platform.respond(HISTORY, history(move(1, command)))
    async with working(keyed):
        await advance_until(keyed, lambda: keyed.state(command) == "applied")
    assert len(keyed.server.commands) == 1


async def test_a_refused_store_read_does_not_change_key_support(keyed: Scene) -> None:
    """The API key may be in rotation; the platform is the same."""
    idempotency, first = idempotency_of(keyed), to_text(keyed.clock.now())
    keyed.platform.respond(STORE, message(401), said(TAKES))
    assert not await idempotency.is_honoured(first)
    assert await idempotency.is_honoured(first)


async def test_a_platform_that_accepted_keys_may_stop_without_saying_so(
    keyed: Scene,
) -> None:
    """Commands that were sent meanwhile are checked as without keys."""
    await idempotency_of(keyed).record(NO_LONGER)
    command = await plan_uncertain(keyed)
    keyed.platform.respond(STORE, message(503))
    keyed.platform.respond(HISTORY, history())
    async with working(keyed):
        await advance_until(keyed, lambda: keyed.state(command) == "applied")
    assert [found for _, found in check_results(keyed, command)] == ["absent"] * 3


async def test_a_command_sent_without_key_support_is_not_protected(
    keyed: Scene,
) -> None:
    """The platform supports keys again, but does not know that of the first attempt."""
    idempotency = idempotency_of(keyed)
    await idempotency.record(NO_LONGER)
    command = await plan_uncertain(keyed)
    keyed.platform.respond(STORE, message(503))
    keyed.platform.respond(HISTORY, message(503))
    async with working(keyed):
        await advance_until(keyed, lambda: "503" in keyed.reason(command))
        await idempotency.record(TAKES)
        keyed.platform.respond(STORE, said(TAKES))
        keyed.platform.respond(HISTORY, history(move(1, command)))
        await advance_until(keyed, lambda: keyed.state(command) == "applied")
    assert len(keyed.server.commands) == 1


async def test_a_command_sent_with_key_support_is_protected(keyed: Scene) -> None:
    idempotency = idempotency_of(keyed)
    await idempotency.record(NO_LONGER)
    await keyed.pass_time(60)
    await idempotency.record(TAKES)
    command = await plan_uncertain(keyed)
    async with working(keyed):
        await keyed.await_state(command, "applied")
    assert len(keyed.server.commands) == 2


async def test_key_support_is_not_queried_where_it_never_existed(
    database: Place,
) -> None:
    async with scene(database) as stage:
        command = await plan_uncertain(stage)
        stage.platform.respond(HISTORY, history(move(1, command)))
        async with working(stage):
            await stage.await_state(command, "applied")
        assert asked(stage) == 0


@pytest.mark.parametrize("word", [True, False])
async def test_the_setting_of_key_support_needs_no_query(
    word: bool, database: Place
) -> None:
    async with scene(database) as stage:
        idempotency = idempotency_of(stage, word)
        assert await idempotency.is_honoured("2026-01-01T00:00:00.000Z") is word
        assert asked(stage) == 0


@pytest.mark.parametrize(
    ("word", "facts", "connections"),
    [
        (None, TAKES, 1),
        (None, NO_LONGER, 3),
        (True, NO_LONGER, 1),
        (False, TAKES, 3),
    ],
)
async def test_connections_are_kept_where_keys_are_honoured(
    word: bool | None, facts: StoreFacts, connections: int, database: Place
) -> None:
    async with scene(database, Push(concurrency=1)) as stage:
        await idempotency_of(stage, word).record(facts)
        commands = [await stage.plan("adjust", f"key-{n}") for n in range(3)]
        async with working(stage):
            for command in commands:
                await stage.await_state(command, "applied")
        assert stage.server.connections == connections


async def test_a_kept_connection_that_breaks_costs_no_command(keyed: Scene) -> None:
    """The outcome is unknown; the command is sent again with the same key."""
    async with working(keyed):
        first = await keyed.plan("adjust", "prod_1")
        await keyed.await_state(first, "applied")
        keyed.platform.respond(ADJUST, close, answer)
        second = await keyed.plan("adjust", "prod_2")
        await advance_until(keyed, lambda: keyed.state(second) == "applied")
    sent = [request.headers["idempotency-key"] for request in keyed.server.commands]
    assert sent[1:] == sent[1:2] * 2
    # One for the first, one for the repetition, one to read what the platform claims.
    assert keyed.server.connections == 3
