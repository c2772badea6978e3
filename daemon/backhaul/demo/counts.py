"""Holds the counts of a back office against their commands and the store's stock."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from backhaul.core.lifecycle import OPEN, State
from backhaul.demo.findings import Finding, Kind
from backhaul.demo.home import TRYTON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from backhaul.demo.books import Books, Row
    from backhaul.demo.causes import Cause
    from backhaul.demo.mirrored import State as StoreState

COUNT = "target"
"""The kind of a command that says how much there is; its steps are commands too."""


def is_of_count(command: Row) -> bool:
    """Tell whether a command is a count, or a step that one became."""
    return command["kind"] == COUNT or "target" in json.loads(command["payload"])


def is_of_tryton(command: Row) -> bool:
    """Tell whether a command is a count of Tryton's, which nobody enters."""
    cause: str = command["cause"]
    return command["kind"] == COUNT and cause.startswith(f"record {TRYTON} ")


def check_counts(
    state: StoreState, books: Books, causes: Sequence[Cause]
) -> Iterator[Finding]:
    """Yield counts that were not heard once, and levels that are not as counted."""
    counted = [cause for cause in causes if cause.kind == COUNT]
    heard: dict[str, list[Row]] = defaultdict(list)
    for command in books.commands:
        if command["kind"] == COUNT and not is_of_tryton(command):
            heard[command["cause"]].append(command)
    newest = {cause.sku: cause for cause in sorted(counted, key=_moment)}
    replaced = {row["cause"] for row in books.replaced}
    for cause in counted:
        name = f"record {cause.instance} {cause.locator}"
        found = heard.pop(name, [])
        if found or name not in replaced or cause is newest[cause.sku]:
            yield from _check_count(cause, found)
    for strays in heard.values():
        for stray in strays:
            yield Finding(Kind.UNEXPECTED, _name(stray), "nobody counted")
    for cause in newest.values():
        yield from _check_level(state, books, cause)


def _check_count(cause: Cause, commands: Sequence[Row]) -> Iterator[Finding]:
    if not commands and cause.acknowledged:
        yield Finding(Kind.LOST, str(cause), "became no command")
    elif len(commands) > 1:
        yield Finding(Kind.DOUBLED, str(cause), f"became {len(commands)} commands")
    for command in commands:
        yield from check_standing(command, str(cause))
        said = json.loads(command["payload"])["quantity"]
        if said != cause.quantity:
            what = f"is {said}, not {cause.quantity}"
            yield Finding(Kind.DIFFERING, str(cause), what)


def check_standing(command: Row, cause: str) -> Iterator[Finding]:
    """Yield a count that was refused, or that nothing came of yet."""
    state, reason = command["state"], command["reason"]
    if state == State.REJECTED:
        yield Finding(Kind.LOST, cause, f"is {state}: {reason}")
    elif state == State.PARKED:
        yield Finding(Kind.PARKED, _name(command), reason)
    elif state in OPEN:
        yield Finding(Kind.DIFFERING, _name(command), f"is still {state}: {reason}")


def _check_level(state: StoreState, books: Books, cause: Cause) -> Iterator[Finding]:
    """Reckon the level from the count and what was sold and returned since."""
    asked_at = _returns(books)
    should = cause.quantity + sum(
        entry["adjustment"]
        for entry in state["history"]
        if entry["sku"] == cause.sku and _is_news(entry, asked_at, cause)
    )
    for level in state["levels"]:
        if level["sku"] == cause.sku and level["stock"] != should:
            what = f"is {level['stock']}, the {cause} leaves {should}"
            yield Finding(Kind.DIFFERING, f"counted stock of {cause.sku}", what)


def _is_news(entry: Row, asked_at: Mapping[str, str], cause: Cause) -> bool:
    """Tell whether the one who counted could not know of it.

    What we were asked to put back before the count was on the shelf then, whenever the
    store heard of it; after a restore it may be asked for again, long after it was put
    back.
    """
    if entry["reason"] == "ORDER_CANCELLED" and entry["orderId"] in asked_at:
        first = min(asked_at[entry["orderId"]], str(entry["createdAt"]))
        return first > cause.counted_at
    sold = entry["reason"] == "ORDER_PLACED"
    return sold and bool(entry["createdAt"] >= cause.counted_at)


def _returns(books: Books) -> dict[str, str]:
    """Return when each cancellation was asked for, by its order."""
    asked: dict[str, str] = {}
    for command in books.commands:
        if command["kind"] == "cancel":
            at = command["caused_at"] or command["created_at"]
            asked[command["target"]] = at
    return asked


def _moment(cause: Cause) -> tuple[str, int]:
    """Order counts of one moment by the numbers of their rows, if they have any."""
    number = cause.locator.rpartition(" ")[2]
    return cause.counted_at, int(number) if number.isdecimal() else 0


def _name(command: Row) -> str:
    return f"count {command['id'][:8]} for {command['target']}"
