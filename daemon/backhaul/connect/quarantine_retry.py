"""Retries records of unknown orders or products; edits quarantined rows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger

from backhaul.connect.host import tell
from backhaul.connect.matching import RECORD_TYPES
from backhaul.errors import BackhaulError, Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backhaul.connect.matching import Matcher
    from backhaul.store.contract import Records


KEPT = "kept"
"""The kind of a row that its connector keeps, and applies as it is."""
FIXED = frozenset(
    {"key", "raw", "locator", "parts", "beside", "by_content", "question"}
)
"""Members of a record that an operator does not edit."""


def mended(
    row: Mapping[str, Any], kind: str | None, fields: Mapping[str, str]
) -> bytes:
    """Return a row's record with these fields. Raises BackhaulError.

    A row that never became a record needs its kind: it is written anew, as what it
    was meant to be.
    """
    known = msgspec.json.decode(row["payload"])
    if known is not None and known["kind"] == "fulfill":
        # Older versions wrote no such member: without lines they meant everything.
        known["record"].setdefault("everything", not known["record"].get("lines"))
    if known is None:
        known = {"kind": kind or _kind_missing(), "record": _bare(row)}
    elif known["kind"] == KEPT:
        raise BackhaulError(
            f"row {row['id']} stands for something that its connector keeps, such as a "
            f"file, and has no fields; apply it: backhaul quarantine retry {row['id']}"
        )
    elif kind not in {None, known["kind"]}:
        raise BackhaulError(f"row {row['id']} is a {known['kind']}, not a {kind}")
    type_ = RECORD_TYPES.get(known["kind"])
    if type_ is None:
        raise BackhaulError(f"no record is called {known['kind']!r}; {_kinds()}")
    allowed = set(type_.__struct_fields__) - FIXED
    if strange := sorted(set(fields) - allowed):
        raise BackhaulError(
            f"a {known['kind']} has no {', '.join(strange)}; it has "
            f"{', '.join(sorted(allowed))}"
        )
    record = {**known["record"], **{name: _value(fields[name]) for name in fields}}
    if record.get("lines") and "everything" not in fields:
        record.pop("everything", None)
    try:
        plain = msgspec.to_builtins(msgspec.convert(record, type_, strict=False))
        return msgspec.json.encode({**known, "record": plain})
    except msgspec.ValidationError as error:
        raise BackhaulError(f"that is no {known['kind']}: {error}") from None
    except UnicodeEncodeError:
        raise BackhaulError("a field holds characters that are no text") from None


def _bare(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": row["key"], "locator": row["locator"]}


def _value(text: str) -> object:
    """Return a list as such; all else is text, which the record's type reads."""
    if text.startswith(("[", "{")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BackhaulError(f"{text[:40]!r} is no JSON: {error}") from None
    return text


def _kind_missing() -> str:
    raise BackhaulError(
        f"this row never became a record: say with --kind what it is; {_kinds()}"
    )


def _kinds() -> str:
    return f"there are {', '.join(RECORD_TYPES)}"


BATCH = 100
LOOK_SECONDS = 1.0
"""Even if nothing is folded, a waiting record runs out of time."""
IDLE_SECONDS = 30.0
"""Where none waits: a lost wake costs no more than this."""
SOON_SECONDS = 0.1
"""The next look where something was looked for in vain."""


class WaitingRoom:
    """Matches waiting records whenever something was folded, and once a second.

    Who keeps a record that waits wakes it.
    """

    def __init__(
        self, records: Records, matcher: Matcher, planned: Callable[[], None]
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._planned = planned
        self._folded = asyncio.Event()

    def wake(self) -> None:
        """Tell that the mirror has changed, or that a record waits."""
        self._folded.set()

    async def run(self) -> None:
        """Match for ever. Cancel to stop."""
        while True:
            self._folded.clear()
            try:
                seconds = await self._work_off()
            except Busy as error:
                logger.bind(action="record.busy").warning("{}", error)
                seconds = LOOK_SECONDS
            try:
                async with asyncio.timeout(seconds):
                    await self._folded.wait()
            except TimeoutError:
                continue

    async def _work_off(self) -> float:
        """Match what waits; return how long to rest then."""
        if not await self._records.any_waiting():
            return IDLE_SECONDS
        return SOON_SECONDS if await self._look() else LOOK_SECONDS

    async def _look(self) -> bool:
        """Match once; tell whether to look again soon."""
        outcomes = await self._records.match(self._matcher, BATCH)
        if any(outcome.state == "accepted" for outcome in outcomes):
            self._planned()
        for outcome in outcomes:
            if outcome.state != "waiting":
                tell(outcome)
        in_vain = any(outcome.state == "waiting" for outcome in outcomes)
        return in_vain or len(outcomes) == BATCH
