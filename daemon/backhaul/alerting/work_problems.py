"""Problems of commands, deliveries, counts, orders and the mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from backhaul.alerting.problem import Problem, Several, Severity
from backhaul.core.clock import from_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from backhaul.alerting.problem import Facts
    from backhaul.store.inbox import UnreadableOrder
    from backhaul.store.mirror import UnknownStatus
    from backhaul.store.operations import (
        CommandProblem,
        HeldTargets,
        OpenIncident,
        ParkedDelivery,
    )

DOCTOR = "backhaul doctor"
LATE_DELIVERY_SECONDS = 3_600.0
"""A delivery that waits this long raises an alert: a short outage does not."""
UNREADABLE_SECONDS = 120.0
"""An order that could not be fetched for this long raises an alert."""
PARKED: Mapping[str, tuple[str, str, str]] = {
    "fulfill": (
        "shipments",
        "1 parcel is not reported to store {store}",
        "{n} parcels are not reported to store {store}",
    ),
    "cancel": (
        "cancellations",
        "the order is not cancelled in store {store}",
        "{n} orders are not cancelled in store {store}",
    ),
    "adjust": (
        "stock adjustments",
        "the stock in store {store} is not adjusted",
        "{n} adjustments are missing in the stock of store {store}",
    ),
    "target": (
        "stock counts",
        "the stock in store {store} is not set to the count",
        "the stock of {n} SKUs in store {store} is not set to the count",
    ),
}
"""Parked commands of a kind: their noun, the consequence of one, and of several."""


def find(facts: Facts) -> Iterator[Problem]:
    """Yield the problems of commands, deliveries, counts and orders."""
    status, known, now = facts.status, facts.conditions, facts.now
    yield from _doubled(known.doubled)
    yield from _parked(known.parked)
    yield from _incidents(known.incidents)
    yield from _sent_repeatedly(known.repeated)
    yield from _counts_stopped(status, known.counts_stopped)
    yield from _counts_held(status, known.held_targets)
    yield from _unreadable(status, known.unreadable, now)
    yield from _deliveries_down(status)
    yield from _deliveries_parked(status, known.parked_deliveries)
    yield from _deliveries_late(status, known.deliveries_since, now)
    yield from _unrepaired(known.unrepaired, facts.drift_rows)
    yield from _orphaned(status, known.open_stores)
    yield from _quarantined(known.quarantined)
    yield from _unknown_statuses(known.unknown_statuses)


def _parked(parked: Sequence[CommandProblem]) -> Iterator[Problem]:
    for command in parked:
        what = f"{command.kind} of {command.about or command.target}"
        name, one, many = PARKED[command.kind]
        yield Problem(
            f"parked {command.id}",
            f"{command.kind} of {command.target} ({command.store}) is parked:"
            f" {command.detail}",
            f"backhaul commands show {command.id[:8]} lists what you can do. Until"
            " you decide, Backhaul does not send it again",
            subject="parked",
            short=f"{what}: {command.detail}",
            command=f"backhaul commands show {command.id[:8]}",
            severity=Severity.PARKED,
            consequence=one.format(store=command.store),
            link=f"/commands/{command.id}",
            action="Decide",
            several=Several(
                f"{{n}} {name} of store {command.store} are parked",
                many.format(store=command.store, n="{n}"),
            ),
        )


def _doubled(doubled: Sequence[CommandProblem]) -> Iterator[Problem]:
    """Yield commands that took effect more than once. These alerts never end."""
    for command in doubled:
        yield Problem(
            f"doubled {command.id}",
            f"{command.kind} of {command.target} ({command.store}) took"
            f" effect more than once; surplus effects: {command.detail}",
            f"backhaul commands show {command.id[:8]} has the details. Compensate"
            " the surplus manually: Backhaul does not undo it",
            subject="doubled",
            command=f"backhaul commands show {command.id[:8]}",
            consequence=f"store {command.store} is wrong by the surplus until you"
            " correct it",
            link=f"/commands/{command.id}",
            action="Show the effects",
        )


def _incidents(incidents: Sequence[OpenIncident]) -> Iterator[Problem]:
    for incident in incidents:
        yield Problem(
            f"incident {incident.id}",
            f"{incident.text} ({incident.store})",
            "stop the parcel or correct the stock, then run: backhaul incidents resolve"
            f" {incident.id} --reason …. Backhaul corrects nothing here on its own",
            subject="incident",
            command=f"backhaul incidents resolve {incident.id} --reason …",
            consequence="Backhaul corrects nothing here on its own",
            link=f"/incidents#incident-{incident.id}",
            action="Resolve",
            several=Several(
                "{n} incidents are open", "Backhaul corrects none of them on its own"
            ),
        )


def _sent_repeatedly(sent: Sequence[CommandProblem]) -> Iterator[Problem]:
    for command in sent:
        yield Problem(
            f"vain {command.id}",
            f"{command.kind} of {command.target} ({command.store}) was sent"
            " repeatedly: no response was conclusive, and no check found its effect",
            f"backhaul commands show {command.id[:8]} shows each response. If the"
            f" command must stop, run: backhaul commands park {command.id[:8]}. If"
            " you do nothing, Backhaul keeps retrying, and later commands of the same"
            " order or product wait",
            subject="sent repeatedly",
            command=f"backhaul commands show {command.id[:8]}",
            consequence="later commands of the same order or product wait",
            link=f"/commands/{command.id}",
            action="Show the responses",
            severity=Severity.WARN,
        )


def _counts_stopped(
    status: Mapping[str, Any], stopped: Mapping[str, str]
) -> Iterator[Problem]:
    for store, reason in stopped.items():
        if store in status["stores"]:
            yield Problem(
                f"counts {store}",
                f"Backhaul no longer applies stock counts to {store}: {reason}",
                f"fix the cause, then run: backhaul stock resume {store}. Until then"
                " new counts are stored and wait",
                subject=f"counts of {store}",
                short=f"stopped: {reason}",
                command=f"backhaul stock resume {store}",
                consequence=f"new stock counts of store {store} wait, so its stock"
                " becomes wrong",
                link="/targets",
                action="Resume",
            )


def _counts_held(
    status: Mapping[str, Any], held: Sequence[HeldTargets]
) -> Iterator[Problem]:
    """Yield one problem for all held counts of a store: a restore may hold many."""
    for each in held:
        store = each.store
        if store in status["stores"]:
            counts = (
                "1 stock count" if each.number == 1 else f"{each.number:,} stock counts"
            )
            what = (
                f"{counts} on hold since the database was restored, the oldest from"
                f" {each.since}, SKU {each.sku}"
            )
            release = f"backhaul stock release --store {store}"
            yield Problem(
                f"held {store}",
                f"{what} ({store}): Backhaul cannot determine whether a newer count was"
                " applied before the restore",
                "submit the present stock: a newer count of a SKU replaces the count on"
                f" hold. If there is none, run: {release}. Until then Backhaul does not"
                " change the stock of these SKUs",
                subject=f"counts of {store}",
                short=what,
                command=f"{release} --dry-run",
                severity=Severity.PARKED,
                consequence="the stock of these SKUs does not change",
                link="/targets",
                action="Release",
            )


def _unreadable(
    status: Mapping[str, Any], orders: Sequence[UnreadableOrder], now: float
) -> Iterator[Problem]:
    """Yield unreadable orders. A refetch resolves most of them before they alert."""
    for order in orders:
        waits = now - from_text(order.since).timestamp()
        is_stuck = waits >= UNREADABLE_SECONDS
        name = order.name.removeprefix("#")
        if order.store in status["stores"]:
            yield Problem(
                f"unreadable {order.store} {order.order_id}",
                f"Commands of order {order.name} ({order.store}) have been on"
                f" hold since {order.since}: event {order.event} could not be"
                f" read, and no later read has shown the order. {order.reason}",
                f"run: backhaul quarantine show {order.row}, and compare the order"
                " in the platform's dashboard. Its commands leave once Backhaul can"
                " read the order, or after you run: backhaul quarantine discard"
                f" {order.row}",
                subject="unreadable",
                command=f"backhaul why order {name}",
                severity=Severity.FAIL if is_stuck else Severity.WARN,
                raises_alert=is_stuck,
                consequence=f"nothing is sent for order {order.name}",
                link=f"/quarantine/{order.row}",
                action="Show the event",
                several=Several(
                    "{n} orders cannot be read", "nothing is sent for {n} orders"
                ),
            )


def _deliveries_down(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, each in status["news"].items():
        if each["up"] is False:
            yield Problem(
                f"delivery-down {name}",
                f"Deliveries to {name} fail: {each['reason']}",
                subject=f"delivery to {name}",
                command=f"backhaul connectors deliveries {name}",
                consequence=f"changes in the store wait for {name}",
                link=f"/connectors#connector-{quote(name)}",
                action="Show the connector",
                raises_alert=False,
            )


def _deliveries_parked(
    status: Mapping[str, Any], parked: Sequence[ParkedDelivery]
) -> Iterator[Problem]:
    for delivery in parked:
        name = delivery.instance
        if name in status["news"]:
            yield Problem(
                f"news {delivery.seq}",
                f"The delivery of {delivery.topic} of {delivery.object_id}"
                f" ({delivery.store}) to {name} is parked: {delivery.reason}",
                f"list it with: backhaul connectors deliveries {name} --state parked,"
                f" then decide with: backhaul connectors resolve {delivery.seq} --as …"
                " --reason …. Until then later deliveries about the same object wait",
                subject=f"delivery to {name}",
                command=f"backhaul connectors deliveries {name} --state parked",
                severity=Severity.PARKED,
                consequence="later deliveries about the same object wait",
                link=f"/connectors#connector-{quote(name)}",
                action="Show the connector",
                several=Several(
                    f"{{n}} deliveries to {name} are parked",
                    f"{{n}} changes did not reach {name}, and later ones of the same"
                    " objects wait",
                ),
            )


def _deliveries_late(
    status: Mapping[str, Any], since: Mapping[str, str], now: float
) -> Iterator[Problem]:
    """Yield deliveries that wait too long, also where the connection is up.

    A system that refuses one delivery each time may accept all others.
    """
    for name, each in status["news"].items():
        if {"*", name} & {*status["dry_run"]} or name not in since:
            continue
        if now - from_text(since[name]).timestamp() >= LATE_DELIVERY_SECONDS:
            why = f": {each['reason']}" if each["reason"] else ""
            yield Problem(
                f"untold {name}",
                f"Deliveries to {name} have been waiting since {since[name]}{why}",
                "check that its system is running, and list the deliveries with:"
                f" backhaul connectors deliveries {name} --state planned. Backhaul"
                " keeps retrying",
                subject=f"delivery to {name}",
                command=f"backhaul connectors deliveries {name} --state planned",
                consequence=f"{name} does not know of changes since then",
                link=f"/connectors#connector-{quote(name)}",
                action="Show the connector",
            )


def _unrepaired(unrepaired: Mapping[str, int], most: int) -> Iterator[Problem]:
    for store, rows in unrepaired.items():
        if rows >= most:
            yield Problem(
                f"drift {store}",
                f"{rows} rows of the mirror of {store} differ from the platform, and"
                " the last full sync could not repair them",
                "run: backhaul reconcile --dry-run to list them. The next full sync"
                " tries again; until then the mirror shows old values",
                subject=f"mirror of {store}",
                command="backhaul reconcile --dry-run",
                severity=Severity.WARN,
                consequence="the mirror shows old values",
                link="/drift",
                action="Show the last full syncs",
            )


def _orphaned(status: Mapping[str, Any], stores: Collection[str]) -> Iterator[Problem]:
    for store in sorted(stores):
        if store not in status["stores"]:
            yield Problem(
                f"stranded {store}",
                f"Commands of the store {store} are open, but the configuration has no"
                " store of this name",
                "backhaul doctor shows how many there are and what to do. Until then"
                " Backhaul does not send them",
                subject=f"store {store}",
                command=DOCTOR,
                consequence="these commands are not sent",
                link=f"/commands?{urlencode({'store': store})}",
                action="Show the commands",
            )


def _quarantined(rows: int) -> Iterator[Problem]:
    if rows:
        text = f"{rows:,} row{'' if rows == 1 else 's'} in quarantine"
        yield Problem(
            "quarantine",
            text,
            subject="quarantine",
            command="backhaul quarantine list",
            severity=Severity.WARN,
            raises_alert=False,
            consequence="their content is not applied; everything else is",
            link="/quarantine",
            action="Show the rows",
        )


def _unknown_statuses(unknown: Sequence[UnknownStatus]) -> Iterator[Problem]:
    for each in unknown:
        more = f" and {each.orders - 1:,} more" if each.orders > 1 else ""
        yield Problem(
            f"payment {each.store} {each.status}",
            f"financial status {each.status!r} is unknown: order {each.example}{more}"
            " not released to connections that wait for payment; ask the platform what"
            " it means",
            subject=f"payment at {each.store}",
            command=f"backhaul why order {each.example.removeprefix('#')}",
            severity=Severity.WARN,
            consequence="these orders do not reach connections that wait for payment",
            link=f"/search?{urlencode({'q': each.example})}",
            action="Show the order",
            raises_alert=False,
        )
