"""A small system that takes changes, and a connector to it, which can be broken."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, SecretStr

from backhaul_sdk import (
    Absent,
    Applied,
    Capability,
    Change,
    CheckFailed,
    Connector,
    Found,
    LookedUp,
    NotSent,
    Pushed,
    Rejected,
    Spec,
    Uncertain,
)
from backhaul_sdk.testing import Failure, PushBench

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PASSWORD = "ledger-password-0123456789"


class Lost(Exception):
    """No answer came."""


class Away(Exception):
    """Nothing could be sent."""


@dataclass(slots=True)
class Ledger:
    """What is written down, in order, by a change's id."""

    rows: list[str] = field(default_factory=list)
    tries: int = 0
    failure: Failure | None = None
    away: bool = False

    async def write(self, id_: str) -> int:
        """Write a row; return its number."""
        await self._reach()
        self.tries += 1
        if self.failure is Failure.BREAKS:
            raise Lost("the line broke")
        if self.failure is Failure.BUSY:
            raise BlockingIOError("come back later")
        if self.failure is Failure.REFUSES:
            raise ValueError("the year is closed")
        self.rows.append(id_)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise Lost("nothing readable came back")
        return self.rows.index(id_)

    async def find(self, id_: str) -> int | None:
        """Return the number of a row."""
        await self._reach()
        return self.rows.index(id_) if id_ in self.rows else None

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Away("nobody answers")


class Settings(BaseModel):
    """Settings of the ledger."""

    password: SecretStr = Field(description="What opens the ledger.")


class LedgerSink(Connector[Settings]):
    """Carries orders into the ledger."""

    spec = Spec(
        name="ledger",
        version="1",
        summary="Writes orders into a ledger.",
        capabilities=frozenset({Capability.PUSH}),
        settings=Settings,
        secret_fields=frozenset({"password"}),
        topics=frozenset({"order.placed"}),
    )

    def __init__(self, instance: str, settings: Settings, ledger: Ledger) -> None:
        super().__init__(instance, settings)
        self.ledger = ledger

    async def check(self) -> None:
        if self.ledger.away:
            raise CheckFailed("the ledger is closed; open it")

    async def push(self, change: Change) -> Pushed:
        try:
            return Applied(str(await self.ledger.write(change.id)))
        except ValueError as error:
            return Rejected(f"refused: {error}")
        except (Away, BlockingIOError) as error:
            return NotSent(f"not taken: {error}")
        except Lost as error:
            return Uncertain(f"no answer: {error}")

    async def lookup(self, change: Change) -> LookedUp:
        number = await self.ledger.find(change.id)
        return Absent() if number is None else Found(str(number))


class LedgerBench(PushBench):
    """The ledger, with a connector of the given class."""

    secrets = (PASSWORD,)

    def __init__(self, sink: type[LedgerSink] = LedgerSink) -> None:
        self.ledger = Ledger()
        self._sink = sink

    def connector(self) -> Connector[Any]:
        settings = Settings(password=SecretStr(PASSWORD))
        return self._sink("books", settings, self.ledger)

    def state(self) -> object:
        return list(self.ledger.rows)

    def example(self) -> Mapping[str, object]:
        return {"type": "ledger", "begin": "now", "password": PASSWORD}

    async def effects(self) -> Sequence[int]:
        return [int(row.rpartition(":")[2]) for row in self.ledger.rows]

    def tries(self) -> int:
        return self.ledger.tries

    async def fail(self, failure: Failure) -> None:
        self.ledger.failure = failure

    async def recover(self) -> None:
        self.ledger.failure = None

    async def unplug(self) -> None:
        self.ledger.away = True

    async def plug_in(self) -> None:
        self.ledger.away = False
