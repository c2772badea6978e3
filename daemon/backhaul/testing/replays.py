"""Captures folded into mirrors of a test's own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.core.clock import SystemClock, normalize
from backhaul.ingest.known_stores import fold_for
from backhaul.testing.mirrors import Mirror
from backhaul.traffic import captures, replaying
from backhaul.traffic.disorder import Disorder

if TYPE_CHECKING:
    from os import PathLike


class Replays:
    """Makes one mirror for each replay, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def __call__(
        self,
        capture: str | PathLike[str],
        *,
        shuffle: int | None = None,
        duplicate: float = 0.0,
        drop: float = 0.0,
        until: str | None = None,
    ) -> Mirror:
        """Fold the capture and return the mirror that came of it.

        `until` is any RFC 3339 time; without a zone it is UTC. Raises ValueError where
        it is none, and Unusable, naming file and line, for what is no capture.
        """
        head = captures.read_head(Path(capture))
        end = None if until is None else normalize(until)
        disorder = Disorder(shuffle, duplicate, drop, end)
        run = disorder.apply(captures.read(Path(capture)))
        path = self._folder / f"replay-{next(self._numbers)}.db"
        folding = replaying.replay_into(
            path, run, head.stores, fold_for(head.stores), SystemClock()
        )
        # In a thread: the test itself may run in an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, folding).result()
        return Mirror(path)
