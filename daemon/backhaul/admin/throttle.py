"""Slows down who guesses passwords, by name and by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.core.clock import Clock

FREE = 5
"""So many failures cost nothing; then each doubles the wait."""
LONGEST_SECONDS = 300.0
FORGOTTEN_SECONDS = 3_600.0
MOST_KEYS = 10_000


class _Tries(Struct):
    failures: int
    last: float

    def wait(self) -> float:
        if self.failures < FREE:
            return 0.0
        return min(2.0 ** min(self.failures - FREE, 20), LONGEST_SECONDS)


class Throttle:
    """Counts failures, before they are known to be: who guesses at once is counted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tries: dict[str, _Tries] = {}

    def wait(self, keys: Iterable[str]) -> float:
        """Return for how many seconds none of these may try again."""
        now = self._clock.monotonic()
        found = [self._tries[key] for key in keys if key in self._tries]
        return max((one.last + one.wait() - now for one in found), default=0.0)

    def failed(self, keys: Iterable[str]) -> None:
        """Count a failure of each."""
        now = self._clock.monotonic()
        for key in keys:
            before = self._tries.pop(key, None)
            if before is None or now - before.last > FORGOTTEN_SECONDS:
                before = _Tries(0, now)
            # The oldest stand first: who comes back goes to the end.
            self._tries[key] = _Tries(before.failures + 1, now)
        while len(self._tries) > MOST_KEYS:
            del self._tries[next(iter(self._tries))]

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of the name, and take one back of the address.

        Whoever has an account must not clear an address that guesses others.
        """
        self._tries.pop(name, None)
        if (found := self._tries.get(address)) is not None:
            found.failures -= 1
