"""What a connector says although it works: notices, and the notes of a batch."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from loguru import logger

from backhaul.connect.guarding import ConnectorFailed, words
from backhaul.core.printable import storable
from backhaul_sdk import StockLevel
from backhaul_sdk.fields import TAKEN_AS_ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul_sdk import Bad, Connector, Record

MOST = 20
"""Notices of one connector that are shown, and notes of one batch that are logged."""
MOST_COUNTED = 100_000
"""Articles below 0 that are counted."""
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


class BelowZero:
    """The articles whose last level was below 0 and was taken as 0.

    They are counted since the daemon was started.
    """

    def __init__(self) -> None:
        self._skus: dict[str, None] = {}

    def add(self, records: Iterable[Record | Bad]) -> None:
        """Note the levels of a batch that is stored."""
        for record in records:
            if not isinstance(record, StockLevel):
                continue
            if TAKEN_AS_ZERO not in record.note:
                self._skus.pop(record.sku, None)
            elif len(self._skus) < MOST_COUNTED:
                self._skus[record.sku] = None

    def notices(self) -> list[str]:
        """Return how many there are, and one of them; nothing for none."""
        if not self._skus:
            return []
        first = storable(next(iter(self._skus)))[:LONGEST]
        return [
            f"stock below 0 is taken as 0 for {len(self._skus):,} articles, such as"
            f" {first!r}; correct them in the back office"
        ]


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
