"""Compares commands with their effects, and causes with commands."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from backhaul.core.identity import tag
from backhaul.core.lifecycle import OPEN, State
from backhaul.demo.back_office_checks import COUNT, is_of_count
from backhaul.demo.daemon_rows import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from backhaul.demo.daemon_rows import Cause, DaemonRows, Row

Identity: TypeAlias = "tuple[str, ...]"
"""What a cause and its command have in common."""
GIVEN = frozenset({"ORDER_PLACED", "ORDER_CANCELLED", "INITIAL_STOCK"})
"""Reasons for moves of stock that the store itself makes."""


class Effects(Struct, frozen=True):
    """How often a command took effect, and in which way not as it should have."""

    count: int
    wrong: str = ""


class StoreBooks:
    """The store's state, indexed by what a command leaves behind.

    A store that keeps no notes shows no tags: `noteless` are then the adjustments by
    product and amount, which only say whose they are where no two commands are alike.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self.orders: dict[str, Row] = {order["id"]: order for order in state["orders"]}
        self.history: Sequence[Row] = state["history"]
        self.parcels: dict[Identity, list[str]] = defaultdict(list)
        self.tagged: dict[str, list[Row]] = defaultdict(list)
        self.noteless: dict[tuple[str, int], list[Row]] = defaultdict(list)
        self.put_back: dict[str, Counter[str]] = defaultdict(Counter)
        for order in self.orders.values():
            for parcel in order["shipments"]:
                tracking = (parcel["trackingCompany"], parcel["trackingNumber"])
                self.parcels[tracking].append(order["id"])
        for entry in self.history:
            self.tagged[entry["note"] or ""].append(entry)
            if entry["reason"] not in GIVEN and not entry["note"]:
                self.noteless[entry["productId"], entry["adjustment"]].append(entry)
            if entry["reason"] == "ORDER_CANCELLED":
                moved = {entry["variantId"]: entry["adjustment"]}
                self.put_back[entry["orderId"]].update(moved)

    @property
    def keeps_notes(self) -> bool:
        """Whether anything here bears a note."""
        cancelled = (order["cancellation"] or {} for order in self.orders.values())
        return any(self.tagged.keys() - {""}) or any(c.get("note") for c in cancelled)


def check_commands(store: StoreBooks, books: DaemonRows) -> Iterator[Finding]:
    """Yield each command whose effect is not what its state says."""
    for command in books.commands:
        if command["kind"] == COUNT:
            continue  # it is never sent itself
        effects = effects_of(command, store)
        name = f"{command['kind']} command {command['id'][:8]} for {command['target']}"
        for kind, what in _judge(command, effects):
            yield Finding(kind, name, what)


def effects_of(command: Row, store: StoreBooks) -> Effects:
    """Find what a command did at the store, by its tag or tracking number."""
    return _EFFECTS[command["kind"]](command, json.loads(command["payload"]), store)


def _judge(command: Row, effects: Effects) -> Iterator[tuple[Kind, str]]:
    state = command["state"]
    if effects.count > 1:
        yield Kind.DOUBLED, f"took effect {effects.count} times"
    elif effects.count == 0 and state == State.APPLIED:
        yield Kind.LOST, "is applied, but the store shows no effect"
    elif effects.count == 1 and state in {State.REJECTED, State.SUPERSEDED}:
        yield Kind.UNEXPECTED, f"is {state}, yet it took effect"
    if effects.count and effects.wrong:
        yield Kind.DIFFERING, effects.wrong
    if state == State.PARKED:
        had = "had its effect" if effects.count else "had no effect"
        yield Kind.PARKED, f"{had}: {command['reason']}"
    elif state in OPEN:
        yield Kind.DIFFERING, f"is still {state}: {command['reason']}"


def _fulfilled(command: Row, payload: Row, store: StoreBooks) -> Effects:
    tracking = (payload["tracking_company"], payload["tracking_number"])
    shipped = store.parcels.get(tracking, [])
    elsewhere = [order for order in shipped if order != command["target"]]
    wrong = f"was shipped with {', '.join(elsewhere)}" if elsewhere else ""
    return Effects(len(shipped), wrong)


def _cancelled(command: Row, payload: Row, store: StoreBooks) -> Effects:
    order = store.orders.get(command["target"])
    cancellation = order and order["cancellation"]
    if not order or not cancellation or not _is_own(command, cancellation, store):
        return Effects(0)
    if cancellation["restocked"] != payload["restock"]:
        return Effects(1, f"restocked is {cancellation['restocked']}")
    taken = Counter[str]()
    for item in order["items"]:
        taken[item["variantId"]] += item["quantity"] if payload["restock"] else 0
    return _put_back(+taken, +store.put_back[order["id"]])


def _is_own(command: Row, cancellation: Row, store: StoreBooks) -> bool:
    return cancellation["note"] == tag(command["id"]) or not store.keeps_notes


def _put_back(taken: Counter[str], returned: Counter[str]) -> Effects:
    """Tell a restock that happened once from one that did not, or twice."""
    twice = Counter({variant: 2 * units for variant, units in taken.items()})
    if taken and returned == twice:
        return Effects(2)
    wrong = "" if returned == taken else f"put {dict(returned)} back, not {dict(taken)}"
    return Effects(1, wrong)


def _adjusted(command: Row, payload: Row, store: StoreBooks) -> Effects:
    entries = store.tagged.get(tag(command["id"]), [])
    if not store.keeps_notes:
        entries = store.noteless.get((command["target"], payload["delta"]), [])
    variant = payload["variant_id"]
    asked = (command["target"], variant, payload["delta"])
    told = json.loads(command["evidence"] or "{}").get("adjustment_id")
    wrong = []
    for entry in entries:
        moved = entry["variantId"] if variant else None
        did = (entry["productId"], moved, entry["adjustment"])
        if did != asked:
            wrong.append(f"moved {did}, not {asked}")
        if told not in {None, entry["adjustmentId"]}:
            wrong.append(f"is {entry['adjustmentId']}, but {told} was noted")
    return Effects(len({e["adjustmentId"] for e in entries}), "; ".join(wrong))


_EFFECTS: Mapping[str, Callable[[Row, Row, StoreBooks], Effects]] = {
    "fulfill": _fulfilled,
    "cancel": _cancelled,
    "adjust": _adjusted,
}


def check_causes(
    store: StoreBooks, books: DaemonRows, causes: Sequence[Cause]
) -> Iterator[Finding]:
    """Yield causes without their one command, and commands without a cause."""
    by_identity: dict[Identity, list[Row]] = defaultdict(list)
    recognized = _recognized(books)
    for command in books.commands:
        if not is_of_count(command):
            by_identity[_identity_of(command)].append(command)
    for cause in (each for each in causes if each.kind != COUNT):
        found = by_identity.pop(_identity(cause), [])
        if found or not _is_shown(cause, recognized, store):
            yield from _check_cause(cause, found, store)
    for commands in by_identity.values():
        for command in commands:
            name = f"{command['kind']} command {command['id'][:8]}"
            yield Finding(Kind.UNEXPECTED, name, f"nobody asked: {command['cause']}")


def _recognized(books: DaemonRows) -> set[Identity]:
    """Return carrier and number of parcels that needed no command.

    A database that was restored knows no command for a parcel that left later; the
    order at the store shows the parcel.
    """
    return {(row["company"], row["number"]) for row in books.recognized}


def _is_shown(cause: Cause, recognized: set[Identity], store: StoreBooks) -> bool:
    """Return True for a parcel that was recognized, and that its order shows."""
    tracking: Any = (cause.tracking_company or None, cause.tracking_number)
    return (
        cause.kind == "fulfill"
        and tracking in recognized
        and cause.order_id in store.parcels.get(tracking, ())
    )


def _check_cause(
    cause: Cause, commands: Sequence[Row], store: StoreBooks
) -> Iterator[Finding]:
    if not commands and cause.acknowledged:
        yield Finding(Kind.LOST, str(cause), "became no command")
    elif len(commands) > 1:
        yield Finding(Kind.DOUBLED, str(cause), f"became {len(commands)} commands")
    for command in commands:
        ended = command["state"] in {State.REJECTED, State.SUPERSEDED}
        if ended and not effects_of(command, store).count:
            what = f"is {command['state']}: {command['reason']}"
            yield Finding(Kind.LOST, str(cause), what)
        if told := _misheard(cause, json.loads(command["payload"])):
            yield Finding(Kind.DIFFERING, str(cause), told)


def _misheard(cause: Cause, payload: Row) -> str:
    said = _SAID[cause.kind](cause)
    return "; ".join(
        f"{name} is {payload[name]!r}, not {value!r}"
        for name, value in said.items()
        if payload[name] != value
    )


_SAID: Mapping[str, Callable[[Cause], Row]] = {
    "fulfill": lambda cause: {"tracking_company": cause.tracking_company or None},
    "cancel": lambda cause: {"restock": cause.restock},
    "adjust": lambda cause: {"delta": cause.delta},
}


def _identity(cause: Cause) -> Identity:
    if cause.kind == "fulfill":
        return (cause.kind, cause.order_id, cause.tracking_number)
    if cause.kind == "cancel":
        return (cause.kind, cause.order_id)
    return (cause.kind, f"record {cause.instance} {cause.locator}")


def _identity_of(command: Row) -> Identity:
    if command["kind"] == "fulfill":
        number = json.loads(command["payload"])["tracking_number"]
        return ("fulfill", command["target"], number)
    if command["kind"] == "cancel":
        return ("cancel", command["target"])
    return ("adjust", command["cause"])


def check_strays(store: StoreBooks, books: DaemonRows) -> Iterator[Finding]:
    """Yield effects at the store that belong to none of our commands."""
    tags = {tag(command["id"]) for command in books.commands}
    tags |= {tag(effect["command_id"]) for effect in books.adopted}
    asked = {_tracking(c) for c in books.commands if c["kind"] == "fulfill"}
    asked |= _recognized(books)
    for tracking, orders in store.parcels.items():
        if tracking not in asked:
            yield Finding(Kind.UNEXPECTED, f"parcel of {orders[0]}", f"{tracking}")
    if not store.keeps_notes:
        yield from _check_noteless(store, books)
        return
    for order in store.orders.values():
        if order["cancellation"] and order["cancellation"]["note"] not in tags:
            what = "is cancelled, and not by our command"
            yield Finding(Kind.UNEXPECTED, f"order {order['name']}", what)
    for entry in store.history:
        if entry["reason"] not in GIVEN and entry["note"] not in tags:
            name = f"stock of {entry['sku']}"
            what = f"moved by {entry['adjustment']}, and not by our command"
            yield Finding(Kind.UNEXPECTED, name, what)


def _check_noteless(store: StoreBooks, books: DaemonRows) -> Iterator[Finding]:
    """Yield adjustments of a store without notes that nobody asked for."""
    asked = {
        (command["target"], json.loads(command["payload"])["delta"])
        for command in books.commands
        if command["kind"] == "adjust"
    }
    for (product, delta), entries in store.noteless.items():
        if (product, delta) not in asked:
            what = f"moved by {delta}, and not by our command"
            yield Finding(Kind.UNEXPECTED, f"stock of {entries[0]['sku']}", what)


def _tracking(command: Row) -> Identity:
    payload = json.loads(command["payload"])
    return (payload["tracking_company"], payload["tracking_number"])
