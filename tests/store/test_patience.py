"""How long events wait for their commit: a pause of the process does not count."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from backhaul.store.postgres import patience
from backhaul.store.postgres.patience import PAUSE_SECONDS, TICK_SECONDS, Patience
from backhaul.store.sql.round_writer import Batch
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

SECONDS = 8.0


class Scene:
    """Batches that wait, at a time that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.now = 1_000.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(patience, "time", clock)
        self.refused: list[Batch] = []
        self.patience = Patience(seconds, self._refuse)

    def _refuse(self, batches: Iterable[Batch]) -> None:
        self.refused += batches

    def begin(self) -> Batch:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        batch = Batch([()], [future])
        self.patience.begin(batch)
        return batch

    def is_over_after(self, seconds: float) -> bool:
        """Let time pass in which the process works."""
        is_over = False
        for _ in range(int(seconds / TICK_SECONDS)):
            self.now += TICK_SECONDS
            is_over = self.patience.is_over
        return is_over


async def test_batches_are_refused_after_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, SECONDS)
    first = scene.begin()
    assert not scene.is_over_after(SECONDS - 1)
    second = scene.begin()
    assert scene.is_over_after(1)
    await until(lambda: scene.refused, "the timer finds out")
    assert scene.refused == [first, second]
    for batch in (first, second):
        batch.futures[0].cancel()
    scene.patience.end_answered()
    assert not scene.patience.is_over
    scene.patience.stop()


@pytest.mark.parametrize("paused", [PAUSE_SECONDS + TICK_SECONDS + 0.1, 3_600.0])
async def test_time_in_which_the_process_stood_still_does_not_count(
    monkeypatch: pytest.MonkeyPatch, paused: float
) -> None:
    """After a suspended machine wakes up, the server may confirm at once."""
    scene = Scene(monkeypatch, SECONDS)
    scene.begin()
    assert not scene.is_over_after(SECONDS - 2)
    scene.now += paused
    assert not scene.patience.is_over
    assert not scene.is_over_after(1)
    assert scene.is_over_after(1)
    scene.patience.stop()


async def test_without_a_limit_batches_wait_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(monkeypatch, 0.0)
    scene.begin()
    assert not scene.is_over_after(SECONDS * 2)
