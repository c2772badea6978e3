"""Connectors to the ledger, each broken in one way."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from backhaul_sdk import (
    Absent,
    Applied,
    Found,
    NotSent,
    Rejected,
    Uncertain,
)
from sdk.ledger import Away, LedgerSink, Lost

if TYPE_CHECKING:
    from backhaul_sdk import Change, LookedUp, Pushed


class ChecksByWriting(LedgerSink):
    async def check(self) -> None:
        await self.ledger.write("a test:0")


class Doubles(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        await super().push(change)
        return await super().push(change)


class RaisesOnTopics(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        raise KeyError(change.topic)


class WantsNothingNew(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        if "giftWrap" in change.document:
            return Rejected("there is an unknown field")
        return await super().push(change)


class Retries(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return await super().push(change) if isinstance(said, NotSent) else said


class Optimist(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return Applied() if isinstance(said, Uncertain) else said


class Pessimist(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return NotSent("no answer") if isinstance(said, Uncertain) else said


class TakesBusyForNever(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return Rejected("it is busy") if isinstance(said, NotSent) else said


class AsksForNever(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return NotSent("not now", float("nan")) if isinstance(said, NotSent) else said


class Raises(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        return Applied(str(await self.ledger.write(change.id)))


class SaysNothing(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        return Rejected("") if isinstance(said, Rejected) else said


class FindsEverything(LedgerSink):
    async def lookup(self, change: Change) -> LookedUp:
        return Found()


class FindsNothing(LedgerSink):
    async def lookup(self, change: Change) -> LookedUp:
        return Absent()


class LooksByWriting(LedgerSink):
    async def lookup(self, change: Change) -> LookedUp:
        found = await super().lookup(change)
        if isinstance(found, Found):
            self.ledger.rows.append("looked:0")
        return found


class GuessesWhenAway(LedgerSink):
    async def lookup(self, change: Change) -> LookedUp:
        try:
            return await super().lookup(change)
        except Away:
            return Absent()


class Unstoppable(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        try:
            return await super().push(change)
        except asyncio.CancelledError:
            return NotSent("it was cancelled")


class Talkative(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        said = await super().push(change)
        if not isinstance(said, Applied):
            logging.getLogger("ledger").warning("it is down")
        return said


class Hoarder(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        vars(self).setdefault("kept", []).append(change)
        return await super().push(change)


class Leaky(LedgerSink):
    async def push(self, change: Change) -> Pushed:
        try:
            return Applied(str(await self.ledger.write(change.id)))
        except ValueError as error:
            return Rejected(f"refused: {error}")
        except (Away, BlockingIOError):
            password = self.settings.password.get_secret_value()
            return NotSent(f"nobody answers to {password}")
        except Lost as error:
            return Uncertain(f"no answer: {error}")


class ClosesForGood(LedgerSink):
    async def close(self) -> None:
        self.ledger.away = True
