"""What every family of the store builds on: an engine, and methods that are one unit.

A unit gets a connection and runs on it alone. `@write` runs it in the engine's next
transaction, `@background` behind all that is urgent, `@read` on a connection that
cannot write. A method that raises leaves nothing behind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

    from backhaul.store.inbox import Arrival

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Family")
Values: TypeAlias = "tuple[object, ...] | list[Any] | dict[str, Any]"


class Rows(Protocol):
    """The result of a statement, read once. A row is a tuple with names."""

    @property
    def rowcount(self) -> int: ...

    @property
    def lastrowid(self) -> int | None:
        """The id of the inserted row, of an INSERT that ends with `new_id`."""
        ...

    @property
    def description(self) -> Any:
        """One entry for each column, which begins with its name."""
        ...

    def __iter__(self) -> Iterator[Any]: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def close(self) -> None: ...


class Connection(Protocol):
    """Runs statements of the common text (docs/decisions/0023-one-sql-text.md)."""

    def execute(self, sql: str, values: Any = ..., /) -> Rows: ...

    def executemany(self, sql: str, values: Iterable[Any], /) -> Rows: ...


Unit: TypeAlias = Callable[[Connection], T]


class Idempotent(Generic[T]):
    """A unit that may run twice with the same result.

    If nobody knows whether its commit took place, the caller may try it again.
    """

    def __init__(self, unit: Unit[T]) -> None:
        self._unit = unit

    def __call__(self, connection: Connection) -> T:
        return self._unit(connection)


class Engine(Protocol):
    """Runs units on one database, and tells the time that their rows bear."""

    def write(self, unit: Unit[T]) -> Awaitable[T]:
        """Run a unit in the next transaction. May raise Busy."""
        ...

    def background(self, unit: Unit[T]) -> Awaitable[T]:
        """Run a unit of at most 5 ms behind everything urgent. May raise Busy."""
        ...

    def read(self, unit: Unit[T]) -> Awaitable[T]:
        """Run a unit that only reads, beside the writes. Raises ReadFailed."""
        ...

    def append(self, arrival: Arrival) -> Awaitable[int]:
        """Append an event to the inbox; resolve with its id once it is durable.

        The engine writes the events of many callers in one batch. May raise Busy.
        """
        ...

    def now(self) -> str:
        """Return the time as text, with milliseconds, in UTC."""
        ...

    def concerns_the_file(self, error: Exception) -> bool:
        """Return True if the whole database failed, False if one statement did."""
        ...

    def owned(self) -> frozenset[str] | None:
        """Return the stores that this process may work on; None for all of them."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the bytes of `database`, and of its `log` where the engine has one."""
        ...


class Family:
    """One family of the store's methods over an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _now(self) -> str:
        return self._engine.now()

    def _owned(self) -> str | None:
        """Return the JSON list of the stores to work on; None for all of them."""
        owned = self._engine.owned()
        return None if owned is None else json.dumps(sorted(owned))


Method: TypeAlias = Callable[Concatenate[S, Connection, P], T]
Async: TypeAlias = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def write(method: Method[S, P, T]) -> Async[S, P, T]:
    """Run a method as one unit of the next transaction."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.write(lambda c: method(self, c, *args, **kwargs))

    return run


def write_idempotent(method: Method[S, P, T]) -> Async[S, P, T]:
    """Run a method as `write` does; it may run twice with the same result."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        unit: Unit[T] = Idempotent(lambda c: method(self, c, *args, **kwargs))
        return await self._engine.write(unit)

    return run


def background(method: Method[S, P, T]) -> Async[S, P, T]:
    """Run a method as one unit behind everything urgent; it takes at most 5 ms."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.background(lambda c: method(self, c, *args, **kwargs))

    return run


def read(method: Method[S, P, T]) -> Async[S, P, T]:
    """Run a method as one unit that only reads, beside the writes."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._engine.read(lambda c: method(self, c, *args, **kwargs))

    return run
