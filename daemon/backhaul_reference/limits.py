"""Rate limits on the monotonic clock: token buckets, and logs of the last minute."""

import math
from collections import deque
from dataclasses import dataclass

from backhaul_reference.clock import Clock
from backhaul_reference.problems import Problem

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
MAX_BUCKETS = 10_000
WINDOW_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Policy:
    """A named limit: so many at once, refilled at a steady rate."""

    name: str
    burst: int
    per_second: float

    @property
    def header(self) -> str:
        return f'"{self.name}";q={round(self.per_second * 60)};w=60'


@dataclass(frozen=True, slots=True)
class PerMinute:
    """A named limit on any sixty seconds, wherever they begin."""

    name: str
    count: int

    @property
    def header(self) -> str:
        return f'"{self.name}";q={self.count};w={WINDOW_SECONDS}'


PER_KEY = Policy("key", 40, 4.0)
STOREFRONT_READS = Policy("reads", 600, 10.0)
STOREFRONT_ORDERS = Policy("orders", 30, 0.5)
STOREFRONT_QUOTES = Policy("quotes", 120, 2.0)
DISCOUNT_CHECKS = Policy("discounts", 30, 0.5)
TRACKING = Policy("tracking", 60, 1.0)
PAYMENT_REPORTS = PerMinute("reports", 5)
PAYMENT_REPORTS_BY_ADDRESS = PerMinute("reports-address", 30)
UNKNOWN_TOKENS = PerMinute("unknown-tokens", 20)


@dataclass(slots=True)
class Bucket:
    """What is left, as of a moment."""

    left: float
    at: float


class Limits:
    """All buckets; `enabled` false lets everything pass and says nothing."""

    def __init__(self, clock: Clock, *, enabled: bool) -> None:
        self._clock = clock
        self._enabled = enabled
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._logs: dict[tuple[str, str], deque[float]] = {}

    def spend(self, policy: Policy, who: str) -> dict[str, str]:
        """Take one; answers the RateLimit headers, or raises 429 with them."""
        if not self._enabled:
            return {}
        bucket = self._refilled(policy, who)
        if bucket.left < 1:
            raise _exceeded(policy, bucket)
        bucket.left -= 1
        return _headers(policy, bucket)

    def count(self, policy: PerMinute, who: str) -> dict[str, str]:
        """Note one request; answers the RateLimit headers, or raises 429 with them."""
        if not self._enabled:
            return {}
        now = self._clock.monotonic()
        log = self._recent(policy, who, now)
        if len(log) >= policy.count:
            wait = math.ceil(log[0] + WINDOW_SECONDS - now)
            raise _refused(policy, max(1, wait))
        log.append(now)
        wait = math.ceil(log[0] + WINDOW_SECONDS - now)
        left = policy.count - len(log)
        return {
            "RateLimit-Policy": policy.header,
            "RateLimit": f'"{policy.name}";r={left};t={wait}',
        }

    def _recent(self, policy: PerMinute, who: str, now: float) -> deque[float]:
        if len(self._logs) >= MAX_BUCKETS:
            self._forget_old(now)
        log = self._logs.setdefault((policy.name, who), deque())
        while log and log[0] <= now - WINDOW_SECONDS:
            log.popleft()
        return log

    def _forget_old(self, now: float) -> None:
        old = [
            name
            for name, log in self._logs.items()
            if not log or log[-1] <= now - WINDOW_SECONDS
        ]
        for name in old or list(self._logs)[: MAX_BUCKETS // 2]:
            del self._logs[name]

    def forget(self) -> None:
        """Everybody may begin anew."""
        self._buckets.clear()

    def _refilled(self, policy: Policy, who: str) -> Bucket:
        now = self._clock.monotonic()
        bucket = self._buckets.get((policy.name, who))
        if bucket is None:
            if len(self._buckets) >= MAX_BUCKETS:
                self._forget_full(now)
            bucket = self._buckets[policy.name, who] = Bucket(policy.burst, now)
        earned = (now - bucket.at) * policy.per_second
        bucket.left = min(policy.burst, bucket.left + earned)
        bucket.at = now
        return bucket

    def _forget_full(self, now: float) -> None:
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
