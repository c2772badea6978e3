"""When a row read from the platform counts as drift from the mirror."""

from __future__ import annotations

import pytest

from backhaul.core.fold import Drift, Version, drift_of

EARLY, LATE = "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:01.000Z"
BEFORE, BEGAN, AFTER = "2026-03-01T13:00", "2026-03-01T13:01", "2026-03-01T13:02"


def held(updated_at: str, seen_at: str, digest: bytes = b"mirror") -> Version:
    return Version(updated_at, 0, True, seen_at, digest)


def test_an_object_that_is_not_in_the_mirror_was_missed() -> None:
    assert drift_of(None, EARLY, b"read", BEGAN) is Drift.MISSED


@pytest.mark.parametrize("seen_at", [BEFORE, AFTER])
def test_equal_content_is_no_drift(seen_at: str) -> None:
    assert drift_of(held(LATE, seen_at, b"read"), EARLY, b"read", BEGAN) is None


@pytest.mark.parametrize("seen_at", [BEFORE, AFTER])
def test_newer_content_is(seen_at: str) -> None:
    assert drift_of(held(EARLY, seen_at), LATE, b"read", BEGAN) is Drift.STALE


def test_older_content_is_no_drift_if_an_event_came_after_the_read_began() -> None:
    assert drift_of(held(LATE, AFTER), EARLY, b"read", BEGAN) is None
    assert drift_of(held(LATE, BEGAN), EARLY, b"read", BEGAN) is None
    assert drift_of(held(LATE, BEFORE), EARLY, b"read") is None


def test_older_content_is_drift_where_the_mirror_knew_before_the_read() -> None:
    assert drift_of(held(LATE, BEFORE), EARLY, b"read", BEGAN) is Drift.STALE
