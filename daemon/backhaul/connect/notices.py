"""What a connector says although it works: notices, and the notes of a batch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.connect.guarding import ConnectorFailed, words
from backhaul.core.printable import storable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul_sdk import Connector

MOST = 20
"""Notices of one connector that are shown, and notes of one batch that are logged."""
LONGEST = 600
"""Characters of one sentence; the rest is cut."""


class Notices:
    """The notices of one connector; each new one is logged once."""

    def __init__(self, connector: Connector[Any]) -> None:
        self.current: tuple[str, ...] = ()
        self._connector = connector
        self._log = logger.bind(instance=connector.instance)

    def refresh(self) -> None:
        """Ask the connector again. Raises ConnectorFailed."""
        before, self.current = self.current, tuple(read_notices(self._connector))
        for notice in self.current:
            if notice not in before:
                self._log.bind(action="connector.notice").warning(
                    "{}: {}", self._connector.instance, notice
                )

    def log_notes(self, notes: Iterable[str]) -> None:
        """Log what the connector says of a batch that is stored."""
        for note in _sentences(notes):
            self._log.bind(action="connector.note").info(
                "{}: {}", self._connector.instance, note
            )


def read_notices(connector: Connector[Any]) -> list[str]:
    """Return the connector's notices. Raises ConnectorFailed."""
    try:
        return _sentences(connector.notices())
    except Exception as error:
        raise ConnectorFailed(words(error)) from error


def _sentences(said: Iterable[str]) -> list[str]:
    """Return the first sentences, each once and fit to be stored and shown."""
    once = dict.fromkeys(storable(str(each))[:LONGEST] for each in islice(said, MOST))
    return list(once)
