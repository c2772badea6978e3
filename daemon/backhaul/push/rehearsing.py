"""A dry run: the outbox with what is not to leave, which is told instead of sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.shop import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.shop.requests import Dialect
    from backhaul.store.contract import Command, Prepare, Sendable
    from backhaul.store.sqlite.commands import SqliteCommands

AT_ONCE = 50


class Rehearsal:
    """Commands as the dispatcher knows them, without those of a dry run.

    `rehearsed` names the connectors whose commands stay; `*` stands for all.
    """

    def __init__(
        self, commands: SqliteCommands, rehearsed: Sequence[str], dialect: Dialect
    ) -> None:
        self._commands = commands
        self._rehearsed = rehearsed
        self._dialect = dialect
        self.settle = commands.settle
        self.next_due = commands.next_due
        self.doubt_interrupted = commands.doubt_interrupted

    async def claim(
        self, store: str, gates: Mapping[str, str], limit: int, prepare: Prepare
    ) -> list[tuple[Command, Sendable]]:
        """Claim what may leave; tell once of each command that may not."""
        held_back = self._rehearsed
        while found := await self._commands.rehearse(store, gates, AT_ONCE, held_back):
            for command in found:
                self._tell(command)
        return await self._commands.claim(store, gates, limit, prepare, held_back)

    def _tell(self, command: Command) -> None:
        logger.bind(
            action="push.rehearsed", store=command.store, command=command.id
        ).info(
            "dry run: would send {} POST {} {}",
            command.kind,
            requests.path(command),
            requests.body(command, self._dialect).decode(),
        )
