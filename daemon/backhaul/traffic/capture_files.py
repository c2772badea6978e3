"""Reads and writes capture files (JSON lines), and replays their events.

A replay can simulate a faulty network: duplicate, lost and reordered events.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import msgspec

from backhaul.core import webhook
from backhaul.core.clock import from_text
from backhaul.errors import BackhaulError, Unusable
from backhaul.platform.client import StoreFacts  # noqa: TC001 - msgspec reads it
from backhaul.store import database_at, open_store
from backhaul.store.inbox import CONFIRMING, Arrival, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import TextIO

    from backhaul.core.clock import Clock
    from backhaul.store import Store
    from backhaul.store.inbox import FoldOne


FORMAT = 1


class CaptureHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The first line: the format, and the facts of each store that a fold needs."""

    backhaul_capture: int
    captured_at: str
    stores: dict[str, StoreFacts]


class _Event(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line: a webhook (`kind` is `delivery`) or an object read (`read`)."""

    store: str
    kind: str
    topic: str
    received_at: str
    headers: msgspec.Raw
    body: str | None = None
    body_base64: str | None = None


def write(head: CaptureHeader, arrivals: Iterable[Arrival], stream: TextIO) -> int:
    """Write a capture; return the number of events."""
    count = 0
    stream.write(f"{msgspec.json.encode(head).decode()}\n")
    for count, arrival in enumerate(arrivals, 1):  # noqa: B007 - the count is returned
        stream.write(f"{msgspec.json.encode(_line(arrival)).decode()}\n")
    return count


def _line(arrival: Arrival) -> _Event:
    event = _Event(
        arrival.store,
        arrival.kind,
        arrival.topic,
        arrival.received_at,
        msgspec.Raw(arrival.headers),
    )
    try:
        event.body = arrival.body.decode()
    except UnicodeDecodeError:
        event.body_base64 = base64.b64encode(arrival.body).decode()
    return event


def read_head(path: Path) -> CaptureHeader:
    """Return the header of a capture. Raises Unusable."""
    with _opened(path) as stream:
        return _head(path, stream)


def read(path: Path) -> Iterator[Arrival]:
    """Yield the captured events. Raises Unusable, naming the line."""
    with _opened(path) as stream:
        _head(path, stream)
        for number, line in enumerate(stream, 2):
            if line.strip():
                yield _arrival(path, number, line)


def _opened(path: Path) -> TextIO:
    try:
        # Invalid UTF-8 is reported with its line number when the line is read.
        return path.open(encoding="utf-8", newline="\n", errors="surrogateescape")
    except OSError as error:
        raise Unusable(f"{path}: cannot be read: {error.strerror}") from None


def _head(path: Path, stream: TextIO) -> CaptureHeader:
    try:
        head = msgspec.json.decode(stream.readline(), type=CaptureHeader)
    except (msgspec.DecodeError, UnicodeError):
        raise Unusable(
            f"{path}: this file is not a capture. To make a capture, run: backhaul"
            " capture OUT.jsonl"
        ) from None
    if head.backhaul_capture != FORMAT:
        raise Unusable(
            f"{path}: this capture has the format {head.backhaul_capture}, and this"
            f" version of Backhaul reads format {FORMAT}. Make the capture again"
            " with this version"
        )
    return head


def _arrival(path: Path, number: int, line: str) -> Arrival:
    try:
        event = msgspec.json.decode(line, type=_Event)
        body = _body(event)
    except UnicodeError:
        raise Unusable(f"{path}, line {number}: this line is not valid UTF-8") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Unusable(f"{path}, line {number}: {error}") from None
    return Arrival(
        event.store,
        event.kind,
        event.topic,
        event.received_at,
        bytes(event.headers),
        body,
    )


def _body(event: _Event) -> bytes:
    if event.body_base64 is not None:
        return base64.b64decode(event.body_base64, validate=True)
    return (event.body or "").encode()


SLICE_SECONDS = 0.05
TIMEOUT_SECONDS = 30.0
_REPLACED_HEADERS = (webhook.HEADER, "Content-Length", "Host")


class ReplayTarget(msgspec.Struct, frozen=True):
    """Where events are sent: the URL, and the secret that signs them."""

    url: str
    secret: bytes


class NetworkFaults(msgspec.Struct, frozen=True):
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


async def replay_into(
    path: Path,
    arrivals: Sequence[Arrival],
    facts: Mapping[str, StoreFacts],
    fold_one: FoldOne,
    clock: Clock,
) -> dict[str, int]:
    """Fold all events into a new database; return the number of events by outcome.

    Raises BackhaulError if the file exists: a replay never touches a mirror in use.
    """
    _create(path)
    store = open_store(path, clock)
    store.start()
    try:
        for name, known in facts.items():
            await store.kv.put(f"facts:{name}", msgspec.json.encode(known).decode())
        await asyncio.gather(*(store.inbox.append(arrival) for arrival in arrivals))
        while (await store.inbox.fold(fold_one, SLICE_SECONDS)).more:
            pass
        if any(arrival.topic.endswith(CONFIRMING) for arrival in arrivals):
            await _fold_again(store, fold_one)
    finally:
        await store.stop()
    with database_at(path).inbox_export() as export:
        return export.outcomes()


async def _fold_again(store: Store, fold_one: FoldOne) -> None:
    """Fold again the events that came before a read lowered a version."""
    for confirming in (True, False):
        after: int | None = 0
        while after is not None:
            report = await store.reprocessing.reprocess(
                fold_one, Selection(), after, SLICE_SECONDS, confirming=confirming
            )
            after = report.last


def _create(path: Path) -> None:
    try:
        path.touch(mode=0o600, exist_ok=False)
    except OSError as error:
        raise BackhaulError(
            f"{path}: the temporary mirror of the replay cannot be created here"
            f" ({error.strerror})"
        ) from None


def deliveries_to(url: str, arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return the webhooks to send to this URL: those of one store.

    If the capture has several stores, the URL names one of them. Raises Unusable
    otherwise: one URL has the secret of one store.
    """
    found = [arrival for arrival in arrivals if arrival.kind == "delivery"]
    stores = {arrival.store for arrival in found}
    if len(stores) < 2:
        return found
    named = named_store(url)
    if named not in stores:
        raise Unusable(
            f"{url} is the address of one store, but the capture has webhooks of"
            f" several stores: {', '.join(sorted(stores))}. End the URL with"
            " /webhooks/STORE, or make the capture with --store"
        )
    return [arrival for arrival in found if arrival.store == named]


def named_store(url: str) -> str:
    """Return the store in a receiver's URL; empty if there is none.

    Raises Unusable.
    """
    try:
        path = urlsplit(url).path
    except ValueError as error:
        raise Unusable(f"{url} is not a valid URL: {error}") from None
    return path.partition("/webhooks/")[2].partition("/")[0]


async def replay_to(
    receiving: ReplayTarget,
    arrivals: Sequence[Arrival],
    clock: Clock,
    speed: float | None = None,
) -> Counter[int]:
    """Send one event after the other; return the number of responses by status.

    `speed` 1 keeps the original pauses, 2 halves them; None leaves them out. Raises
    Unusable if the receiver cannot be reached.
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
    """Return the seconds between two arrivals; 0 if they are out of order."""
    return max(0.0, (from_text(now) - from_text(before)).total_seconds())


async def _send(
    client: httpx.AsyncClient, receiving: ReplayTarget, arrival: Arrival
) -> int:
    headers = _headers(arrival)
    headers[webhook.HEADER] = webhook.sign(arrival.body, receiving.secret).decode()
    try:
        answer = await client.post(receiving.url, content=arrival.body, headers=headers)
    except httpx.HTTPError as error:
        raise _unreachable(receiving.url, error) from None
    return answer.status_code


def forward(client: httpx.Client, url: str, arrival: Arrival) -> int:
    """Send a webhook as it came, with the platform's signature; return the status.

    Raises Unusable if the receiver cannot be reached.
    """
    headers = _headers(arrival)
    came = msgspec.json.decode(arrival.headers, type=dict[str, str])
    for name, value in came.items():
        if name.lower() == webhook.HEADER.lower():
            headers[name] = value
    try:
        answer = client.post(url, content=arrival.body, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _unreachable(url, error) from None
    return answer.status_code


def _unreachable(url: str, error: Exception) -> Unusable:
    return Unusable(f"{url} cannot be reached: {error} ({type(error).__name__})")


def _headers(arrival: Arrival) -> httpx.Headers:
    """Return the captured headers without those that the sender sets."""
    came = msgspec.json.decode(arrival.headers, type=dict[str, str])
    headers = httpx.Headers([(k.encode(), text.encode()) for k, text in came.items()])
    for name in _REPLACED_HEADERS:
        headers.pop(name, None)
    if arrival.topic:
        headers.setdefault("X-Service-Topic", arrival.topic)
    headers.setdefault("Content-Type", "application/json")
    return headers
