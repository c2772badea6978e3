"""What keeps one store from being read, said once, and its end too."""

from __future__ import annotations

from dataclasses import dataclass, field

from loguru import logger


@dataclass(slots=True)
class Troubles:
    """Readings, each by its job and list, that fail; all of them are tried again.

    An outage meets every list, and does so every minute.
    """

    store: str
    _failing: dict[tuple[str, str], str] = field(default_factory=dict)

    def met(self, reading: tuple[str, str], error: Exception) -> None:
        """Take note that a reading failed."""
        said = str(error)
        is_news = reading not in self._failing and said not in self._failing.values()
        self._failing.setdefault(reading, said)
        if is_news:
            logger.bind(action="reconcile.failed", store=self.store).warning(
                "store {}: {}; tried again until it works", self.store, said
            )

    def over(self, reading: tuple[str, str]) -> None:
        """Take note that a reading came through."""
        if self._failing.pop(reading, None) is not None and not self._failing:
            logger.bind(action="reconcile.resumed", store=self.store).warning(
                "store {}: everything can be read again", self.store
            )
