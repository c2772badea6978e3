"""Row `fold`: orders into the mirror, beside the same rows written plainly."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import msgspec

from bench import servers
from bench.folding import Folded
from bench.orders import ITEMS
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from bench.results import Scale


def fold(scale: Scale) -> Rounds:
    """Fold so many distinct orders with the shipped drain, on one core."""
    rounds = Rounds()
    for _ in range(scale.rounds):
        found = _run(scale)
        _check(found, scale.orders)
        rounds.add("ratio to plain rows", "x", found.plain_seconds / found.seconds)
        rounds.add("orders folded", "orders/s", scale.orders / found.seconds)
        busy = scale.orders / found.cpu_seconds
        rounds.add("orders folded, by processor time", "orders/s", busy)
        plain = scale.orders / found.plain_seconds
        rounds.add("the same rows by executemany", "orders/s", plain)
    return rounds


def _run(scale: Scale) -> Folded:
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        output = servers.run("bench.folding", folder, str(scale.orders))
    return msgspec.json.decode(output, type=Folded)


def _check(found: Folded, orders: int) -> None:
    once = ("inbox", "delivery_digests", "orders", "changes", "event_outcomes")
    expected = dict.fromkeys(once, orders)
    expected |= {"order_items": orders * ITEMS, "shipments": 0}
    agree("rows written", expected, found.counts)
