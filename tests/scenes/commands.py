"""Plans commands and makes records, as a connector's records do."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from backhaul.connect.record_matching import encode
from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul_sdk import Record

_NUMBERS = count(1)


async def plan(
    store: Store,
    kind: str,
    target: str,
    *,
    lane: str = "",
    identity: str = "",
    store_name: str = "main",
) -> str:
    """Plan a command whose ordering key is its target; return its id."""
    number = next(_NUMBERS)
    command = NewCommand(
        identity or f"{number:032x}", kind, target, lane or target, {"n": 1}
    )
    record = NewRecord(f"key-{number}", b"null", "raw", "", f"file:{number}")
    await store.records.accept(
        "courier", store_name, [record], None, lambda *_: Matched(command)
    )
    return command.id


def new(record: Record, **members: Any) -> NewRecord:
    """Return a record as the host submits it to the store."""
    given = {"raw": f"raw of {record.key}", "reason": "", "locator": record.locator}
    return NewRecord(record.key, encode(record), **(given | members))
