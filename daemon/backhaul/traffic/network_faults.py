"""Simulates a faulty network: duplicates, drops and reorders events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable

    from backhaul.store.inbox import Arrival


class NetworkFaults(Struct, frozen=True):
    """How the network changes a run; the same seed gives the same run.

    `duplicate` and `drop` are probabilities from 0 to 1. `until` is a UTC time as text:
    events that arrived then or later are left out.
    """

    shuffle: int | None = None
    duplicate: float = 0.0
    drop: float = 0.0
    until: str | None = None

    def apply(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """Return the events with the faults applied."""
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
