"""Anything that a connector raises is a failure of this connector alone."""

from __future__ import annotations

import asyncio

import pytest

from backhaul.connect.health import ConnectorFailed, guarded
from backhaul_sdk import CheckFailed


async def breaking() -> None:
    """Fail as a task group whose task fails at that moment."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise RuntimeError("the line broke") from None


async def test_an_unrequested_cancellation_is_a_failure() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ConnectorFailed, match="the connector cancelled its own task"):
        await guarded(work())


@pytest.mark.parametrize("kind", [CheckFailed, ValueError])
async def test_a_failure_message_with_any_characters_can_be_stored(
    kind: type[Exception],
) -> None:
    """A truncated response may end with half an emoji, which no database can store."""

    async def work() -> None:
        raise kind("the ERP says: out of paper \ud83d")

    with pytest.raises(ConnectorFailed, match=r"out of paper \?$") as caught:
        await guarded(work())
    assert str(caught.value).encode()


class Wordless(Exception):
    def __str__(self) -> str:
        raise KeyError("message")


async def test_an_error_that_cannot_be_shown_is_a_failure_like_any_other() -> None:
    async def work() -> None:
        raise Wordless

    with pytest.raises(ConnectorFailed, match=r"Wordless: .* no text: KeyError"):
        await guarded(work())


async def test_a_stop_is_heard_whatever_the_connector_raises_then() -> None:
    task = asyncio.ensure_future(guarded(breaking()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_its_time_is_over_whatever_the_connector_raises_then() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await guarded(breaking())
