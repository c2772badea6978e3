"""Conditions that raise an alert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.clock import from_text
from backhaul.store.alerting import Alert

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from backhaul.settings.alerts import AlertSettings
    from backhaul.store.alerting import Backup, Needs

BACKUP = "backup"
"""The job that makes backups; it is not planned while a person pauses it."""
BACKUP_SECONDS = 3_600.0
"""A backup that has been made for longer hangs."""
UNTOLD_SECONDS = 3_600.0
"""News that wait for longer are told of: a back office may be away for a while."""
STRANGE_SECONDS = 86_400.0
"""After a day without any, news of another store are no longer told of."""
UNREADABLE_SECONDS = 120.0
"""An order that could not be fetched for so long needs a person."""
EVERYTHING = "everything"
"""What a door says that is closed to commands of all kinds."""


def causes(
    wanted: AlertSettings,
    status: Mapping[str, Any],
    needs: Needs,
    silence: Mapping[str, float],
    now: float,
    backups_missed: Callable[[datetime], bool],
) -> dict[str, Alert]:
    """Return every cause by its key, whose first word is its kind.

    `silence` are the seconds that each instance may bring nothing, `now` is in seconds
    since 1970; `backups_missed` tells whether two should have been made since a moment.
    """
    found = [
        *_parked(needs.parked),
        *_incidents(needs.incidents),
        *_in_vain(needs.in_vain),
        *_stopped(status),
        *_paused(status),
        *_unrepaired(needs.unrepaired, wanted.drift_rows),
        *_silent(needs.last_records, silence, now),
        *_down(status),
        *_news_parked(status, needs.news_parked),
        *_news_untold(status, needs.news_since, now),
        *_doubled(needs.doubled),
        *_counts_stopped(status, needs.counts_stopped),
        *_stranded(status, needs.open_stores),
        *_strangers(status, needs.strangers, now),
        *_unreadable(status, needs.unreadable, now),
        *_backup(status, needs.backup, now, backups_missed),
    ]
    return {alert.key: alert for alert in found}


def _parked(parked: Sequence[Mapping[str, str]]) -> Iterator[Alert]:
    for command in parked:
        yield Alert(
            f"parked {command['id']}",
            f"{command['kind']} of {command['target']} ({command['store']}) is parked:"
            f" {command['reason']}",
            f"backhaul commands show {command['id'][:8]}",
        )


def _incidents(incidents: Sequence[Mapping[str, Any]]) -> Iterator[Alert]:
    for incident in incidents:
        yield Alert(
            f"incident {incident['id']}",
            f"{incident['says']} ({incident['store']})",
            "stop the parcel or correct the stock, then: backhaul incidents resolve"
            f" {incident['id']} --reason …",
        )


def _in_vain(sent: Sequence[Mapping[str, Any]]) -> Iterator[Alert]:
    for command in sent:
        yield Alert(
            f"vain {command['id']}",
            f"{command['kind']} of {command['target']} ({command['store']}) is sent"
            " again and again, and never found there",
            f"backhaul commands show {command['id'][:8]} has each answer; park it if it"
            " must not be tried any more: what comes behind it waits",
        )


def _stopped(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, store in status["stores"].items():
        for kind, reason in store["stopped"].items():
            what = "Nothing" if kind == EVERYTHING else f"No {kind}"
            yield Alert(
                f"stopped {name} {kind}",
                f"{what} is sent to {name}: {reason}",
                "do as it says, or mend what it names: then it goes on by itself; see"
                " backhaul status",
            )


def _paused(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, store in status["stores"].items():
        if pause := store.get("paused"):
            yield Alert(
                f"paused {name}",
                f"Nothing is sent to {name} or read from it until {pause['until']}:"
                f" {pause['reason']}",
                "nothing has to be done: one request tries again then; if the platform"
                " keeps answering so, ask its support about the rate limit of the key",
            )


def _unrepaired(unrepaired: Mapping[str, int], most: int) -> Iterator[Alert]:
    for store, rows in unrepaired.items():
        if rows >= most:
            yield Alert(
                f"drift {store}",
                f"{rows} rows of {store} differ from the platform and could not be"
                " repaired",
                "backhaul reconcile --dry-run shows them",
            )


def _silent(
    last: Mapping[str, float], silence: Mapping[str, float], now: float
) -> Iterator[Alert]:
    for instance, seconds in silence.items():
        if instance in last and now - last[instance] >= seconds:
            yield Alert(
                f"silent {instance}",
                f"{instance} has brought nothing for longer than"
                f" {seconds / 3600:g} hours",
                "backhaul status; is its system running?",
            )


def _down(status: Mapping[str, Any]) -> Iterator[Alert]:
    for name, instance in status["connectors"].items():
        if not instance["up"]:
            yield Alert(
                f"down {name}",
                f"{name} cannot work: {instance['reason']}",
                "backhaul status says why",
            )


def _news_parked(
    status: Mapping[str, Any], parked: Sequence[Mapping[str, Any]]
) -> Iterator[Alert]:
    for one in parked:
        name = one["instance"]
        if name in status["news"]:
            yield Alert(
                f"news {one['seq']}",
                f"{name} was not told of {one['topic']} of {one['object_id']}"
                f" ({one['store']}), which is parked: {one['reason']}",
                f"backhaul connectors deliveries {name} --state parked",
            )


def _news_untold(
    status: Mapping[str, Any], since: Mapping[str, str], now: float
) -> Iterator[Alert]:
    """Not whether it is up: one that is refused each time lets others pass."""
    for name, each in status["news"].items():
        if {"*", name} & {*status["dry_run"]} or name not in since:
            continue
        if now - from_text(since[name]).timestamp() >= UNTOLD_SECONDS:
            why = f": {each['reason']}" if each["reason"] else ""
            yield Alert(
                f"untold {name}",
                f"{name} was not told of all that is news since {since[name]}{why}",
                f"backhaul connectors deliveries {name} --state planned",
            )


def _doubled(doubled: Sequence[Mapping[str, str]]) -> Iterator[Alert]:
    """These are never over: what is known of a command stays."""
    for command in doubled:
        yield Alert(
            f"doubled {command['id']}",
            f"{command['kind']} of {command['target']} ({command['store']}) has an"
            f" effect too many: {command['others']}",
            f"backhaul commands show {command['id'][:8]}; compensate by hand",
        )


def _counts_stopped(
    status: Mapping[str, Any], stopped: Mapping[str, str]
) -> Iterator[Alert]:
    for store, reason in stopped.items():
        if store in status["stores"]:
            yield Alert(
                f"counts {store}",
                f"No count is set on {store} any more: {reason}",
                f"once that is mended: backhaul targets resume {store}",
            )


def _stranded(status: Mapping[str, Any], stores: Collection[str]) -> Iterator[Alert]:
    for store in sorted(stores):
        if store not in status["stores"]:
            yield Alert(
                f"stranded {store}",
                f"Commands of the store {store} are open, and the configuration names"
                " no such store: nobody works on them",
                "backhaul doctor says how many there are, and what to do",
            )


def _strangers(
    status: Mapping[str, Any], strangers: Mapping[str, str], now: float
) -> Iterator[Alert]:
    for store, last in strangers.items():
        at, _, other = last.partition(" ")
        # Where the clock was ahead then, it would be recent until that time comes.
        recent = abs(now - from_text(at).timestamp()) < STRANGE_SECONDS
        if recent and store in status["stores"]:
            yield Alert(
                f"stranger {store}",
                f"Webhooks of another store, {other}, come to the address of {store}:"
                " they are kept, and nothing else is done with them",
                "backhaul events list --state unhandled shows them; give that store an"
                " address of its own, or take its webhooks away",
            )


def _unreadable(
    status: Mapping[str, Any], orders: Sequence[Mapping[str, Any]], now: float
) -> Iterator[Alert]:
    """Not at once: a refetch nearly always settles it within seconds."""
    for order in orders:
        waits = now - from_text(order["since"]).timestamp()
        if waits >= UNREADABLE_SECONDS and order["store"] in status["stores"]:
            yield Alert(
                f"unreadable {order['store']} {order['order_id']}",
                f"Nothing is sent for order {order['name']} ({order['store']}) since"
                f" {order['since']}: event {order['event']} could not be read, and no"
                f" later read has shown the order. {order['reason']}",
                f"see: backhaul quarantine show {order['row']}; look at the order in"
                " the platform's dashboard. Its commands leave once it can be read, or"
                f" after: backhaul quarantine drop {order['row']}",
            )


def _backup(
    status: Mapping[str, Any],
    backup: Backup | None,
    now: float,
    missed: Callable[[datetime], bool],
) -> Iterator[Alert]:
    if backup is None or BACKUP not in status["jobs"]:
        return
    if backup.failed is not None:
        yield Alert(
            "backup failed",
            f"The last backup failed: {backup.failed}",
            "then: backhaul jobs run backup",
        )
    if not _is_made(backup, now) and missed(from_text(backup.last)):
        yield Alert(
            "backup late",
            f"No backup was made since {backup.last}",
            "backhaul jobs list; journalctl -u backhaul | grep backup",
        )


def _is_made(backup: Backup, now: float) -> bool:
    since = backup.running_since
    return since is not None and now - from_text(since).timestamp() < BACKUP_SECONDS
