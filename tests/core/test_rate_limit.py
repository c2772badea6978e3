"""The rate budget: limits of the platform, reserves for commands, and priorities."""

from __future__ import annotations

import pytest

from backhaul.core.rate_limit import (
    LONGEST_PAUSE_SECONDS,
    Budget,
    Priority,
    policy_in_words,
)

POLICY = '"key";q=240;w=60'
READS = (Priority.REREAD, Priority.INCREMENTAL, Priority.SWEEP)


def budget_after(left: int, seconds: int, now: float = 0.0) -> Budget:
    """Return a budget after one response with these headers."""
    budget = Budget()
    budget.spend(now)
    budget.answered(now, POLICY, f'"key";r={left};t={seconds}')
    return budget


def spend(budget: Budget, priority: Priority, now: float) -> int:
    """Take requests until the budget is spent; return their number."""
    count = 0
    while budget.wait_seconds(priority, now) == 0:
        budget.spend(now)
        count += 1
    return count


@pytest.mark.parametrize("priority", Priority)
def test_nothing_waits_until_a_limit_is_known(priority: Priority) -> None:
    assert Budget().wait_seconds(priority, 5.0) == 0
    assert Budget().per_second is None


def test_the_rate_follows_the_policy() -> None:
    assert budget_after(39, 1).per_second == 4.0


RESERVES = {Priority.COMMAND: 0, Priority.REREAD: 10, Priority.SWEEP: 14}


@pytest.mark.parametrize("priority", RESERVES)
def test_a_read_leaves_its_reserve(priority: Priority) -> None:
    assert spend(budget_after(40, 0), priority, 0.0) == 40 - RESERVES[priority]


def test_the_more_urgent_read_goes_first() -> None:
    budget = budget_after(10, 8)
    waits = [budget.wait_seconds(priority, 0.0) for priority in READS]
    assert waits == sorted(set(waits))
    assert waits[0] > 0


def test_a_wait_is_long_enough_and_no_longer() -> None:
    budget = budget_after(12, 7)
    wait = budget.wait_seconds(Priority.SWEEP, 0.0)
    assert wait == pytest.approx((40 * 0.35 + 1 - 12) / 4)
    assert budget.wait_seconds(Priority.SWEEP, wait * 0.9) > 0
    assert budget.wait_seconds(Priority.SWEEP, wait) == 0


def test_a_steady_reader_uses_all_that_comes_in() -> None:
    budget, now, count = budget_after(40, 0), 0.0, 0
    while now < 100.0:
        wait = budget.wait_seconds(Priority.SWEEP, now)
        now += wait
        if not wait:
            budget.spend(now)
            count += 1
    assert 0.99 * 400 <= count - 26 <= 401


def test_requests_under_way_count() -> None:
    budget = Budget()
    for _ in range(5):
        budget.spend(0.0)
    budget.answered(0.0, POLICY, '"key";r=32;t=2')
    assert spend(budget, Priority.REREAD, 0.0) == 32 - 4 - 10


def test_other_users_of_the_key_are_seen() -> None:
    budget = budget_after(39, 1)
    budget.spend(0.1)
    budget.answered(0.1, POLICY, '"key";r=3;t=10')
    assert budget.wait_seconds(Priority.REREAD, 0.1) > 1


def test_a_small_bucket_is_never_closed_for_good() -> None:
    budget = Budget()
    budget.spend(0.0)
    budget.answered(0.0, '"key";q=1;w=10', '"key";r=0;t=10')
    for priority in READS:
        assert 0 < budget.wait_seconds(priority, 0.0) <= 10.1


def test_no_policy_closes_for_longer_than_the_longest_pause() -> None:
    budget = Budget()
    budget.spend(0.0)
    budget.answered(0.0, '"key";q=1;w=999999999', '"key";r=0;t=999999999')
    assert budget.wait_seconds(Priority.COMMAND, 0.0) == LONGEST_PAUSE_SECONDS
    assert budget.take(1, LONGEST_PAUSE_SECONDS) == 1


def test_a_429_closes_for_as_long_as_it_says() -> None:
    budget = Budget()
    budget.throttled(5.0, 30.0)
    assert budget.wait_seconds(Priority.COMMAND, 5.0) == 30.0
    assert budget.wait_seconds(Priority.COMMAND, 34.0) == 1.0
    budget.throttled(6.0, 1.0)
    assert budget.wait_seconds(Priority.COMMAND, 6.0) == 29.0


def test_after_a_429_without_policy_the_contract_is_assumed() -> None:
    budget = Budget()
    budget.throttled(0.0, None)
    assert budget.per_second == 4.0
    assert spend(budget, Priority.COMMAND, 1.0) == 0
    assert spend(budget, Priority.COMMAND, 2.0) == 4


def test_a_budget_that_is_still_too_fast_slows_down_once_per_429() -> None:
    budget = Budget()
    budget.throttled(0.0, 1.0)
    budget.throttled(0.5, 1.0)
    assert budget.per_second == 4.0
    budget.throttled(2.0, 1.0)
    assert budget.per_second == 2.0
    for second in range(10, 1_000, 10):
        budget.throttled(second, 1.0)
    assert budget.per_second == 0.1


def test_a_429_does_not_override_the_policy() -> None:
    budget = budget_after(1, 10)
    budget.throttled(0.0, 2.0)
    assert budget.per_second == 4.0


@pytest.mark.parametrize(
    ("policy", "limit"),
    [
        ("", ""),
        ("240", "39"),
        ('"key";q=240', '"key";r=3'),
        ('"key";q=0;w=60', '"key";r=0;t=1'),
        ('"key";q=240;w=0', '"key";r=3;t=1'),
        ('"key";q=x;w=60', '"key";r=3;t=1'),
    ],
)
def test_words_that_say_nothing_set_no_limit(policy: str, limit: str) -> None:
    budget = Budget()
    budget.spend(0.0)
    budget.answered(0.0, policy, limit)
    assert budget.per_second is None


@pytest.mark.parametrize("per_minute", [6, 60, 240, 6_000])
def test_a_request_that_waited_long_enough_finds_room(per_minute: int) -> None:
    budget, now = Budget(), 0.1
    budget.spend(now)
    budget.answered(now, f'"key";q={per_minute};w=60', '"key";r=0;t=1')
    for _ in range(100):
        now += budget.wait_seconds(Priority.COMMAND, now)
        assert budget.take(1, now) == 1
        assert budget.take(1, now) == 0


def test_a_retry_uses_no_room_of_other_requests() -> None:
    budget = budget_after(10, 0)
    assert budget.take(2, 0.0) == 2
    budget.leave()
    budget.spend(0.0)
    budget.answered(0.0)
    budget.answered(0.0, POLICY, '"key";r=8;t=1')
    assert budget.take(99, 0.0) == 7


def test_commands_leave_room_for_a_read_that_is_overdue() -> None:
    budget = budget_after(0, 10)
    with budget.overdue():
        assert budget.take(9, 0.25) == 0
        assert budget.wait_seconds(Priority.COMMAND, 0.25) == pytest.approx(0.25)
        assert budget.wait_seconds(Priority.PROOF, 0.25) > 0
        assert budget.wait_seconds(Priority.PROOF, 0.25, overdue=True) == 0
        budget.spend(0.25)
        assert budget.take(9, 0.75) == 1
    assert budget.take(9, 1.0) == 2


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (POLICY, "240 requests in 60 s"),
        ('"a";q=5', "5 requests"),
        ("whatever", "whatever"),
        ("", "unknown"),
    ],
)
def test_a_policy_is_shown_in_words(header: str, words: str) -> None:
    assert policy_in_words(header) == words
