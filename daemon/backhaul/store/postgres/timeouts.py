"""Time limits of a connection: a lost link ends in an error, and never in a hang."""

from __future__ import annotations

import random
import time
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from backhaul.core.backoff_and_circuit import delay_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.abc import PQGen

T = TypeVar("T")
_CHANCE = random.SystemRandom()
CONNECT_SECONDS = 10
"""Limit for one server to accept a connection; each host of a URL has its own."""
SILENCE_SECONDS = 30.0
"""Limit without a byte from the server while a statement runs.

The kernel's limits below end at the next hop. Behind a pooler or a load balancer that
keeps its own side open, only this limit finds out that the server is gone.
"""
IDLE_TRANSACTION_SECONDS = 5
"""Limit for a client that stops inside of a transaction: the server ends it then, and
its locks are free for the daemon that takes its place."""

# libpq's parameters; a URL that has one of them overrides it.
_NETWORK = {
    "connect_timeout": CONNECT_SECONDS,
    # A dead peer is found within about ten seconds: by probes while nothing is sent,
    # and by bytes that nobody acknowledges otherwise.
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
# There is no `statement_timeout`: exports may run for minutes. The server itself ends
# the statement of a client that has hung up.
_SESSION = "SET client_connection_check_interval = '5s'"


class ServerSilent(psycopg.OperationalError):
    """The server sent nothing for too long; the connection is closed."""


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server is silent for too long."""

    silence_seconds = SILENCE_SECONDS

    def wait(self, gen: PQGen[Any], *args: Any, **options: Any) -> Any:
        """Run a statement to its end. Raises ServerSilent."""
        try:
            return super().wait(_limited(gen, self.silence_seconds), *args, **options)
        except ServerSilent:
            self.pgconn.finish()
            raise


def connect(url: str, **options: Any) -> LimitedConnection:
    """Open a connection with all limits. Raises psycopg.OperationalError."""
    given: dict[str, Any] = {**_NETWORK, **conninfo_to_dict(url), **options}
    connection = LimitedConnection.connect(autocommit=True, **given)
    connection.execute(_SESSION)
    return connection


def persistently(connect: Callable[[], T], seconds: float) -> T:
    """Connect, and after a failure again for so long, with growing, random pauses.

    Raises psycopg.OperationalError.
    """
    end, attempt = time.monotonic() + seconds, 0
    while True:
        attempt += 1
        try:
            return connect()
        except psycopg.OperationalError:
            pause = delay_seconds(
                attempt, base_seconds=0.1, cap_seconds=1, chance=_CHANCE.random()
            )
            if time.monotonic() + pause > end:
                raise
            Event().wait(pause)


def _limited(gen: PQGen[Any], seconds: float) -> PQGen[Any]:
    """Pass everything on to `gen`; raise ServerSilent after so long without a byte."""
    end = time.monotonic() + seconds
    try:
        state = next(gen)
        while True:
            if ready := (yield state):
                end = time.monotonic() + seconds
            elif time.monotonic() > end:
                raise ServerSilent(f"the server sent nothing for {seconds:g} seconds")
            state = gen.send(ready)
    except StopIteration as done:
        return done.value
