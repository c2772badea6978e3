"""How long to wait before trying again."""

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
