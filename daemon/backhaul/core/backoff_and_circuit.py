"""Retry delays (exponential backoff) and the circuit breaker."""

from __future__ import annotations


def delay_seconds(
    attempt: int, *, base_seconds: float, cap_seconds: float, chance: float
) -> float:
    """Return the wait after failed attempt number `attempt` (from 1), in seconds.

    Exponential with equal jitter: half the step is certain, the other half is spread
    by `chance` in [0, 1), so that many clients do not come back at once.
    """
    step = min(cap_seconds, base_seconds * 2.0 ** min(attempt - 1, 32))
    return step / 2 + step / 2 * chance


FAILURES_TO_OPEN = 5
PROBE_SECONDS = 10.0
"""Wait between two probes of a platform that fails."""


class Circuit:
    """Circuit breaker that counts failed commands in a row.

    It is half open after a successful probe: one command at a time is tried.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._half_open = False
        self._reads_fail = False

    @property
    def reads_wait(self) -> bool:
        """Whether only probes may read."""
        return self.open and self._reads_fail

    @property
    def open(self) -> bool:
        """Whether no command may be sent."""
        return self._failures >= FAILURES_TO_OPEN and not self._half_open

    @property
    def half_open(self) -> bool:
        """Whether only one command at a time may be sent."""
        return self._half_open

    def failed(self) -> None:
        """Record a command without a usable response: refused, reset, late or 5xx."""
        self._failures += 1
        self._half_open = False

    def answered(self) -> None:
        """Record a response from the platform itself, even a refusal."""
        self._failures = 0
        self._half_open = False

    def read(self, *, answered: bool) -> None:
        """Record whether a read was answered."""
        self._reads_fail = not answered

    def probed(self, *, answered: bool) -> None:
        """Record whether a probe was answered; commands may still fail."""
        self.read(answered=answered)
        self._half_open = answered and self._failures >= FAILURES_TO_OPEN
