"""A lost connection to PostgreSQL is an error, and a lost client frees its locks."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import psycopg
import pytest

from backhaul.store.postgres import connection as timeouts
from backhaul.store.postgres.connection import CommitUnknown, Connection
from scenes.postgres import PASSWORD, USER, postgres
from scenes.tcp_relay import tcp_relay
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scenes.postgres import Postgres
    from scenes.tcp_relay import Relay

pytestmark = pytest.mark.programs


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        started.run("CREATE TABLE kept (value integer)", "INSERT INTO kept VALUES (0)")
        yield started


@pytest.fixture
async def relay(server: Postgres) -> AsyncIterator[Relay]:
    async with tcp_relay(server.port) as running:
        yield running


def address(port: int, options: str = "") -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres?{options}"


async def test_a_silent_server_ends_a_statement(relay: Relay) -> None:
    link = await asyncio.to_thread(timeouts.connect, address(relay.port))
    await asyncio.to_thread(link.execute, "SELECT 1")
    relay.is_silent, link.silence_seconds = True, 0.2
    with pytest.raises(timeouts.ServerSilent):
        await asyncio.to_thread(link.execute, "SELECT 1")
    assert link.closed


async def test_a_silent_server_leaves_a_commit_unknown(relay: Relay) -> None:
    connection = await asyncio.to_thread(Connection, address(relay.port))
    for statement in ("BEGIN", "UPDATE kept SET value = 1"):
        await asyncio.to_thread(connection.execute, statement)
    relay.is_silent, connection.limits.silence_seconds = True, 0.2
    with pytest.raises(CommitUnknown):
        await asyncio.to_thread(connection.execute, "COMMIT")


async def test_a_silent_server_cannot_be_connected_to(relay: Relay) -> None:
    relay.is_silent = True
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        await asyncio.to_thread(
            timeouts.connect, address(relay.port, "connect_timeout=2")
        )


def test_the_kernel_gives_up_on_a_dead_peer(server: Postgres) -> None:
    link = timeouts.connect(address(server.port, "keepalives_idle=7"))
    with link, socket.socket(fileno=os.dup(link.fileno())) as held:

        def option(name: int) -> int:
            return held.getsockopt(socket.IPPROTO_TCP, name)

        assert held.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert option(socket.TCP_KEEPIDLE) == 7  # options of the URL come first
        assert option(socket.TCP_KEEPINTVL) == 2
        assert option(socket.TCP_KEEPCNT) == 3
        assert option(socket.TCP_USER_TIMEOUT) == 10_000


def test_a_client_that_stops_in_a_transaction_frees_its_locks(
    server: Postgres,
) -> None:
    stopped, other = (Connection(address(server.port)) for _ in range(2))
    stopped.execute("BEGIN")
    stopped.execute("UPDATE kept SET value = 2")
    other.execute("UPDATE kept SET value = 3")  # waits for the lock
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        stopped.execute("COMMIT")  # the server reports it: the commit certainly failed
    assert other.execute("SELECT value FROM kept").fetchall() == [(3,)]
    other.close()


def test_the_server_ends_the_statement_of_a_client_that_hung_up(
    server: Postgres,
) -> None:
    link = timeouts.connect(address(server.port))
    backend, link.silence_seconds = link.info.backend_pid, 0.2
    with pytest.raises(timeouts.ServerSilent):
        link.execute("SELECT pg_sleep(3600)")
    with server.connect("public") as other:
        alive = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"

        def is_gone() -> bool:
            return not other.execute(alive, (backend,)).fetchall()

        await_true(is_gone, "the statement has ended")


def test_connecting_is_tried_again_for_a_while() -> None:
    refusals = [psycopg.OperationalError("refused"), psycopg.OperationalError("no")]

    def connect() -> str:
        if refusals:
            raise refusals.pop()
        return "connected"

    with pytest.raises(psycopg.OperationalError, match="no"):
        timeouts.persistently(connect, 0)
    refusals.append(psycopg.OperationalError("starting"))
    assert timeouts.persistently(connect, HANG_SECONDS) == "connected"
