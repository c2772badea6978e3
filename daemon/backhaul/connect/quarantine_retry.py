"""Retries unmatched records; edits quarantined rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from loguru import logger
from msgspec import Struct

from backhaul.connect.record_matching import RECORD_TYPES, log_outcome
from backhaul.errors import BackhaulError
from backhaul.runtime.loop import IDLE_SECONDS, Loop
from backhaul.store.records import RowVerb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backhaul.connect.record_matching import Matcher
    from backhaul.core.clock import Clock
    from backhaul.runtime.signals import SharedSignals
    from backhaul.store.filters import SelectedRows
    from backhaul.store.records import QuarantinedRow, Records


NEW_KINDS = {
    "fulfill": "shipment",
    "cancel": "cancellation",
    "adjust": "stock adjustment",
    "level": "stock count",
    "track": "status of a parcel",
}
"""The kinds that an operator can give to a row that never became a record.

The end of a full list is not among them: alone, it would set all articles to 0.
"""
KEPT_KIND = "kept"
"""The kind of a row that its connector keeps and applies unchanged."""
READ_ONLY_FIELDS = frozenset(
    {"key", "raw", "locator", "parts", "beside", "by_content", "question"}
)
"""Members of a record that an operator cannot edit."""


def edited_record(
    row: QuarantinedRow, kind: str | None, fields: Mapping[str, str]
) -> bytes:
    """Return a quarantined row's record with edited fields. Raises BackhaulError.

    A row that never became a record needs its `kind`: it becomes a new record of that
    kind.
    """
    known = msgspec.json.decode(row.payload)
    if known is not None and known["kind"] == "fulfill":
        # Older versions have no such member: no lines meant everything.
        known["record"].setdefault("everything", not known["record"].get("lines"))
    if known is None:
        known = {"kind": _new_kind(kind), "record": _record_of(row)}
    elif known["kind"] == KEPT_KIND:
        raise BackhaulError(
            f"row {row.id} has no fields to edit: the connector keeps its content, such"
            f" as a file. To apply it, run: backhaul quarantine retry {row.id}"
        )
    elif kind not in {None, known["kind"]}:
        raise BackhaulError(
            f"row {row.id} is a record of the kind {known['kind']}, not {kind}; leave"
            " out --kind"
        )
    type_ = RECORD_TYPES.get(known["kind"])
    if type_ is None:
        raise BackhaulError(
            f"{known['kind']!r} is not a kind of record; the kinds are"
            f" {', '.join(RECORD_TYPES)}"
        )
    allowed = set(type_.__struct_fields__) - READ_ONLY_FIELDS
    if strange := sorted(set(fields) - allowed):
        raise BackhaulError(
            f"a record of the kind {known['kind']} has no field"
            f" {', '.join(strange)}; its fields are {', '.join(sorted(allowed))}"
        )
    record = {**known["record"], **{name: _value(fields[name]) for name in fields}}
    if record.get("lines") and "everything" not in fields:
        record.pop("everything", None)
    try:
        plain = msgspec.to_builtins(msgspec.convert(record, type_, strict=False))
        return msgspec.json.encode({**known, "record": plain})
    except msgspec.ValidationError as error:
        raise BackhaulError(
            f"the edited row is not a valid {known['kind']}: {error}"
        ) from None
    except UnicodeEncodeError:
        raise BackhaulError(
            "a field contains characters that are not valid text"
        ) from None


class Preview(Struct, frozen=True):
    """What a change of many rows will do.

    `stores` counts the rows of each store, `rows` all of them, and `changed` those that
    can be changed. `lines` say for people what happens, and why some rows stay.
    """

    stores: dict[str, int]
    rows: int
    changed: int
    lines: tuple[str, ...]


_UNREAD = "unchanged: Backhaul could not read them as records; edit each one"
_CLOSED = "unchanged: they are no longer open, or were used"
_ANSWERED = (
    "matched again; the retry is your yes to the question in the reason, such as"
    " whether to ship a further parcel"
)
_ZEROED = "applied: SKUs that these full stock lists leave out are set to 0"
_DISCARDED = "discarded, also if their connector submits them again"
_RESULTS: Mapping[RowVerb, Mapping[str, tuple[bool, str]]] = {
    RowVerb.RETRY: {
        "record": (True, "matched again; rows that match now become commands"),
        "question": (True, _ANSWERED),
        "list": (True, _ZEROED),
        "event": (True, "processed again (these are events)"),
        "kept": (True, "applied by their connector in its next round"),
        "bad": (False, _UNREAD),
    },
    RowVerb.EDIT: {
        "record": (True, "edited and matched again; rows that match become commands"),
        "question": (True, f"edited, and {_ANSWERED}"),
        "list": (True, f"edited, and {_ZEROED}"),
        "event": (False, "unchanged: these are events, which cannot be edited"),
        "kept": (False, "unchanged: their connector keeps them, without fields"),
        "bad": (False, _UNREAD),
    },
    RowVerb.DISCARD: {
        "record": (True, _DISCARDED),
        "question": (True, _DISCARDED),
        "list": (
            True,
            "discarded; the SKUs that these full lists leave out keep their stock",
        ),
        "event": (
            True,
            "discarded (these are events); commands that wait are released",
        ),
        "kept": (True, "discarded; their connector does not apply them"),
        "bad": (True, "discarded"),
    },
}
"""Whether a verb changes a row with a content, and what it does."""


def preview(verb: RowVerb, selected: Iterable[SelectedRows]) -> Preview:
    """Return what a change of the selected rows will do."""
    stores: Counter[str] = Counter()
    results: Counter[tuple[bool, str]] = Counter()
    for each in selected:
        stores[each.store] += each.rows
        results[_result(verb, each)] += each.rows
    changed = sum(rows for (is_changed, _), rows in results.items() if is_changed)
    ordered = sorted(results.items(), key=lambda item: not item[0][0])
    lines = [
        f"{'1 row' if rows == 1 else f'{rows:,} rows'}: {text}"
        for (_, text), rows in ordered
    ]
    return Preview(dict(stores), stores.total(), changed, tuple(lines))


def _result(verb: RowVerb, rows: SelectedRows) -> tuple[bool, str]:
    states = {"open"} if verb is RowVerb.DISCARD else {"open", "dropped"}
    if rows.state not in states:
        return False, _CLOSED
    return _RESULTS[verb][rows.content]


def _record_of(row: QuarantinedRow) -> dict[str, Any]:
    return {"key": row.key, "locator": row.locator}


def _value(text: str) -> object:
    """Return a JSON list as a list, and any other text unchanged."""
    if text.startswith(("[", "{")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BackhaulError(f"{text[:40]!r} is not valid JSON: {error}") from None
    return text


def _new_kind(kind: str | None) -> str:
    if kind is None:
        raise BackhaulError(
            "Backhaul could not read this row, so it does not know the kind of the"
            f" record. Add --kind with {_kinds()}"
        )
    if kind not in NEW_KINDS:
        raise BackhaulError(f"--kind cannot be {kind!r}; use {_kinds()}")
    return kind


def _kinds() -> str:
    *others, last = (f"{kind} ({meaning})" for kind, meaning in NEW_KINDS.items())
    return f"one of: {', '.join(others)} or {last}"


BATCH = 100
RETRY_SECONDS = 1.0
"""The retry interval: a record may run out of time though nothing is folded."""
SOON_SECONDS = 0.1
"""The shortest time before the next retry after a record stayed unmatched."""


class UnmatchedRetry:
    """Retries unmatched records after each fold, and once a second.

    Wake it after storing an unmatched record.
    """

    def __init__(
        self,
        records: Records,
        matcher: Matcher,
        clock: Clock,
        signals: SharedSignals,
    ) -> None:
        self._records = records
        self._matcher = matcher
        self._accepted = signals.records_accepted
        self._loop = Loop(clock, _log_busy)

    def wake(self) -> None:
        """Retry now: the mirror has changed, or a new record is unmatched."""
        self._loop.wake()

    async def run(self) -> None:
        """Retry until cancelled."""
        await self._loop.run(self._match_all)

    async def _match_all(self) -> float:
        """Match all unmatched records; return the seconds until the next retry."""
        if not await self._records.any_waiting():
            return IDLE_SECONDS
        return SOON_SECONDS if await self._match_once() else RETRY_SECONDS

    async def _match_once(self) -> bool:
        """Match one batch; return True if the next one should come soon."""
        outcomes = await self._records.match(self._matcher, BATCH)
        if any(outcome.state == "accepted" for outcome in outcomes):
            self._accepted.emit()
        for outcome in outcomes:
            if outcome.state != "waiting":
                log_outcome(outcome)
        has_unmatched = any(outcome.state == "waiting" for outcome in outcomes)
        return has_unmatched or len(outcomes) == BATCH


def _log_busy(error: Exception) -> None:
    logger.bind(action="record.busy").warning("{}", error)
