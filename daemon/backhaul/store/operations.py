"""Alerts, jobs, webhook secrets, the audit log, retention and samples."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from backhaul.runtime.loop import OpenStores
    from backhaul.store.inbox import UnreadableOrder
    from backhaul.store.mirror import UnknownStatus


class AuditEntry(Struct, frozen=True):
    """`who` did an `action`, such as `jobs pause`; `detail` names the object.

    One transaction writes the entry and the change that it records.
    """

    who: str
    action: str
    detail: str


class KeyValues(Protocol):
    """Key-value state: small texts that survive a restart."""

    async def get(self, name: str) -> str | None:
        """Return a value, or None."""
        ...

    async def put(self, name: str, value: str) -> None:
        """Store a value durably."""
        ...


class Alert(Struct, frozen=True):
    """A problem for an operator: `key` stays the same while the problem lasts.

    The JSON of an alert webhook keeps the older names `says` and `mend`.
    """

    key: str
    text: str = field(name="says")
    remedy: str = field(name="mend")


class OrphanedWork(Struct, frozen=True):
    """The open work of a store that the configuration does not name.

    `commands` are not resolved, `counts` are not applied, `events` are not folded. A
    store that gets a new name leaves its work behind under the old one.
    """

    store: str
    commands: int
    counts: int
    events: int

    def __str__(self) -> str:
        """Return the numbers as text, such as `2 open commands, 1 event`."""
        parts = (
            f"{number} {word}{'' if number == 1 else 's'}"
            for number, word in (
                (self.commands, "open command"),
                (self.counts, "open count"),
                (self.events, "event"),
            )
            if number
        )
        return ", ".join(parts)

    @property
    def remedy(self) -> str:
        """Return what an operator can do."""
        return (
            f"add [stores.{self.store}] to the configuration again. Or list its"
            f" commands (backhaul commands list --store {self.store}), then park"
            " and discard each command"
        )


class BackupState(Struct, frozen=True):
    """The state of the backup job.

    `failed` is the error of the last backup that ended, or None. `last` is the start of
    the last successful backup, or since when one is due. `running_since` is the start
    of the backup that runs now.
    """

    failed: str | None
    last: str
    running_since: str | None


class CommandProblem(Struct, frozen=True):
    """A command that needs an operator; `detail` is a reason or the surplus effects.

    `about` is the name of its order or product, where it was read from the mirror.
    """

    id: str
    store: str
    kind: str
    target: str
    detail: str
    about: str | None = None


class ParkedDelivery(Struct, frozen=True):
    """A delivery to a connection that waits for an operator's decision."""

    seq: int
    instance: str
    store: str
    topic: str
    object_id: str
    reason: str


class OpenIncident(Struct, frozen=True):
    """An incident that no operator has resolved."""

    id: int
    store: str
    text: str


class HeldTargets(Struct, frozen=True):
    """A store's stock targets that are on hold; `since` is when the oldest came.

    `sku` is the article of that target.
    """

    store: str
    number: int
    since: str
    sku: str


class AlertConditions(Struct, frozen=True):
    """What the tables contain that may raise an alert. Lists begin with the oldest.

    `unrepaired` counts the rows of each store that its last full sync could not repair.
    `last_records` says when each connection last submitted a record, in seconds since
    1970. `doubled` lists commands with more than one effect, or with an effect that a
    stock count did not include. `counts_stopped` says why Backhaul no longer applies a
    store's counts. `open_stores` are the stores with open commands, configured or not.
    `deliveries_since` says since when the oldest delivery of each connection waits; a
    delivery that waits for a parked one of the same object does not count. `repeated`
    lists open commands that were sent several times without a conclusive response.
    `foreign_webhooks` has for each store the time of the last webhook of another store,
    and that store's id. `held_targets` are the targets of each store that are on hold
    after a restore. `unreadable` lists orders whose commands wait for a refetch.
    `quarantined` counts the open rows of the quarantine, and `unknown_topics` the
    events of the last hour by their unknown topic, the most frequent first.
    """

    parked: Sequence[CommandProblem]
    unrepaired: Mapping[str, int]
    last_records: Mapping[str, float]
    doubled: Sequence[CommandProblem] = ()
    counts_stopped: Mapping[str, str] = field(default_factory=dict)
    held_targets: Sequence[HeldTargets] = ()
    backup: BackupState | None = None
    open_stores: Collection[str] = ()
    parked_deliveries: Sequence[ParkedDelivery] = ()
    deliveries_since: Mapping[str, str] = field(default_factory=dict)
    repeated: Sequence[CommandProblem] = ()
    foreign_webhooks: Mapping[str, str] = field(default_factory=dict)
    unreadable: Sequence[UnreadableOrder] = ()
    incidents: Sequence[OpenIncident] = ()
    quarantined: int = 0
    unknown_statuses: Sequence[UnknownStatus] = ()
    unknown_topics: Mapping[str, int] = field(default_factory=dict)
    paused_jobs: Sequence[JobKey] = ()


class AlertConditionReads(Protocol):
    """Reads what may raise an alert."""

    async def current(self, instances: Iterable[str]) -> AlertConditions:
        """Return all conditions, with the last records of these connections.

        Raises Busy: an alert does not end because a read fails.
        """
        ...


class AlertChanges(Struct, frozen=True):
    """What a channel did not report yet: problems that began, reported ones that ended.

    `id` stays the same while the changes do, also after a restart, and is unique.
    """

    begun: Sequence[Alert]
    over: Sequence[Alert]
    id: str

    def __bool__(self) -> bool:
        return bool(self.begun or self.over)


class Alerts(Protocol):
    """Records which alerts each channel has reported, also through restarts."""

    async def compare(
        self, now: Mapping[str, Alert], channels: Collection[str]
    ) -> Mapping[str, AlertChanges]:
        """Store the present problems; return the changes for each channel.

        A new channel gets all problems. What a removed channel reported is deleted, and
        so is a problem that ended before a channel reported it. May raise Busy.
        """
        ...

    async def record_sent(self, channel: str, changes: AlertChanges) -> None:
        """Record that a channel reported these changes. May raise Busy."""
        ...


JobKey: TypeAlias = tuple[str, str]
"""A job's name and its store, "" for a job of no store."""


class Trigger(StrEnum):
    """What started a run."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    OPERATOR = "person"
    PLANNED = "planned"
    """A command was planned, and the job has no schedule."""


class JobRun(Struct, frozen=True):
    """A run that begins; `kind` is set if it opens the send window of such commands."""

    key: JobKey
    trigger: Trigger
    due_at: str
    started_at: str
    kind: str | None = None


class JobState(Struct, frozen=True):
    """The state of a job; runs missed after `since` are made up for.

    `due_at`, `started_at` and `ended_at` are of the last run. `interrupted` means that
    the program ended before the run did.
    """

    since: str
    paused_at: str | None
    due_at: str | None
    started_at: str | None
    interrupted: bool
    ended_at: str | None = None


class ReportEnd(Protocol):
    """Reports that the work which began before a moment has ended, and its result."""

    async def __call__(
        self, before: str, detail: str, /, *, failed: bool = False
    ) -> None: ...


class JobRuns(Protocol):
    """The runs of scheduled jobs. All methods may raise Busy."""

    async def register(
        self, plans: Mapping[JobKey, str], *, alone: bool = True
    ) -> Mapping[JobKey, JobState]:
        """After a start, return the state of each job; a run under way was interrupted.

        Other jobs' runs too, if this process is `alone` on the database. A job that is
        new, or whose plan has changed, has missed no run.
        """
        ...

    async def replan(self, plans: Mapping[JobKey, str]) -> None:
        """Replace the plans of jobs; runs that they missed are not made up for."""
        ...

    async def begin(self, run: JobRun, entry: AuditEntry | None = None) -> int:
        """Record a run that begins; return how many new commands it releases.

        A run that opens a send window has ended with that. A scheduled one that
        releases nothing gets no row of its own, and is recorded once a minute only.
        """
        ...

    async def record(self, run: JobRun, ended_at: str, detail: str) -> None:
        """Record a run that has ended, with its result."""
        ...

    async def end(self, key: JobKey, before: str, detail: str, *, failed: bool) -> None:
        """End the runs that began by a time. A failed run is not made up for."""
        ...

    async def pause(self, keys: Collection[JobKey], entry: AuditEntry) -> str:
        """Pause jobs; return the time. A job that is paused already gets the new time.

        Commands that an operator released meanwhile are not released again after a
        restart.
        """
        ...

    async def resume(self, keys: Collection[JobKey], entry: AuditEntry) -> None:
        """Let jobs run again; runs that they missed are not made up for."""
        ...


class WebhookSecrets(Protocol):
    """What Backhaul knows of each webhook secret, by its fingerprint."""

    async def set_known(
        self, store: str, names: Sequence[str], source: str
    ) -> set[str]:
        """Replace the secrets known from a `source`; return all revoked ones.

        A revoked secret stays known, so that it cannot come back by accident.
        """
        ...

    async def record_uses(self, uses: Mapping[tuple[str, str], str]) -> None:
        """Record when each (store, fingerprint) was last used."""
        ...

    async def last_used(self, store: str, name: str) -> str | None:
        """Return when the secret last signed a webhook, or None."""
        ...

    async def set_revoked(
        self, store: str, name: str, revoked: bool, entry: AuditEntry
    ) -> set[str]:
        """Record that an operator revoked or restored a secret; return all revoked."""
        ...


class SealedSecrets(Protocol):
    """The webhook secrets that the platform issued, sealed, for all daemons."""

    async def get(self, store: str) -> str | None:
        """Return the sealed secrets of a store, or None. Raises ReadFailed."""

    async def put(self, store: str, sealed: str) -> None:
        """Replace the sealed secrets of a store; only its owner may. May raise Busy."""

    async def adopt(self, store: str, sealed: str) -> None:
        """Store sealed secrets if the store has none. May raise Busy."""
        ...

    async def changes(self, since: int) -> tuple[int, Sequence[str]]:
        """Return the number of changes, and the stores of those after `since`."""
        ...


class Pruned(Struct, frozen=True):
    """One slice of pruning: the erased bodies, and whether there is more to do.

    `counts` is the number of deleted stock counts.
    """

    erased: int
    more: bool
    counts: int = 0


class Retention(Protocol):
    """Deletes what is older than the settings keep."""

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        """Erase bodies and headers received before a time, for about that long.

        An event that is not folded or that is in quarantine keeps them. Old job runs
        are deleted too, then stock counts that made no adjustment, except the newest
        applied one of a variant and those that an operator decided. May raise Busy.
        """
        ...


Gauge: TypeAlias = tuple[str, float, tuple[str, ...]]
"""Name, value, and the values of its labels."""


class Gauges(Protocol):
    """What the tables contain now, as numbers."""

    async def current(self, instances: Sequence[str]) -> Sequence[Gauge]:
        """Return all gauges; only the sizes if the tables cannot be read.

        The last record is reported for these connections.
        """
        ...

    async def waiting(self) -> Sequence[Gauge]:
        """Return what waits, for a caller that asks often: it adds up no passes."""
        ...

    async def open_stores(self) -> OpenStores:
        """Return which stores have work that waits. Raises ReadFailed."""
        ...


class MetricSample(Struct, frozen=True):
    """What one daemon counted in a minute, and what waited at the minute's end.

    The `failed_` members are a part of the others. The `_times` are durations, as text
    of `core.histogram`. Of several daemons on one database only the owner of the
    database says what waits; it is None in the samples of the others.
    """

    at: str
    member: str
    webhooks: int
    events: int
    commands: int
    records: int
    deliveries: int
    requests: int
    failed_events: int
    failed_commands: int
    failed_deliveries: int
    failed_requests: int
    applied_times: str
    sent_times: str
    platform_times: str
    events_waiting: int | None = None
    commands_open: int | None = None
    commands_parked: int | None = None
    deliveries_open: int | None = None
    quarantined: int | None = None


class TrafficHour(Struct, frozen=True):
    """What all daemons counted in an hour; `hour` is text such as `2026-03-01T12`."""

    hour: str
    webhooks: int
    commands: int
    records: int
    deliveries: int
    failed_events: int
    failed_commands: int
    failed_deliveries: int


class MetricSamples(Protocol):
    """Stores the samples of all daemons on the database."""

    async def add(self, sample: MetricSample, since: str) -> None:
        """Store a sample; delete those before `since`. May raise Busy."""
        ...

    async def count_mirrored(self) -> Mapping[str, int]:
        """Count the mirror's rows by table, from whole indexes; {} if unreadable."""
        ...
