"""Rate limits: token buckets on the monotonic clock."""

import math
from dataclasses import dataclass

from backhaul_reference.clock import Clock
from backhaul_reference.problems import Problem

QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
MAX_BUCKETS = 10_000


@dataclass(frozen=True, slots=True)
class Policy:
    """A named limit: so many at once, refilled at a steady rate."""

    name: str
    burst: int
    per_second: float

    @property
    def header(self) -> str:
        return f'"{self.name}";q={round(self.per_second * 60)};w=60'


PER_KEY = Policy("key", 40, 4.0)
STOREFRONT_READS = Policy("reads", 600, 10.0)
STOREFRONT_ORDERS = Policy("orders", 30, 0.5)
STOREFRONT_QUOTES = Policy("quotes", 120, 2.0)
TRACKING = Policy("tracking", 60, 1.0)


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

    def spend(self, policy: Policy, who: str) -> dict[str, str]:
        """Take one; answers the RateLimit headers, or raises 429 with them."""
        if not self._enabled:
            return {}
        bucket = self._refilled(policy, who)
        if bucket.left < 1:
            raise _exceeded(policy, bucket)
        bucket.left -= 1
        return _headers(policy, bucket)

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
    wait = max(1, math.ceil((1 - bucket.left) / policy.per_second))
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
