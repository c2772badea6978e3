"""Servers loaded in turns, round by round, and the figures that come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench import load, machine
from bench.load import Loaded
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.results import Scale
    from bench.shop import Shop
    from bench.traffic import Asked

CONNECTIONS = 16
WARMING_SHARE = 10


@dataclass(slots=True)
class Target:
    """A running server, what it is asked, and what came of it in this round."""

    name: str
    port: int
    pid: int
    asked: Asked
    shop: Shop | None = None
    connections: int = CONNECTIONS
    answered: int = 0
    loaded: Loaded = field(default_factory=Loaded)
    processor_seconds: float = 0.0
    owed: tuple[int, int] = (0, 0)
    idle_after_seconds: float = 0.0

    def load(self, seconds: float) -> None:
        before = machine.processor_seconds(self.pid)
        loaded = load.send_for(
            seconds, self.port, self.asked.requests, self.connections
        )
        self.processor_seconds += machine.processor_seconds(self.pid) - before
        answers = len(loaded.latencies)
        agree(f"answers of {self.name}", {self.asked.status: answers}, loaded.statuses)
        self.answered += answers
        self.loaded.add(loaded)
        if self.shop is not None:
            # Remaining work would slow the next load.
            self.owed, self.idle_after_seconds = (
                self.shop.owed(),
                self.shop.wait_until_idle(),
            )

    def begin(self) -> None:
        """Forget what was measured so far."""
        self.loaded, self.processor_seconds = Loaded(), 0.0


def load_in_turns(
    scale: Scale, targets: Sequence[Target], written: str | None
) -> Rounds:
    """Load each in turn, round by round; what ours wrote is counted in its database."""
    rounds, (_, ours, *_) = Rounds(), targets
    shop = ours.shop
    before = shop.count(written) if shop and written else 0
    for target in targets:
        target.load(scale.seconds / WARMING_SHARE)
    for _ in range(scale.rounds):
        for target in targets:
            target.begin()
            target.load(scale.seconds)
        _add(rounds, targets)
        if written:
            _add_owed(rounds, ours)
    if shop and written:
        agree(written, ours.answered, shop.count(written) - before)
    return rounds


def _add(rounds: Rounds, targets: Sequence[Target]) -> None:
    first, ours, second, *peers = targets
    bare = Loaded()
    bare.add(first.loaded)
    bare.add(second.loaded)
    rate = ours.loaded.per_second
    for peer in peers:
        rounds.add(f"ratio to {peer.name}", "x", rate / peer.loaded.per_second)
    rounds.add("ratio to bare", "x", rate / bare.per_second)
    control = second.loaded.per_second / first.loaded.per_second
    rounds.add("control, bare to bare", "x", control)
    spent = sum(one.processor_seconds for one in (first, second))
    if ours.processor_seconds and spent:
        each = spent / len(bare.latencies)
        own = ours.processor_seconds / len(ours.loaded.latencies)
        rounds.add("ratio to bare by processor time", "x", each / own)
    named = {"ours": ours.loaded, "bare": bare} | {
        one.name: one.loaded for one in peers
    }
    for name, loaded in named.items():
        rounds.add(name, "requests/s", loaded.per_second)
        rounds.add(f"{name}, p50", "ms", loaded.percentile_ms(0.5))
        rounds.add(f"{name}, p99", "ms", loaded.percentile_ms(0.99))


def _add_owed(rounds: Rounds, ours: Target) -> None:
    """What was put off: it must stay small, or the figures flatter."""
    deliveries, mails = ours.owed
    rounds.add("deliveries owed at the end of the load", "", deliveries)
    rounds.add("mails owed at the end of the load", "", mails)
    rounds.add("until nothing is owed", "s", ours.idle_after_seconds)
