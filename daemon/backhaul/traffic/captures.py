"""The file format of captured traffic: JSON lines, a head and then one event each.

Bodies are kept byte for byte: as text where they are UTF-8, else in base64.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from backhaul.errors import Unusable
from backhaul.shop.client import StoreFacts  # noqa: TC001 - msgspec reads it
from backhaul.store.contract import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

FORMAT = 1


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """The first line: what it is, and what a fold must know of each store."""

    backhaul_capture: int
    captured_at: str
    stores: dict[str, StoreFacts]


class _Event(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line: a delivery (`kind` is `delivery`) or something read (`read`)."""

    store: str
    kind: str
    topic: str
    received_at: str
    headers: msgspec.Raw
    body: str | None = None
    body_base64: str | None = None


def write(head: Head, arrivals: Iterable[Arrival], stream: TextIO) -> int:
    """Write a capture; return the number of events."""
    count = 0
    stream.write(f"{msgspec.json.encode(head).decode()}\n")
    for count, arrival in enumerate(arrivals, 1):  # noqa: B007 - what is returned
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


def read_head(path: Path) -> Head:
    """Read what a capture says of itself. Raises Unusable."""
    with _opened(path) as stream:
        return _head(path, stream)


def read(path: Path) -> Iterator[Arrival]:
    """Yield the events as they were captured. Raises Unusable, naming the line."""
    with _opened(path) as stream:
        _head(path, stream)
        for number, line in enumerate(stream, 2):
            if line.strip():
                yield _arrival(path, number, line)


def _opened(path: Path) -> TextIO:
    try:
        # What is no UTF-8 is met where its line is read, and named by its number.
        return path.open(encoding="utf-8", newline="\n", errors="surrogateescape")
    except OSError as error:
        raise Unusable(f"{path}: cannot be read: {error.strerror}") from None


def _head(path: Path, stream: TextIO) -> Head:
    try:
        head = msgspec.json.decode(stream.readline(), type=Head)
    except (msgspec.DecodeError, UnicodeError):
        raise Unusable(
            f"{path}: not a capture; make one with: backhaul capture OUT.jsonl"
        ) from None
    if head.backhaul_capture != FORMAT:
        raise Unusable(
            f"{path}: capture format {head.backhaul_capture}; this version reads"
            f" {FORMAT}"
        )
    return head


def _arrival(path: Path, number: int, line: str) -> Arrival:
    try:
        event = msgspec.json.decode(line, type=_Event)
        body = _body(event)
    except UnicodeError:
        raise Unusable(f"{path}, line {number}: is not UTF-8 text") from None
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
