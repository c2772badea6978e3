"""Captured traffic, played again: into a database of its own, or to a receiver."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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
_OURS = (signature.HEADER, "Content-Length", "Host")


class Receiving(msgspec.Struct, frozen=True):
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
        await asyncio.gather(*(store.inbox.append(arrival) for arrival in arrivals))
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


def deliveries_to(url: str, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the deliveries that may go to this address: those of one store.

    Of several stores, the one that the address names. Raises Unusable where it names
    none of them: one address has the secret of one store.
    """
    found = [arrival for arrival in arrivals if arrival.kind == "delivery"]
    stores = {arrival.store for arrival in found}
    if len(stores) < 2:
        return found
    named = named_store(url)
    if named not in stores:
        raise Unusable(
            f"{url} is the address of one store, and the capture is of"
            f" {', '.join(sorted(stores))}: end it with /webhooks/STORE, or capture"
            " with --store"
        )
    return [arrival for arrival in found if arrival.store == named]


def named_store(url: str) -> str:
    """Return the store in a receiver's address; empty where there is none.

    Raises Unusable.
    """
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise Unusable(f"{url} is no address: {error}") from None
    return path.partition("/webhooks/")[2].partition("/")[0]


async def replay_to(
    receiving: Receiving,
    arrivals: Sequence[Arrival],
    clock: Clock,
    speed: float | None = None,
) -> Counter[int]:
    """Send one after the other; return how often which status came.

    `speed` 1 keeps the pauses between them as they were, 2 halves them; None leaves
    them out. Raises Unusable when the receiver cannot be reached.
    """
    answers: Counter[int] = Counter()
    before: str | None = None
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        for arrival in arrivals:
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
    headers = _headers(arrival)
    headers[signature.HEADER] = signature.sign(arrival.body, receiving.secret).decode()
    try:
        answer = await client.post(receiving.url, content=arrival.body, headers=headers)
    except httpx.HTTPError as error:
        raise Unusable(f"{receiving.url}: {type(error).__name__}: {error}") from None
    return answer.status_code


def _headers(arrival: Arrival) -> httpx.Headers:
    """Return the headers as they came, but for those that belong to the sending."""
    came = msgspec.json.decode(arrival.headers, type=dict[str, str])
    headers = httpx.Headers([(k.encode(), text.encode()) for k, text in came.items()])
    for name in _OURS:
        headers.pop(name, None)
    if arrival.topic:
        headers.setdefault("X-Service-Topic", arrival.topic)
    headers.setdefault("Content-Type", "application/json")
    return headers
