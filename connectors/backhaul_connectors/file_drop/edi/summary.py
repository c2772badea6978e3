"""Says which messages a file has and between whom, before any settings exist."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from backhaul_connectors.file_drop.edi.envelope import Envelopes
from backhaul_connectors.file_drop.edi.interchange import NOT_READ, READERS
from backhaul_connectors.file_drop.edi.segments import segments_of
from backhaul_connectors.file_drop.files import FileUnreadable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from backhaul_connectors.file_drop.edi.envelope import Interchange


class Summary(Struct, frozen=True):
    """The kinds of rows of a file, the `edi` settings that fit it, and notes."""

    kinds: tuple[str, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]


def summary(stream: BinaryIO) -> Summary:
    """Return what a file shows of its settings. Raises FileUnreadable."""
    types = Counter[str]()
    around: Interchange | None = None
    stream.seek(0)
    for message in Envelopes(segments_of(stream, "")).messages():
        types[message.type] += 1
        around = around or message.interchange
    kinds = tuple(dict.fromkeys(READERS[each][0] for each in types if each in READERS))
    if around is None or not kinds:
        has = ", ".join(types) or "no message"
        raise FileUnreadable(
            f"the file has {has}; Backhaul reads only {', '.join(READERS)}"
        )
    parties = {
        "own_id": around.recipient,
        "own_qualifier": around.recipient_qualifier,
        "partner_id": around.sender,
        "partner_qualifier": around.sender_qualifier,
    }
    edi: dict[str, Any] = {name: value for name, value in parties.items() if value}
    notes = [f"check that {around.recipient!r} is your own identification"]
    if around.is_test:
        edi["test"] = True
        notes.append(
            "the file is marked as a test; remove edi.test before the connection goes"
            " live, or shipments of tests become real"
        )
    others = [each for each in types if each not in READERS and each not in NOT_READ]
    if others:
        notes.append(f"messages of the type {', '.join(others)} are not read")
    return Summary(kinds, edi, tuple(notes))
