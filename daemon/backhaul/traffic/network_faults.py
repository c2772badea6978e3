"""Simulates a faulty network: repeats, drops and shuffles events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.contract import Arrival


class Disorder(Struct, frozen=True):
    """How a run is changed; probabilities from 0 to 1, the same seed the same run.

    `until` is a time as text in UTC: what arrived then or later is left out.
    """

    shuffle: int | None = None
    duplicate: float = 0.0
    drop: float = 0.0
    until: str | None = None

    def apply(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """Return the run as it is to be played."""
        rng = random.Random(self.shuffle or 0)  # noqa: S311 - guards nothing
        run: list[Arrival] = []
        for arrival in arrivals:
            if self.until is not None and arrival.received_at >= self.until:
                continue
            if rng.random() >= self.drop:
                run.append(arrival)
            if rng.random() < self.duplicate:
                run.append(arrival)
        if self.shuffle is not None:
            rng.shuffle(run)
        return run
