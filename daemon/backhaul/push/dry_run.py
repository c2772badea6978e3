"""Dry run: logs commands instead of sending them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.platform import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.platform.requests import Dialect
    from backhaul.store.contract import Command
    from backhaul.store.outbox import Prepare, Sendable
    from backhaul.store.sqlite.commands import SqliteCommands

AT_ONCE = 50


class Rehearsal:
    """Commands as the dispatcher knows them, without those of a dry run.

    `rehearsed` names the connectors whose commands stay; `*` stands for all. Those of
    a dry run that is over leave in their turn.
    """

    def __init__(
        self, commands: SqliteCommands, rehearsed: Sequence[str], dialect: Dialect
    ) -> None:
        self._commands = commands
        self._rehearsed = rehearsed
        self._dialect = dialect
        self._is_resumed = False
        self.resume = commands.resume
        self.settle = commands.settle
        self.next_due = commands.next_due
        self.doubt_interrupted = commands.doubt_interrupted

    async def claim(
        self, store: str, gates: Mapping[str, str], limit: int, prepare: Prepare
    ) -> list[tuple[Command, Sendable]]:
        """Claim what may leave; tell once of each command that may not."""
        await self._resume(store)
        if not self._rehearsed:
            return await self._commands.claim(store, gates, limit, prepare)
        await self._rehearse(store, gates, limit)
        return await self._commands.claim(store, gates, limit, prepare, self._rehearsed)

    async def _resume(self, store: str) -> None:
        while not self._is_resumed:
            found = await self._commands.resume(store, self._rehearsed)
            self._is_resumed = found == 0

    async def _rehearse(self, store: str, gates: Mapping[str, str], limit: int) -> None:
        """Set aside what is among the next to leave, so that a claim meets none."""
        most = max(limit, AT_ONCE)
        while found := await self._commands.rehearse(
            store, gates, most, self._rehearsed
        ):
            for command in found:
                self._tell(command)

    def _tell(self, command: Command) -> None:
        logger.bind(
            action="push.rehearsed", store=command.store, command=command.id
        ).info(
            "dry run: would send {} POST {} {}",
            command.kind,
            requests.path(command),
            requests.body(command, self._dialect).decode(),
        )
