"""Request budget of a platform: a token bucket learnt from its responses."""

from __future__ import annotations

import re
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ASSUMED_PER_SECOND = 4.0
ASSUMED_BURST = 40.0
"""Assumed burst of a platform that answers 429 without stating its policy."""
LONGEST_PAUSE_SECONDS = 300.0
"""After this time one request is tried, whatever the platform asked for."""
SLOWEST_PER_SECOND = 0.1
RECOVERY_SECONDS = 60.0
"""Time without a 429 after which an assumed rate is doubled again."""
NO_WAIT_SECONDS = 1e-6
"""A shorter wait counts as none: a clock may be too coarse to measure it."""
DEFAULT_WAIT_SECONDS = 1.0
"""Wait after a 429 that states none."""
_PARAMETER = re.compile(r";\s*([a-z]+)=(\d{1,9})")


class Priority(Enum):
    """Share of the bucket that stays reserved for more urgent requests."""

    COMMAND = 0.0
    PROOF = 0.1
    REREAD = 0.25
    INCREMENTAL = 0.30
    SWEEP = 0.35


PATIENCE_SECONDS = {
    Priority.PROOF: 5.0,
    Priority.REREAD: 15.0,
    Priority.INCREMENTAL: 60.0,
}
"""A read that waits longer than this is overdue."""


class Budget:
    """One bucket per API key. Times are monotonic seconds.

    Nothing that the platform says stops all requests for more than `longest_pause`
    seconds: a value may be wrong, and too long a pause would be an outage.
    """

    def __init__(self, longest_pause: float = LONGEST_PAUSE_SECONDS) -> None:
        self._longest_pause = longest_pause
        self._per_second: float | None = None
        self._burst = 0.0
        self._left = 0.0
        self._at = 0.0
        self._closed_until = 0.0
        self._under_way = 0
        self._taken = 0
        self._overdue = 0
        self._policy_known = False
        self._slowed_at = 0.0

    @property
    def per_second(self) -> float | None:
        """The steady rate; None while no limit is known."""
        return self._per_second

    def wait_seconds(
        self, priority: Priority, now: float, *, overdue: bool = False
    ) -> float:
        """Return how long a request of this priority must wait; 0 if it may leave."""
        closed = self._closed_until - now
        if closed > NO_WAIT_SECONDS:
            return closed
        if self._per_second is None:
            return 0.0
        self._refill(now)
        if priority is Priority.COMMAND:
            reserve = self._kept_back
        else:
            share = 0.0 if overdue else priority.value
            reserve = max(min(share * self._burst, self._burst - 1), 0.0)
        wait = (reserve + 1 - self._left) / self._per_second
        return wait if wait > NO_WAIT_SECONDS else 0.0

    def pause_seconds(self, now: float) -> float:
        """Return for how long even the most urgent request must wait."""
        closed = max(self._closed_until - now, 0.0)
        if self._per_second is None:
            return closed
        self._refill(now)
        return max(closed, self._at - now + (1 - self._left) / self._per_second)

    def take(self, most: int, now: float) -> int:
        """Reserve room for up to `most` commands; return the number that got room.

        Each room is then used by `leave`, or returned with `give_back`.
        """
        if self._closed_until - now > NO_WAIT_SECONDS:
            return 0
        if self._per_second is None:
            return most
        self._refill(now)
        free = self._left - self._kept_back + NO_WAIT_SECONDS * self._per_second
        room = max(min(most, int(free)), 0)
        self._left -= room
        self._taken += room
        return room

    @contextmanager
    def overdue(self) -> Iterator[None]:
        """Make commands leave room for a read until it was sent."""
        self._overdue += 1
        try:
            yield
        finally:
            self._overdue -= 1

    @property
    def _kept_back(self) -> float:
        return 1.0 if self._overdue else 0.0

    def give_back(self, unused: int) -> None:
        """Undo `take` for commands that were not sent after all."""
        back = min(unused, self._taken)
        self._taken -= back
        self._left = min(self._left + back, self._burst)

    def leave(self) -> None:
        """Record a request whose room was reserved before."""
        self._taken = max(self._taken - 1, 0)
        self._under_way += 1

    def spend(self, now: float) -> None:
        """Record a request that had no reserved room."""
        self._under_way += 1
        if self._per_second is not None:
            self._refill(now)
            self._left = max(self._left - 1, 0.0)

    def answered(self, now: float, policy: str = "", limit: str = "") -> None:
        """Record a response; `policy` and `limit` are its RateLimit headers."""
        self._under_way -= 1
        quota, window = _parameters(policy, "q", "w")
        left, seconds = _parameters(limit, "r", "t")
        if not quota or not window or left is None:
            return
        self._policy_known = True
        self._per_second = max(quota / window, 1 / self._longest_pause)
        full = left + (seconds or 0) * self._per_second
        self._burst = max(min(full, float(quota)), float(left), 1.0)
        # The header does not count requests that are in flight or reserved.
        self._left = max(left - self._under_way - self._taken, 0.0)
        self._at = now

    def throttled(self, now: float, retry_after_seconds: float | None) -> None:
        """Record a 429: nothing is read during the wait that it asks for."""
        if not self._policy_known and now >= self._closed_until:
            self._assume()
        self._slowed_at = now
        wait = min(retry_after_seconds or DEFAULT_WAIT_SECONDS, self._longest_pause)
        self._closed_until = max(self._closed_until, now + wait)
        self._left, self._at = 0.0, self._closed_until

    def _assume(self) -> None:
        if self._per_second is None:
            self._per_second, self._burst = ASSUMED_PER_SECOND, ASSUMED_BURST
        else:
            self._per_second = max(self._per_second / 2, SLOWEST_PER_SECOND)
            self._burst = max(self._burst / 2, 1.0)

    def _refill(self, now: float) -> None:
        self._recover(now)
        earned = max(now - self._at, 0.0) * (self._per_second or 0.0)
        self._left = min(self._left + earned, self._burst)
        self._at = max(now, self._at)

    def _recover(self, now: float) -> None:
        """Raise the assumed rate again after a time without a 429."""
        per_second = self._per_second or ASSUMED_PER_SECOND
        quiet = now - self._slowed_at > RECOVERY_SECONDS
        if quiet and not self._policy_known and per_second < ASSUMED_PER_SECOND:
            self._per_second = min(per_second * 2, ASSUMED_PER_SECOND)
            self._burst = min(self._burst * 2, ASSUMED_BURST)
            self._slowed_at = now


def _parameters(header: str, *names: str) -> list[int | None]:
    """Return the integers of a structured field's first member, None where absent."""
    found = {name: int(value) for name, value in _PARAMETER.findall(_first(header))}
    return [found.get(name) for name in names]


def _first(header: str) -> str:
    return header.partition(",")[0]


def policy_in_words(header: str) -> str:
    """Return a RateLimit-Policy header for people: `240 requests in 60 s`."""
    quota, window = _parameters(header, "q", "w")
    if quota is None:
        return header[:60] or "unknown"
    return f"{quota} requests" + ("" if window is None else f" in {window} s")


def limit_in_words(said: str, headers: Mapping[str, str]) -> str:
    """Return what a platform said, and its headers that ask for a pause."""
    names = ("Retry-After", "RateLimit-Policy", "RateLimit")
    told = [f"{name}: {headers[name]:.60}" for name in names if name in headers]
    return f"the platform answered {said} ({'; '.join(told)})"
