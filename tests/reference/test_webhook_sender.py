"""One delivery attempt without a network, and the schedule of retries."""

import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aioresponses import aioresponses

from backhaul_reference.platform.clock import SystemClock
from backhaul_reference.platform.faults import Faults
from backhaul_reference.platform.webhooks.sender import (
    DEFAULT_DELAYS,
    DeliveryFaults,
    Schedule,
    Sender,
    parse_schedule,
    retry_after_seconds,
    service_signature,
)

URL = "https://erp.example/hook"


class MockedResponse(aiohttp.ClientResponse):
    """aioresponses 0.7.9 does not know the argument that aiohttp 3.14 requires."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("stream_writer", SimpleNamespace(output_size=0))
        super().__init__(*args, **kwargs)


def claimed(**values: Any) -> Any:
    return {
        "seq": 1,
        "id": "dlv_1",
        "lease_ms": 0,
        "attempts": 0,
        "series_start": 0,
        "subscription_id": "whk_1",
        "address": URL,
        "secret": "whsec_AAAA",
        "previous_secret": None,
        "previous_until_ms": None,
        "event_id": "evt_1",
        "topic": "orders/create",
        "body": b"{}",
        "created_ms": 0,
        "subdomain": "demo",
        "store_id": "sto_1",
        "quirks": "[]",
        **values,
    }


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    async with aiohttp.ClientSession() as session:
        clock = SystemClock()
        mischief = DeliveryFaults(Faults(), clock)
        yield Sender(session, clock, Schedule(), lambda: 0.5, False, mischief)


@pytest.mark.parametrize(
    ("status", "delivered", "retried", "gone"),
    [
        (200, True, False, False),
        (204, True, False, False),
        (301, False, True, False),
        (404, False, True, False),
        (410, False, False, True),
        (500, False, True, False),
    ],
)
async def test_a_status_decides_whether_a_delivery_is_retried(
    sender: Sender, status: int, delivered: bool, retried: bool, gone: bool
) -> None:
    with aioresponses() as mocked:
        mocked.post(URL, status=status, response_class=MockedResponse)
        attempt = await sender.attempt(claimed())
    assert (attempt.delivered, attempt.gone) == (delivered, gone)
    assert (attempt.next_ms is not None) is retried


@pytest.mark.parametrize(
    ("failure", "word"),
    [
        (TimeoutError(), "timeout"),
        (aiohttp.ClientConnectionError(), "ClientConnectionError"),
        (OSError(), "OSError"),
    ],
)
async def test_failures_are_named_and_retried(
    sender: Sender, failure: Exception, word: str
) -> None:
    with aioresponses() as mocked:
        mocked.post(URL, exception=failure, response_class=MockedResponse)
        attempt = await sender.attempt(claimed())
    assert (attempt.error, attempt.status_code) == (word, None)
    assert attempt.next_ms is not None


async def test_both_secrets_sign_during_rotation(sender: Sender) -> None:
    row = claimed(previous_secret="whsec_BBBB", previous_until_ms=2**60)
    with aioresponses() as mocked:
        mocked.post(URL, response_class=MockedResponse)
        await sender.attempt(row)
        (calls,) = mocked.requests.values()
    headers = calls[0].kwargs["headers"]
    assert len(headers["webhook-signature"].split()) == 2
    expected = service_signature("whsec_AAAA", b"{}")
    assert headers["X-Service-Hmac-Sha256"] == expected


def test_the_default_schedule_lasts_27_hours_35_minutes() -> None:
    assert sum(DEFAULT_DELAYS) == 27 * 3600 + 35 * 60 + 5
    schedule = Schedule()
    dues = [schedule.next_ms(n, 0, lambda: 0.5) for n in range(1, 9)]
    assert dues[:2] == [5_000, 300_000]
    assert dues[-1] is None


def test_jitter_stays_within_a_tenth() -> None:
    chance = random.Random(7).random  # noqa: S311  - no secret
    found = [Schedule((0.0, 100.0)).next_ms(1, 0, chance) or 0 for _ in range(500)]
    assert 90_000 <= min(found) < 92_000
    assert 108_000 < max(found) <= 110_000


@pytest.mark.parametrize("text", ["", "a", "-1", "nan", "1,,2", "inf", "1e9"])
def test_an_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  - the command line shows its text
        parse_schedule(text)


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (503, "7", 7.0),
        (429, "999999999", 86400.0),
        (500, "7", None),
        (503, "soon", None),
        (503, "", None),
        (429, "Thu, 01 Jan 1970 00:01:00 GMT", 60.0),
        (429, "٣", None),
        (503, "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ],
)
def test_retry_after(status: int, value: str, seconds: float | None) -> None:
    assert retry_after_seconds(status, {"Retry-After": value}, 0) == seconds
