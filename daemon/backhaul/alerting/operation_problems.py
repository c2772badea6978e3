"""Problems of stores, connections, webhooks, jobs, backups and the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from backhaul.alerting.problem import Problem, Severity
from backhaul.core.clock import from_text
from backhaul.store.ownership import DATABASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from backhaul.alerting.problem import Facts
    from backhaul.store.operations import BackupState

BACKUP = "backup"
"""The job that makes backups. It is not scheduled while an operator pauses it."""
BACKUP_SECONDS = 3_600.0
"""A backup that runs longer than this hangs."""
FOREIGN_SECONDS = 86_400.0
"""The alert about webhooks of another store ends after this long without one."""
EVERYTHING = "everything"
"""The kind in the status of a send switch that blocks commands of all kinds."""
DOCTOR = "backhaul doctor"
TOPICS_SHOWN = 3
MOST_NAMES = 5
UNKNOWN = "unknown"
"""The name under which the daemon counts webhooks for unknown stores."""
REFUSALS: Mapping[str, str] = {
    "encoded": "compressed (415)",
    "large": "too large (413)",
    "refused": "with a wrong signature (401)",
    "doubled": "with several signatures (401)",
    "unsigned": "without a signature (401)",
    "slow": "too slow (408)",
    "busy": "while the daemon was busy (503)",
}
"""The words for each kind of refusal, with the status of the response."""
LEAST_FREE_BYTES = 1_000_000_000
"""With less space, a backup or a night of log lines may not fit."""


def find(facts: Facts) -> Iterator[Problem]:
    """Yield the problems of stores, connections, webhooks, jobs, backups and disk."""
    status, known, now = facts.status, facts.conditions, facts.now
    yield from _ownerless(status)
    yield from _stopped(status)
    yield from _paused(status)
    yield from _subscriptions(status)
    yield from _down(status)
    yield from _silent(known.last_records, facts.silence, now)
    yield from _foreign_webhooks(status, known.foreign_webhooks, now)
    yield from _backup(status, known.backup, now, facts.backups_missed)
    yield from _archive(facts.archive)
    yield from _disk(facts.free_bytes)
    yield from _unknown_topics(known.unknown_topics)
    yield from _refused(status)
    yield from _notices(status)
    yield from _jobs_paused(status, known.paused_jobs)


def _ownerless(status: Mapping[str, Any]) -> Iterator[Problem]:
    if stores := status.get("ownerless"):
        names = [{DATABASE: "the whole database"}.get(name, name) for name in stores]
        more = f" and {len(names) - MOST_NAMES:,} more" if names[MOST_NAMES:] else ""
        yield Problem(
            "ownerless",
            f"No daemon does the work of {', '.join(names[:MOST_NAMES])}{more}: events"
            " wait to be folded, and Backhaul sends nothing",
            "wait some seconds for a takeover. If there is none, start a daemon with"
            " the role worker. Webhooks are received and stored until then",
            subject="owner",
            command="backhaul status",
            consequence="events are not applied and commands are not sent; webhooks are"
            " received and stored",
            raises_alert=False,  # only an owner sends alerts
        )


def _stopped(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, store in status["stores"].items():
        for kind, reason in store["stopped"].items():
            what = "no commands" if kind == EVERYTHING else f"no {kind}"
            yield Problem(
                f"stopped {name} {kind}",
                f"Backhaul sends {what} to {name}: {reason}",
                "fix the cause that the message names; sending then resumes"
                " automatically, unless the message asks for a restart. Until then"
                " commands wait. Details: backhaul status",
                subject=f"store {name}",
                short=f"{kind} waits: {reason}",
                command=DOCTOR,
                consequence="commands wait"
                if kind == EVERYTHING
                else f"commands to {kind} wait",
                link="/stores",
                action="Show the store",
            )


def _paused(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, store in status["stores"].items():
        if pause := store.get("paused"):
            yield Problem(
                f"paused {name}",
                f"Backhaul sends no requests to {name} until {pause['until']}:"
                f" {pause['reason']}",
                "wait: Backhaul retries with one request at that time. If the platform"
                " keeps answering this way, ask its support about the rate limit of"
                " your API key",
                subject=f"store {name}",
                short=f"paused until {pause['until']}: {pause['reason']}",
                command=DOCTOR,
                severity=Severity.WARN,
                consequence="commands and reads wait until then",
                link="/stores",
                action="Show the store",
            )


def _down(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, instance in status["connectors"].items():
        if instance["up"] is False:
            yield Problem(
                f"down {name}",
                f"The connection {name} does not work: {instance['reason']}",
                "fix the cause; Backhaul keeps retrying. Until then it takes no"
                " records from it. Details: backhaul status",
                subject=f"connector {name}",
                short=f"down: {instance['reason']}",
                command=f"backhaul connectors check {name}",
                consequence=f"Backhaul takes no records from {name}",
                link=f"/connectors#connector-{quote(name)}",
                action="Show the connector",
            )


def _silent(
    last: Mapping[str, float], silence: Mapping[str, float], now: float
) -> Iterator[Problem]:
    for instance, seconds in silence.items():
        if instance in last and now - last[instance] >= seconds:
            yield Problem(
                f"silent {instance}",
                f"The connection {instance} has submitted no record for more than"
                f" {seconds / 3600:g} hours",
                "check that its system is running, and see backhaul status. Backhaul"
                " keeps waiting for its records",
                subject=f"connector {instance}",
                command=f"backhaul connectors check {instance}",
                severity=Severity.WARN,
                consequence="shipments and stock changes may be missing in the store",
                link=f"/connectors#connector-{quote(instance)}",
                action="Show the connector",
            )


def _foreign_webhooks(
    status: Mapping[str, Any], foreign: Mapping[str, str], now: float
) -> Iterator[Problem]:
    for store, last in foreign.items():
        at, _, other = last.partition(" ")
        # A time that was recorded while the clock was ahead must not count as recent.
        recent = abs(now - from_text(at).timestamp()) < FOREIGN_SECONDS
        if recent and store in status["stores"]:
            yield Problem(
                f"stranger {store}",
                f"The webhook address of {store} receives webhooks of another store,"
                f" {other}. Backhaul keeps them, but does not apply them",
                "list them with: backhaul events list --state unhandled. Give that"
                " store its own address, or delete its webhook subscription to this"
                " one. If you do nothing, the mirror stays correct",
                subject=f"webhooks of {store}",
                command="backhaul events list --state unhandled",
                severity=Severity.WARN,
                consequence="these webhooks are not applied; the mirror stays correct",
                link="/events?state=unhandled",
                action="Show the events",
            )


def _backup(
    status: Mapping[str, Any],
    backup: BackupState | None,
    now: float,
    missed: Callable[[datetime], bool],
) -> Iterator[Problem]:
    if backup is None or BACKUP not in status["jobs"]:
        return
    if backup.failed is not None:
        yield Problem(
            "backup failed",
            f"The last backup failed: {backup.failed}",
            "fix the cause, then run: backhaul jobs run backup. The previous backup is"
            " kept, and the job tries again at its next time",
            subject="backup",
            command="backhaul jobs run backup",
            consequence="a restore loses what is newer than the previous backup",
            link="/jobs",
            action="Run the backup",
        )
    if not _is_made(backup, now) and missed(from_text(backup.last)):
        yield Problem(
            "backup late",
            f"No backup was made since {backup.last}",
            "find the cause with: backhaul jobs list, and: journalctl -u backhaul |"
            " grep backup. Until then a restore loses all that is newer",
            subject="backup",
            command="backhaul jobs list",
            consequence="a restore loses all that is newer",
            link="/jobs",
            action="Show the jobs",
        )


def _archive(failure: str) -> Iterator[Problem]:
    if failure:
        yield Problem(
            "archive",
            f"PostgreSQL is not backed up: {failure}",
            "correct it on the database server; backhaul doctor says how. Until then a"
            " restore loses what is written, and the server's disk fills up",
            subject="archive",
            command=DOCTOR,
            consequence="a restore loses what is written now, and the server's disk"
            " fills up",
        )


def _is_made(backup: BackupState, now: float) -> bool:
    since = backup.running_since
    return since is not None and now - from_text(since).timestamp() < BACKUP_SECONDS


def _subscriptions(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, text in status["subscriptions"].items():
        if text:
            yield Problem(
                f"subscription {name}",
                text,
                subject=f"webhooks of {name}",
                command=DOCTOR,
                raises_alert=False,
                consequence="changes reach the mirror only by polls",
                link="/stores",
                action="Show the store",
            )


def _unknown_topics(topics: Mapping[str, int]) -> Iterator[Problem]:
    """Yield the unknown topics of the last hour, the most frequent first."""
    if not topics:
        return
    number = sum(topics.values())
    names = [topic or "no topic" for topic in topics][:TOPICS_SHOWN]
    more = ", …" if len(topics) > TOPICS_SHOWN else ""
    webhooks = "webhook" if number == 1 else "webhooks"
    yield Problem(
        "topics",
        f"{number:,} {webhooks} of unknown topics in the last hour"
        f" ({', '.join(names)}{more})",
        subject="topics",
        command="backhaul events list --state unhandled",
        consequence="these webhooks are stored and not applied",
        link="/events?state=unhandled",
        action="Show the events",
        raises_alert=False,
        severity=Severity.WARN,
    )


def _refused(status: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield how many webhooks of the last hour each store's address refused, and why.

    Requests to no store's address are not a problem.
    """
    for name, answers in status["refused"].items():
        if name == UNKNOWN:
            continue
        number = sum(answers.values())
        kinds = sorted(answers.items(), key=lambda each: -each[1])
        why = ", ".join(f"{n:,} {REFUSALS.get(kind, kind)}" for kind, n in kinds)
        webhooks = "webhook" if number == 1 else "webhooks"
        yield Problem(
            f"refused {name}",
            f"{number:,} {webhooks} refused in the last hour: {why}",
            subject=f"webhooks of {name}",
            command=DOCTOR,
            raises_alert=False,
            severity=Severity.WARN,
            consequence="what they report arrives later, by a repeated delivery or a"
            " poll",
            link="/stores",
            action="Show the store",
        )


def _notices(status: Mapping[str, Any]) -> Iterator[Problem]:
    for name, each in status["connectors"].items():
        for notice in each.get("notices", ()):
            yield Problem(
                f"notice {name} {notice}",
                notice,
                subject=f"connector {name}",
                command=f"backhaul connectors check {name}",
                raises_alert=False,
                severity=Severity.WARN,
                link=f"/connectors#connector-{quote(name)}",
                action="Show the connector",
            )


def _jobs_paused(
    status: Mapping[str, Any], jobs: Sequence[tuple[str, str]]
) -> Iterator[Problem]:
    """Yield paused jobs. The database also knows jobs of stores that were removed."""
    for job, store in jobs:
        if (f"{job}:{store}" if store else job) not in status["plans"]:
            continue
        name = job + (f" --store {store}" if store else "")
        yield Problem(
            f"job {job} {store}",
            f"{job} is paused",
            subject="job paused",
            command=f"backhaul jobs resume {name}",
            raises_alert=False,
            severity=Severity.WARN,
            consequence="it does not run until you resume it",
            link="/jobs",
            action="Resume",
        )


def _disk(free_bytes: int) -> Iterator[Problem]:
    if free_bytes < LEAST_FREE_BYTES:
        yield Problem(
            "disk",
            f"only {free_bytes // 1_000_000} MB are free",
            subject="disk",
            command=DOCTOR,
            raises_alert=False,
            consequence="if the disk is full, webhooks are refused and nothing is sent",
        )
