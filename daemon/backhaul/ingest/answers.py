"""How deliveries were answered: counted for ever, and the refused ones of an hour."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.core.clock import Clock

KEPT = "kept"
"""The answer 200, after the delivery is durable."""
BUSY = "busy"
"""The answer 503, which `Refusals` logs."""
HOUR_SECONDS = 3_600.0
MINUTE_SECONDS = 60.0
_FIRST = "webhooks"
"""The first part of the path that deliveries are sent to."""


class Answers:
    """Counts answers by store and kind.

    `counted` holds all of them; `known` returns a store's name, or `unknown` for a name
    that is not configured, so that strangers cannot add names without end.
    """

    def __init__(
        self,
        counted: Counter[tuple[str, ...]],
        clock: Clock,
        known: Callable[[str], str],
    ) -> None:
        self._counted = counted
        self._clock = clock
        self._known = known
        self._minutes: deque[tuple[float, Counter[tuple[str, str]]]] = deque()

    def add(self, store: str, answer: str) -> None:
        """Count one delivery to the address of `store`."""
        name = self._known(store)
        self._counted[name, answer] += 1
        if answer != KEPT:
            counts = self._minute()
            counts[name, answer] += 1
            if counts[name, answer] == 1 and answer != BUSY:
                self._log(name, answer)

    def _log(self, store: str, answer: str) -> None:
        """Log the first refusal of a minute: anybody can cause any number of them."""
        logger.bind(action="receive.refused", store=store, answer=answer).info(
            "a delivery to store {} was refused: {}", store, answer
        )

    def add_at(self, path: str, answer: str) -> None:
        """Count one request to `path` that was refused before it was a delivery.

        The path is empty where not even that had arrived.
        """
        first, _, rest = path.lstrip("/").partition("/")
        if first == _FIRST or not path:
            self.add(rest.partition("/")[0], answer)

    def _minute(self) -> Counter[tuple[str, str]]:
        """Return the counts of this minute; those older than an hour are let go."""
        now = self._clock.monotonic()
        if not self._minutes or now >= self._minutes[-1][0] + MINUTE_SECONDS:
            self._minutes.append((now, Counter()))
        while self._minutes[0][0] + HOUR_SECONDS < now:
            self._minutes.popleft()
        return self._minutes[-1][1]

    def refused(self) -> dict[str, dict[str, int]]:
        """Return how many deliveries were refused in the last hour, by store and kind.

        The kinds are those of the counter `webhooks_total`, but for `kept`.
        """
        oldest = self._clock.monotonic() - HOUR_SECONDS
        total: Counter[tuple[str, str]] = Counter()
        for began, counts in self._minutes:
            total.update(counts if began >= oldest else {})
        found: dict[str, dict[str, int]] = {}
        for (store, answer), number in total.items():
            found.setdefault(store, {})[answer] = number
        return found
