"""Row `backfill`: a store read in, beside a loop that only fetches the same pages."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench import servers
from bench.backfilling import Read
from bench.results import Rounds, agree
from scenes.reference_process import start_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Scale
    from scenes.reference_process import ReferenceProcess

LINE = {"title": "Linen shirt", "quantity": 2, "price": "1499.00"}


def backfill(scale: Scale) -> Rounds:
    """Read so many orders of the reference server, a process of its own."""
    rounds = Rounds()
    with _platform(scale) as platform:
        access = (platform.public_url, platform.store().api_key)
        for _ in range(scale.rounds):
            output = servers.run("bench.backfilling", *access, str(scale.directory))
            found = msgspec.json.decode(output, type=Read)
            counts = (found.fetched, found.kept, found.mirrored)
            agree("orders", (scale.orders,) * 3, counts)
            rounds.add(
                "ratio to fetching", "x", found.fetch_seconds / found.read_seconds
            )
            folded = found.fetch_seconds / found.fold_seconds
            rounds.add("ratio to fetching, folded too", "x", folded)
            rounds.add("orders read", "orders/s", scale.orders / found.read_seconds)
            only = scale.orders / found.fetch_seconds
            rounds.add("orders only fetched", "orders/s", only)
    return rounds


@contextmanager
def _platform(scale: Scale) -> Iterator[ReferenceProcess]:
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        platform = start_reference(Path(folder), fixture="empty")
        try:
            for number in range(scale.orders):
                customer = {"name": "Ana", "email": f"a{number % 500}@example.com"}
                order = {"items": [LINE, LINE, LINE], "customer": customer}
                answer = platform.v1("POST", "/orders", order)
                agree("an order is placed", 201, answer.status)
            yield platform
        finally:
            platform.kill()
