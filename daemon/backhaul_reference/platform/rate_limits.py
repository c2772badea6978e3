"""Rate limits: token buckets and per-minute logs on a monotonic clock."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from backhaul_reference.platform.clock import Clock
from backhaul_reference.platform.problems import Problem

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
MAX_BUCKETS = 10_000
WINDOW_SECONDS = 60
ROUNDING_SECONDS = 0.000_001
"""Tolerance for rounding errors: a client that waits as long as stated gets in."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A named limit: so many at once, refilled at a steady rate."""

    name: str
    burst: int
    per_second: float

    @property
    def quota(self) -> int:
        """Requests in a minute, once what may come at once is used up."""
        return round(self.per_second * WINDOW_SECONDS)

    @property
    def header(self) -> str:
        return f'"{self.name}";q={self.quota};w={WINDOW_SECONDS}'

    def set_to(self, quota: int) -> "Policy":
        burst = max(1, round(self.burst * quota / self.quota))
        return Policy(self.name, burst, quota / WINDOW_SECONDS)


@dataclass(frozen=True, slots=True)
class PerMinute:
    """A named limit on any sixty seconds, wherever they begin."""

    name: str
    count: int

    @property
    def header(self) -> str:
        return f'"{self.name}";q={self.count};w={WINDOW_SECONDS}'

    def set_to(self, quota: int) -> "PerMinute":
        return PerMinute(self.name, quota)


PER_KEY = Policy("key", 40, 4.0)
STOREFRONT_READS = Policy("reads", 600, 10.0)
STOREFRONT_ORDERS = Policy("orders", 30, 0.5)
STOREFRONT_QUOTES = Policy("quotes", 120, 2.0)
DISCOUNT_CHECKS = Policy("discounts", 30, 0.5)
TRACKING = Policy("tracking", 60, 1.0)
PAYMENT_REPORTS = PerMinute("reports", 5)
PAYMENT_REPORTS_BY_ADDRESS = PerMinute("reports-address", 30)
UNKNOWN_TOKENS = PerMinute("unknown-tokens", 20)
ALL: tuple[Policy | PerMinute, ...] = (
    *(PER_KEY, STOREFRONT_READS, STOREFRONT_ORDERS, STOREFRONT_QUOTES),
    *(DISCOUNT_CHECKS, TRACKING),
    *(PAYMENT_REPORTS, PAYMENT_REPORTS_BY_ADDRESS, UNKNOWN_TOKENS),
)
NAMES = tuple(one.name for one in ALL)
L = TypeVar("L", Policy, PerMinute)


@dataclass(slots=True)
class Bucket:
    """Remaining tokens at a point in time."""

    left: float
    at: float


class Limits:
    """All rate limits; a disabled limit lets everything pass without headers.

    `quotas` are requests in a minute by the name of a limit; 0 turns it off.
    """

    def __init__(
        self, clock: Clock, *, enabled: bool, quotas: Mapping[str, int] | None = None
    ) -> None:
        self._clock = clock
        self._enabled = enabled
        self._quotas = quotas or {}
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._logs: dict[tuple[str, str], deque[float]] = {}

    def spend(self, policy: Policy, who: str) -> dict[str, str]:
        """Take one token; return the RateLimit headers or raise 429 with them."""
        limit = self._as_set(policy)
        if limit is None:
            return {}
        bucket = self._refilled(limit, who)
        if bucket.left < 1:
            raise _exceeded(limit, bucket)
        bucket.left -= 1
        return _headers(limit, bucket)

    def count(self, policy: PerMinute, who: str) -> dict[str, str]:
        """Count one request; return the RateLimit headers or raise 429 with them."""
        limit = self._as_set(policy)
        if limit is None:
            return {}
        now = self._clock.monotonic()
        log = self._recent(limit, who, now)
        if len(log) >= limit.count:
            wait = math.ceil(log[0] + WINDOW_SECONDS - now)
            raise _refused(limit, max(1, wait))
        log.append(now)
        wait = math.ceil(log[0] + WINDOW_SECONDS - now)
        left = limit.count - len(log)
        return {
            "RateLimit-Policy": limit.header,
            "RateLimit": f'"{limit.name}";r={left};t={wait}',
        }

    def _as_set(self, policy: L) -> L | None:
        """The limit as it is configured; None where it is off."""
        quota = self._quotas.get(policy.name)
        if not self._enabled or quota == 0:
            return None
        return policy if quota is None else policy.set_to(quota)

    def _recent(self, policy: PerMinute, who: str, now: float) -> deque[float]:
        if len(self._logs) >= MAX_BUCKETS:
            self._remove_old(now)
        log = self._logs.setdefault((policy.name, who), deque())
        while log and now - log[0] >= WINDOW_SECONDS - ROUNDING_SECONDS:
            log.popleft()
        return log

    def _remove_old(self, now: float) -> None:
        old = [
            name
            for name, log in self._logs.items()
            if not log or log[-1] <= now - WINDOW_SECONDS
        ]
        for name in old or list(self._logs)[: MAX_BUCKETS // 2]:
            del self._logs[name]

    def reset(self) -> None:
        """Clear all buckets and counters."""
        self._buckets.clear()
        self._logs.clear()

    def _refilled(self, policy: Policy, who: str) -> Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.get((policy.name, who))
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._remove_full(now)
            bucket = self._buckets[policy.name, who] = Bucket(policy.burst, now)
        earned = (now - bucket.at) * policy.per_second
        bucket.left = min(policy.burst, bucket.left + earned)
        bucket.at = now
        return bucket

    def _remove_full(self, now: float) -> None:
        # After two minutes untouched every bucket above is full again.
        old = [name for name, bucket in self._buckets.items() if now - bucket.at > 120]
        for name in old or list(self._buckets)[: MAX_BUCKETS // 2]:
            del self._buckets[name]


def _headers(policy: Policy, bucket: Bucket) -> dict[str, str]:
    wait = math.ceil(max(0.0, policy.burst - bucket.left) / policy.per_second)
    return {
        "RateLimit-Policy": policy.header,
        "RateLimit": f'"{policy.name}";r={int(bucket.left)};t={wait}',
    }


def _exceeded(policy: Policy, bucket: Bucket) -> Problem:
    return _refused(policy, max(1, math.ceil((1 - bucket.left) / policy.per_second)))


def _refused(policy: Policy | PerMinute, wait: int) -> Problem:
    headers = {
        "RateLimit-Policy": policy.header,
        "RateLimit": f'"{policy.name}";r=0;t={wait}',
        "Retry-After": str(wait),
    }
    problem = Problem(
        429, "RATE_LIMITED", "slow down", headers=headers, type=QUOTA_EXCEEDED
    )
    problem.members["violated-policies"] = [policy.name]
    return problem
