"""The problems that raise an alert, each with its text and its remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text
from backhaul.store.operations import Alert

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from backhaul.settings.alerts import AlertSettings
    from backhaul.store.inbox import UnreadableOrder
    from backhaul.store.operations import (
        AlertConditions,
        BackupState,
        CommandProblem,
        OpenIncident,
        ParkedDelivery,
    )

BACKUP = "backup"
"""The job that makes backups. It is not scheduled while an operator pauses it."""
BACKUP_SECONDS = 3_600.0
"""A backup that runs longer than this hangs."""
LATE_DELIVERY_SECONDS = 3_600.0
"""A delivery that waits this long raises an alert: a short outage does not."""
FOREIGN_SECONDS = 86_400.0
"""The alert about webhooks of another store ends after this long without one."""
UNREADABLE_SECONDS = 120.0
"""An order that could not be fetched for this long raises an alert."""
EVERYTHING = "everything"
"""The kind in the status of a send switch that blocks commands of all kinds."""


def causes(
    settings: AlertSettings,
    status: Mapping[str, Any],
    found: AlertConditions,
    silence: Mapping[str, float],
    now: float,
    backups_missed: Callable[[datetime], bool],
) -> dict[str, Alert]:
    """Return an alert for every problem, by its key. A key begins with the kind.

    `silence` has the seconds that each connection may submit no record. `now` is in
    seconds since 1970. `backups_missed` returns whether the schedule had two backups or
    more since a moment.
    """
    alerts = [
        *_parked(found.parked),
        *_incidents(found.incidents),
        *_sent_repeatedly(found.repeated),
        *_stopped(status),
        *_paused(status),
        *_unrepaired(found.unrepaired, settings.drift_rows),
        *_silent(found.last_records, silence, now),
        *_down(status),
        *_deliveries_parked(status, found.parked_deliveries),
        *_deliveries_late(status, found.deliveries_since, now),
        *_doubled(found.doubled),
        *_counts_stopped(status, found.counts_stopped),
        *_orphaned(status, found.open_stores),
        *_foreign_webhooks(status, found.foreign_webhooks, now),
        *_unreadable(status, found.unreadable, now),
        *_backup(status, found.backup, now, backups_missed),
    ]
    return {alert.key: alert for alert in alerts}


def _parked(parked: Sequence[CommandProblem]) -> Iterator[Alert]:
    for command in parked:
        yield Alert(
            f"parked {command.id}",
            f"{command.kind} of {command.target} ({command.store}) is parked:"
            f" {command.detail}",
            f"backhaul commands show {command.id[:8]} lists what you can do. Until"
            " you decide, Backhaul does not send it again",
        )


def _incidents(incidents: Sequence[OpenIncident]) -> Iterator[Alert]:
    for incident in incidents:
        yield Alert(
            f"incident {incident.id}",
            f"{incident.text} ({incident.store})",
            "stop the parcel or correct the stock, then run: backhaul incidents resolve"
            f" {incident.id} --reason …. Backhaul corrects nothing here on its own",
        )


def _sent_repeatedly(sent: Sequence[CommandProblem]) -> Iterator[Alert]:
    for command in sent:
        yield Alert(
            f"vain {command.id}",
            f"{command.kind} of {command.target} ({command.store}) was sent"
            " repeatedly: no response was conclusive, and no check found its effect",
            f"backhaul commands show {command.id[:8]} shows each response. If the"
            f" command must stop, run: backhaul commands park {command.id[:8]}. If"
            " you do nothing, Backhaul keeps retrying, and later commands of the same"
            " order or product wait",
        )


def _stopped(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, store in status["stores"].items():
        for kind, reason in store["stopped"].items():
            what = "no commands" if kind == EVERYTHING else f"no {kind}"
            yield Alert(
                f"stopped {name} {kind}",
                f"Backhaul sends {what} to {name}: {reason}",
                "fix the cause that the message names; sending then resumes"
                " automatically, unless the message asks for a restart. Until then"
                " commands wait. Details: backhaul status",
            )


def _paused(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, store in status["stores"].items():
        if pause := store.get("paused"):
            yield Alert(
                f"paused {name}",
                f"Backhaul sends no requests to {name} until {pause['until']}:"
                f" {pause['reason']}",
                "wait: Backhaul retries with one request at that time. If the platform"
                " keeps answering this way, ask its support about the rate limit of"
                " your API key",
            )


def _unrepaired(unrepaired: Mapping[str, int], most: int) -> Iterator[Alert]:
    for store, rows in unrepaired.items():
        if rows >= most:
            yield Alert(
                f"drift {store}",
                f"{rows} rows of the mirror of {store} differ from the platform, and"
                " the last full sync could not repair them",
                "run: backhaul reconcile --dry-run to list them. The next full sync"
                " tries again; until then the mirror shows old values",
            )


def _silent(
    last: Mapping[str, float], silence: Mapping[str, float], now: float
) -> Iterator[Alert]:
    for instance, seconds in silence.items():
        if instance in last and now - last[instance] >= seconds:
            yield Alert(
                f"silent {instance}",
                f"The connection {instance} has submitted no record for more than"
                f" {seconds / 3600:g} hours",
                "check that its system is running, and see backhaul status. Backhaul"
                " keeps waiting for its records",
            )


def _down(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, instance in status["connectors"].items():
        if not instance["up"]:
            yield Alert(
                f"down {name}",
                f"The connection {name} does not work: {instance['reason']}",
                "fix the cause; Backhaul keeps retrying. Until then it takes no"
                " records from it. Details: backhaul status",
            )


def _deliveries_parked(
    status: Mapping[str, Any], parked: Sequence[ParkedDelivery]
) -> Iterator[Alert]:
    for delivery in parked:
        name = delivery.instance
        if name in status["news"]:
            yield Alert(
                f"news {delivery.seq}",
                f"The delivery of {delivery.topic} of {delivery.object_id}"
                f" ({delivery.store}) to {name} is parked: {delivery.reason}",
                f"list it with: backhaul connectors deliveries {name} --state parked,"
                f" then decide with: backhaul connectors resolve {delivery.seq} --as …"
                " --reason …. Until then later deliveries about the same object wait",
            )


def _deliveries_late(
    status: Mapping[str, Any], since: Mapping[str, str], now: float
) -> Iterator[Alert]:
    """Yield deliveries that wait too long, also where the connection is up.

    A system that refuses one delivery each time may accept all others.
    """
    for name, each in status["news"].items():
        if {"*", name} & {*status["dry_run"]} or name not in since:
            continue
        if now - from_text(since[name]).timestamp() >= LATE_DELIVERY_SECONDS:
            why = f": {each['reason']}" if each["reason"] else ""
            yield Alert(
                f"untold {name}",
                f"Deliveries to {name} have been waiting since {since[name]}{why}",
                "check that its system is running, and list the deliveries with:"
                f" backhaul connectors deliveries {name} --state planned. Backhaul"
                " keeps retrying",
            )


def _doubled(doubled: Sequence[CommandProblem]) -> Iterator[Alert]:
    """Yield commands that took effect more than once. These alerts never end."""
    for command in doubled:
        yield Alert(
            f"doubled {command.id}",
            f"{command.kind} of {command.target} ({command.store}) took"
            f" effect more than once; surplus effects: {command.detail}",
            f"backhaul commands show {command.id[:8]} has the details. Compensate"
            " the surplus manually: Backhaul does not undo it",
        )


def _counts_stopped(
    status: Mapping[str, Any], stopped: Mapping[str, str]
) -> Iterator[Alert]:
    for store, reason in stopped.items():
        if store in status["stores"]:
            yield Alert(
                f"counts {store}",
                f"Backhaul no longer applies stock counts to {store}: {reason}",
                f"fix the cause, then run: backhaul stock resume {store}. Until then"
                " new counts are stored and wait",
            )


def _orphaned(status: Mapping[str, Any], stores: Collection[str]) -> Iterator[Alert]:
    for store in sorted(stores):
        if store not in status["stores"]:
            yield Alert(
                f"stranded {store}",
                f"Commands of the store {store} are open, but the configuration has no"
                " store of this name",
                "backhaul doctor shows how many there are and what to do. Until then"
                " Backhaul does not send them",
            )


def _foreign_webhooks(
    status: Mapping[str, Any], foreign: Mapping[str, str], now: float
) -> Iterator[Alert]:
    for store, last in foreign.items():
        at, _, other = last.partition(" ")
        # A time that was recorded while the clock was ahead must not count as recent.
        recent = abs(now - from_text(at).timestamp()) < FOREIGN_SECONDS
        if recent and store in status["stores"]:
            yield Alert(
                f"stranger {store}",
                f"The webhook address of {store} receives webhooks of another store,"
                f" {other}. Backhaul keeps them, but does not apply them",
                "list them with: backhaul events list --state unhandled. Give that"
                " store its own address, or delete its webhook subscription to this"
                " one. If you do nothing, the mirror stays correct",
            )


def _unreadable(
    status: Mapping[str, Any], orders: Sequence[UnreadableOrder], now: float
) -> Iterator[Alert]:
    """Yield orders that stay unreadable. A refetch resolves most before the delay."""
    for order in orders:
        waits = now - from_text(order.since).timestamp()
        if waits >= UNREADABLE_SECONDS and order.store in status["stores"]:
            yield Alert(
                f"unreadable {order.store} {order.order_id}",
                f"Commands of order {order.name} ({order.store}) have been on"
                f" hold since {order.since}: event {order.event} could not be"
                f" read, and no later read has shown the order. {order.reason}",
                f"run: backhaul quarantine show {order.row}, and compare the order"
                " in the platform's dashboard. Its commands leave once Backhaul can"
                " read the order, or after you run: backhaul quarantine drop"
                f" {order.row}",
            )


def _backup(
    status: Mapping[str, Any],
    backup: BackupState | None,
    now: float,
    missed: Callable[[datetime], bool],
) -> Iterator[Alert]:
    if backup is None or BACKUP not in status["jobs"]:
        return
    if backup.failed is not None:
        yield Alert(
            "backup failed",
            f"The last backup failed: {backup.failed}",
            "fix the cause, then run: backhaul jobs run backup. The previous backup is"
            " kept, and the job tries again at its next time",
        )
    if not _is_made(backup, now) and missed(from_text(backup.last)):
        yield Alert(
            "backup late",
            f"No backup was made since {backup.last}",
            "find the cause with: backhaul jobs list, and: journalctl -u backhaul |"
            " grep backup. Until then a restore loses all that is newer",
        )


def _is_made(backup: BackupState, now: float) -> bool:
    since = backup.running_since
    return since is not None and now - from_text(since).timestamp() < BACKUP_SECONDS
