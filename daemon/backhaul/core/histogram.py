"""Durations counted in buckets, and percentiles of them.

The bounds of the buckets are fixed and grow by a factor, so the counts of several
minutes and of several daemons add up, and a percentile is exact to 10 %.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, log2
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

SMALLEST_SECONDS = 0.001
PER_DOUBLING = 4
"""The buckets between a duration and twice of it; the factor is 2 ** (1 / 4)."""
LAST_BUCKET = 120
"""Holds everything from 12 days on; bucket 0 everything up to a millisecond."""
_DECODE = msgspec.json.Decoder(dict[int, int]).decode


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket that counts a duration."""
    if seconds <= SMALLEST_SECONDS:
        return 0
    return min(ceil(PER_DOUBLING * log2(seconds / SMALLEST_SECONDS)), LAST_BUCKET)


def seconds_of(bucket: int) -> float:
    """Return the duration that stands for a bucket: its middle, 0.001 of the first."""
    middle = max(bucket - 0.5, 0.0)
    return float(SMALLEST_SECONDS * 2 ** (middle / PER_DOUBLING))


def percentile(counts: Mapping[int, int], part: float) -> float | None:
    """Return the seconds that `part` of the durations do not exceed; None if empty.

    `part` is 0.5 for the median, and 0.99 for all but the slowest hundredth.
    """
    wanted = ceil(part * sum(counts.values()))
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= wanted and counts[bucket]:
            return seconds_of(bucket)
    return None


def to_text(counts: Mapping[int, int]) -> str:
    """Return counts as a JSON object, without the empty buckets."""
    return msgspec.json.encode({k: n for k, n in counts.items() if n}).decode()


def from_text(text: str) -> Counter[int]:
    """Return the counts of a JSON object; none if it is damaged."""
    try:
        return Counter(_DECODE(text))
    except (msgspec.DecodeError, TypeError):
        return Counter()
