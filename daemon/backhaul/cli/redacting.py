"""Captures in the state directory, written anew without a person who was forgotten."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from backhaul.errors import Unusable
from backhaul.shop.people import Person
from backhaul.store.contract import Arrival
from backhaul.traffic import captures
from backhaul.upkeep.forgetting import CustomerEraser


def eraser_of(customer_id: str, texts: Iterable[str]) -> CustomerEraser:
    """Return what erases a person who was told of by these texts."""
    persons = [Person(email=t) if "@" in t else Person(name=t) for t in texts]
    return CustomerEraser(customer_id, persons)


def redact_captures(folder: Path, store: str, eraser: CustomerEraser) -> list[Path]:
    """Rewrite every capture that tells of a store's customer; return which those were.

    A file takes the place of the old one whole and on the disk, or not at all. One that
    is damaged, or cannot be written, stays as it is.
    """
    found = sorted(folder.rglob("*.jsonl"))
    return [path for path in found if _redact(path, store, eraser)]


def _redact(path: Path, store: str, eraser: CustomerEraser) -> bool:
    unfinished = path.with_name(f"{path.name}.new")
    try:
        head = captures.read_head(path)
        lefts = (_left(event, store, eraser) for event in captures.read(path))
        if all(left is None for left in lefts):
            return False
        with unfinished.open("w", encoding="utf-8", newline="\n") as stream:
            shutil.copymode(path, unfinished)
            captures.write(head, _redacted(captures.read(path), store, eraser), stream)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except (Unusable, OSError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return False
    _sync(path.parent)
    return True


def _redacted(
    events: Iterable[Arrival], store: str, eraser: CustomerEraser
) -> Iterator[Arrival]:
    for event in events:
        left = _left(event, store, eraser)
        yield event if left is None else event._replace(body=left)


def _left(event: Arrival, store: str, eraser: CustomerEraser) -> bytes | None:
    """Return what is left of a body; None where it says nothing of the person."""
    return eraser.body(event.topic, event.body) if event.store == store else None


def _sync(folder: Path) -> None:
    """Make the new name of a file last a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
