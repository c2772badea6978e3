"""Decisions about many rows at once: what each does, and what a preview says."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from backhaul.store.filters import SelectedRows


class Preview(Struct, frozen=True):
    """What a change of many rows will do.

    `stores` counts the rows of each store, `rows` all of them, and `changed` those that
    can be changed. `lines` say for people what happens, and why some rows stay.
    """

    stores: dict[str, int]
    rows: int
    changed: int
    lines: tuple[str, ...]


def preview_of(
    selected: Iterable[SelectedRows],
    result: Callable[[SelectedRows], tuple[bool, str]],
) -> Preview:
    """Return a preview; `result` says whether rows change, and what happens to them."""
    stores: Counter[str] = Counter()
    results: Counter[tuple[bool, str]] = Counter()
    for each in selected:
        stores[each.store] += each.rows
        results[result(each)] += each.rows
    changed = sum(rows for (is_changed, _), rows in results.items() if is_changed)
    ordered = sorted(results.items(), key=lambda item: not item[0][0])
    lines = [
        f"{'1 row' if rows == 1 else f'{rows:,} rows'}: {text}"
        for (_, text), rows in ordered
    ]
    return Preview(dict(stores), stores.total(), changed, tuple(lines))


class BulkVerb(StrEnum):
    """What can be decided about many commands or deliveries at once."""

    CHECK = "check"
    RESEND = "resend"
    PARK = "park"
    DISCARD = "discard"


class BulkRow(Struct, frozen=True):
    """A row to decide about: the id of a command or the number of a delivery.

    `content` is that of SelectedRows.
    """

    id: str | int
    state: str
    content: str


NEEDS_REASON = frozenset({BulkVerb.RESEND, BulkVerb.PARK, BulkVerb.DISCARD})
_STATES: Mapping[BulkVerb, frozenset[str]] = {
    BulkVerb.CHECK: frozenset({"uncertain", "parked"}),
    BulkVerb.RESEND: frozenset({"parked", "rejected"}),
    BulkVerb.PARK: frozenset({"planned", "uncertain"}),
    BulkVerb.DISCARD: frozenset({"parked"}),
}
"""The states in which a verb is possible."""
_DONE: Mapping[BulkVerb, Mapping[str, str]] = {
    BulkVerb.CHECK: {
        "sent": "checked at the platform now and, if needed, again later",
    },
    BulkVerb.RESEND: {
        "unsent": "planned again; Backhaul has never sent them",
        "target": "calculated again; Backhaul sends only the difference (these are"
        " stock counts)",
        "delivery": "delivered again; a back office that already received them"
        " receives them a second time",
    },
    BulkVerb.PARK: dict.fromkeys(
        ("sent", "unsent", "target", "delivery"),
        "stopped until an operator decides",
    ),
    BulkVerb.DISCARD: dict.fromkeys(
        ("sent", "unsent", "target", "delivery"), "discarded; they are not sent again"
    ),
}
"""What a verb does with a content; a content that is missing stays unchanged."""
_UNCHANGED: Mapping[tuple[BulkVerb, str], str] = {
    (BulkVerb.CHECK, "unsent"): "Backhaul has not sent them, so there is no outcome",
    (
        BulkVerb.CHECK,
        "target",
    ): "these are stock counts, which have no outcome to check",
    (BulkVerb.CHECK, "delivery"): "a delivery cannot be checked on demand",
    (BulkVerb.RESEND, "sent"): "Backhaul sent them before, and they may have taken"
    " effect; resend each on its own page, which shows the request",
}
_POSSIBLE = {
    BulkVerb.CHECK: "only uncertain and parked ones can be checked",
    BulkVerb.RESEND: "only parked and rejected ones can be resent",
    BulkVerb.PARK: "only planned and uncertain ones can be parked",
    BulkVerb.DISCARD: "only parked ones can be discarded; park the others first",
}


def result(verb: BulkVerb, state: str, content: str) -> tuple[bool, str]:
    """Return whether a verb changes rows in a state, and what happens or why not."""
    if state not in _STATES[verb]:
        return False, f"unchanged: {_POSSIBLE[verb]}"
    if (done := _DONE[verb].get(content)) is not None:
        return True, done
    return False, f"unchanged: {_UNCHANGED[verb, content]}"


def preview(verb: BulkVerb, selected: Iterable[SelectedRows]) -> Preview:
    """Return what a decision about the selected rows will do."""
    return preview_of(selected, lambda rows: result(verb, rows.state, rows.content))
