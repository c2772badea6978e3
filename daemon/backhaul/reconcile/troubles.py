"""What keeps one store from being read, said once, and its end too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.reconcile.sweeping import Step


class GivenUp(BackhaulError):
    """A walk on demand brought no new page for too long; what was read is kept."""


class Stuck(Struct):
    """For how long a walk over one list has failed without a new page."""

    clock: Clock
    _page: int = 0
    _since: float | None = None

    def see(self, step: Step) -> None:
        """Take note of a page; those that are read again at each try are none."""
        if step.page > self._page:
            self._page, self._since = step.page, None

    def seconds(self) -> float:
        """Return how long that is, from the first failure that this was asked at."""
        now = self.clock.monotonic()
        self._since = now if self._since is None else self._since
        return now - self._since


class Troubles(Struct):
    """Readings, each by its job and list, that fail; all of them are tried again.

    An outage meets every list, and does so every minute.
    """

    store: str
    _failing: dict[tuple[str, str], str] = field(default_factory=dict)

    def met(self, reading: tuple[str, str], error: Exception) -> None:
        """Take note that a reading failed."""
        is_foreseen = isinstance(error, BackhaulError)
        said = str(error) if is_foreseen else f"{type(error).__name__}: {error}"
        is_news = reading not in self._failing and said not in self._failing.values()
        self._failing.setdefault(reading, said)
        if is_news:
            logger.bind(action="reconcile.failed", store=self.store).opt(
                exception=None if is_foreseen else error
            ).log(
                "WARNING" if is_foreseen else "ERROR",
                "store {}: {}; tried again until it works",
                self.store,
                said,
            )

    def given_up(self, reading: tuple[str, str]) -> None:
        """Take note that a reading is not tried again."""
        self._failing.pop(reading, None)

    def over(self, reading: tuple[str, str]) -> None:
        """Take note that a reading came through."""
        if self._failing.pop(reading, None) is not None and not self._failing:
            logger.bind(action="reconcile.resumed", store=self.store).warning(
                "store {}: everything can be read again", self.store
            )
