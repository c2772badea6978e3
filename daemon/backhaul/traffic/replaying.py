"""Captured traffic, played again: into a database of its own, or to a receiver."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import msgspec

from backhaul.core import signature
from backhaul.core.clock import from_text
from backhaul.errors import BackhaulError, Unusable
from backhaul.store.opening import open_store
from backhaul.store.refolds import CONFIRMING, Selection
from backhaul.store.sqlite.history import History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.shop.client import StoreFacts
    from backhaul.store.contract import Arrival, FoldOne
    from backhaul.store.sqlite.database import SqliteStore

SLICE_SECONDS = 0.05
TIMEOUT_SECONDS = 30.0
_OURS = {"x-service-hmac-sha256", "content-length", "host"}


@dataclass(frozen=True, slots=True)
class Receiving:
    """Where deliveries go: `url` as the platform has it, and the secret that signs."""

    url: str
    secret: bytes


async def replay_into(
    path: Path,
    arrivals: Sequence[Arrival],
    facts: Mapping[str, StoreFacts],
    fold_one: FoldOne,
    clock: Clock,
) -> dict[str, int]:
    """Fold everything into a new database; return how many events became what.

    Raises BackhaulError when the file exists: a replay never touches a mirror in use.
    """
    _create(path)
    store = open_store(path, clock)
    store.start()
    try:
        for name, known in facts.items():
            await store.marks.put(f"facts:{name}", msgspec.json.encode(known).decode())
        futures = [store.inbox.append(arrival) for arrival in arrivals]
        for future in futures:
            await future
        while (await store.inbox.fold(fold_one, SLICE_SECONDS)).more:
            pass
        if any(arrival.topic.endswith(CONFIRMING) for arrival in arrivals):
            await _fold_again(store, fold_one)
    finally:
        await store.stop()
    return History(path).outcomes()


async def _fold_again(store: SqliteStore, fold_one: FoldOne) -> None:
    """Take what a read uncovered that lowered a version after others had come."""
    for confirming in (True, False):
        after: int | None = 0
        while after is not None:
            report = await store.refolds.refold(
                fold_one, Selection(), after, SLICE_SECONDS, confirming=confirming
            )
            after = report.last


def _create(path: Path) -> None:
    try:
        path.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise BackhaulError(
            f"{path}: {error.strerror}; a replay needs a new file of its own"
        ) from None


async def replay_to(
    receiving: Receiving,
    arrivals: Sequence[Arrival],
    clock: Clock,
    speed: float | None = None,
) -> Counter[int]:
    """Send the deliveries one after the other; return how often which status came.

    `speed` 1 keeps the pauses between them as they were, 2 halves them; None leaves
    them out. What the daemon read itself is not sent. Raises Unusable when the
    receiver cannot be reached.
    """
    answers: Counter[int] = Counter()
    before: str | None = None
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client:
        for arrival in arrivals:
            if arrival.kind != "delivery":
                continue
            if speed and before is not None:
                await clock.sleep(_pause(before, arrival.received_at) / speed)
            before = arrival.received_at
            answers[await _send(client, receiving, arrival)] += 1
    return answers


def _pause(before: str, now: str) -> float:
    """Return the seconds between two arrivals; none where they were shuffled."""
    return max(0.0, (from_text(now) - from_text(before)).total_seconds())


async def _send(
    client: httpx.AsyncClient, receiving: Receiving, arrival: Arrival
) -> int:
    headers = msgspec.json.decode(arrival.headers, type=dict[str, str])
    kept = {name: text for name, text in headers.items() if name.lower() not in _OURS}
    kept[signature.HEADER] = signature.sign(arrival.body, receiving.secret).decode()
    if arrival.topic:
        kept.setdefault("X-Service-Topic", arrival.topic)
    kept.setdefault("Content-Type", "application/json")
    try:
        answer = await client.post(
            receiving.url, content=arrival.body, headers=_bytes(kept)
        )
    except httpx.HTTPError as error:
        raise Unusable(f"{receiving.url}: {type(error).__name__}: {error}") from None
    return answer.status_code


def _bytes(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode()) for name, text in headers.items()]
