"""Dry run: logs commands instead of sending them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger

from backhaul.platform import requests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.platform.requests import Dialect
    from backhaul.store.commands import AllCommands, Prepare, Sendable
    from backhaul.store.matching import Command

AT_ONCE = 50


class DryRunCommands:
    """The dispatcher's view of the commands, without those of a dry run.

    `dry_run` names the connections whose commands must not be sent; `*` means all.
    Commands of a dry run that has ended are sent in their turn.
    """

    def __init__(
        self, commands: AllCommands, dry_run: Sequence[str], dialect: Dialect
    ) -> None:
        self._commands = commands
        self._dry_run = dry_run
        self._dialect = dialect
        self._is_resumed = False
        self.release_dry_run = commands.release_dry_run
        self.record_attempt = commands.record_attempt
        self.next_due = commands.next_due
        self.mark_interrupted_uncertain = commands.mark_interrupted_uncertain

    async def claim(
        self, store: str, windows: Mapping[str, str], limit: int, prepare: Prepare
    ) -> list[tuple[Command, Sendable]]:
        """Claim commands to send; log each command of a dry run once."""
        await self._resume(store)
        if not self._dry_run:
            return await self._commands.claim(store, windows, limit, prepare)
        await self._hold_back(store, windows, limit)
        return await self._commands.claim(store, windows, limit, prepare, self._dry_run)

    async def _resume(self, store: str) -> None:
        while not self._is_resumed:
            found = await self._commands.release_dry_run(store, self._dry_run)
            self._is_resumed = found == 0

    async def _hold_back(
        self, store: str, windows: Mapping[str, str], limit: int
    ) -> None:
        """Put the next commands of a dry run on hold, so that `claim` finds none."""
        most = max(limit, AT_ONCE)
        while found := await self._commands.hold_for_dry_run(
            store, windows, most, self._dry_run
        ):
            for command in found:
                self._log(command)

    def _log(self, command: Command) -> None:
        logger.bind(
            action="push.dry_run", store=command.store, command=command.id
        ).info(
            "dry run: would send {} POST {} {}",
            command.kind,
            requests.path(command),
            requests.body(command, self._dialect).decode(),
        )
