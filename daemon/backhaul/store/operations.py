"""Alerts, jobs, users, secrets, audit and retention."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class AuditEntry(Struct, frozen=True):
    """`who` did an `action`, such as `jobs pause`, to what `detail` names.

    It is written in the transaction of what was done: neither is there alone.
    """

    who: str
    action: str
    detail: str


class KeyValues(Protocol):
    """Small facts that must survive a restart, by name."""

    async def get(self, name: str) -> str | None:
        """Return the mark, or None."""
        ...

    async def put(self, name: str, value: str) -> None:
        """Set the mark, durably."""
        ...


class Alert(Struct, frozen=True):
    """A cause: `key` is the same while it lasts; `says` and `mend` are for a person."""

    key: str
    says: str
    mend: str


class OrphanedWork(Struct, frozen=True):
    """What is open for a store that the configuration does not name.

    `commands` that were never settled, `counts` that are not made true, `events` that
    are not folded. Who renames a store leaves its work behind under the old name.
    """

    store: str
    commands: int
    counts: int
    events: int

    def __str__(self) -> str:
        """Say what there is of it."""
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
    def mend(self) -> str:
        """Say what a person can do."""
        return (
            f"name it [stores.{self.store}] again, or decide each:"
            f" backhaul commands list --store {self.store}, then park and discard"
        )


class BackupState(Struct, frozen=True):
    """Where backups stand.

    `failed` says why the last one that ended did, or is None; `last` is when the last
    one that succeeded began, or since when it is waited for; `running_since` when the
    one began that is being made.
    """

    failed: str | None
    last: str
    running_since: str | None


class AlertConditions(Struct, frozen=True):
    """What the tables say that may need a person.

    `parked` are the commands that wait for one, the oldest first (id, store, kind,
    target, reason); `unrepaired` the rows of each store that the last full walks could
    not repair; `last_records` when an instance last brought something, in seconds since
    1970; `doubled` the commands that took effect more than once, or behind a count that
    was reckoned without them, with the adjustments that are too many (`others`);
    `counts_stopped` why a store's counts are not set; `open_stores` are those for which
    a command is open, configured or not;
    `news_parked` the deliveries that wait for a person (seq, instance, store, topic,
    object_id, reason), the oldest first; `news_since` of when the oldest is that an
    instance was not told of yet, but for those behind a parked one of their object;
    `in_vain` the open commands that were sent several `times`, each time without an
    answer that tells, and found nowhere (id, store, kind, target, reason, times);
    `strangers` of each store when news came in that belong to another one, and its id;
    `incidents` those that no operator has resolved, the oldest first (id, store, says);
    `unreadable` the orders whose commands wait for a refetch (store, order_id, name,
    event, row of the quarantine, reason, since, commands), the oldest first.
    """

    parked: Sequence[Mapping[str, str]]
    unrepaired: Mapping[str, int]
    last_records: Mapping[str, float]
    doubled: Sequence[Mapping[str, str]] = ()
    counts_stopped: Mapping[str, str] = field(default_factory=dict)
    backup: BackupState | None = None
    open_stores: Collection[str] = ()
    news_parked: Sequence[Mapping[str, Any]] = ()
    news_since: Mapping[str, str] = field(default_factory=dict)
    in_vain: Sequence[Mapping[str, Any]] = ()
    strangers: Mapping[str, str] = field(default_factory=dict)
    unreadable: Sequence[Mapping[str, Any]] = ()
    incidents: Sequence[Mapping[str, Any]] = ()


class AlertChanges(Struct, frozen=True):
    """What a way did not tell yet: causes that began, and told ones that are over.

    `id` is the same as long as the news are, through restarts, and no others have it.
    """

    begun: Sequence[Alert]
    over: Sequence[Alert]
    id: str

    def __bool__(self) -> bool:
        return bool(self.begun or self.over)


class Alerts(Protocol):
    """Remembers, through restarts, what each way to a person has told."""

    async def compare(
        self, now: Mapping[str, Alert], ways: Collection[str]
    ) -> Mapping[str, AlertChanges]:
        """Keep what is wrong now; return what is news for each way. May raise Busy.

        A way that is new is told of all; what one that is gone told is forgotten.
        """
        ...

    async def record_sent(self, way: str, news: AlertChanges) -> None:
        """Keep that a person was told by a way. May raise Busy."""
        ...


JobKey: TypeAlias = tuple[str, str]
"""A job's name and its store, "" for a job of no store."""


class Trigger(StrEnum):
    """What started a run."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    PERSON = "person"
    PLANNED = "planned"
    """A command was planned, and the job has no schedule."""


class JobRun(Struct, frozen=True):
    """A run that begins; `kind` are the commands whose gate it opens, if it does."""

    key: JobKey
    trigger: Trigger
    due_at: str
    started_at: str
    kind: str | None = None


class JobState(Struct, frozen=True):
    """Where a job stands.

    Runs missed after `since` are owed. `due_at`, `started_at` and `ended_at` are of the
    last run; `interrupted`: the program ended before the run did.
    """

    since: str
    paused_at: str | None
    due_at: str | None
    started_at: str | None
    interrupted: bool
    ended_at: str | None = None


class ReportEnd(Protocol):
    """Tells that the work is over which began by a moment, and what came of it."""

    async def __call__(
        self, before: str, detail: str, /, *, failed: bool = False
    ) -> None: ...


class JobRuns(Protocol):
    """The runs of scheduled jobs. All verbs may raise Busy."""

    async def register(self, plans: Mapping[JobKey, str]) -> Mapping[JobKey, JobState]:
        """After a start, return where each job stands; what was running has ended.

        A job that is new, or whose plan has other words than before, owes nothing.
        """
        ...

    async def replan(self, plans: Mapping[JobKey, str]) -> None:
        """From now on these jobs run by other words; what they missed is not owed."""
        ...

    async def begin(self, run: JobRun, deed: AuditEntry | None = None) -> int:
        """Write a run down; return how many new commands its gate lets out.

        The run of a gate has ended with that. Where it lets out nothing it is worth no
        row, and is written down once a minute only.
        """
        ...

    async def record(self, run: JobRun, ended_at: str, detail: str) -> None:
        """Write down a run that is over, with what came of it."""
        ...

    async def end(self, key: JobKey, before: str, detail: str, *, failed: bool) -> None:
        """End the runs begun by then. One that failed is not owed."""
        ...

    async def pause(self, keys: Collection[JobKey], deed: AuditEntry) -> str:
        """Pause jobs; return since when. One that is paused is so anew.

        What a person let out meanwhile is not let out again after a restart.
        """
        ...

    async def resume(self, keys: Collection[JobKey], deed: AuditEntry) -> None:
        """Let jobs run again; what they missed is not owed."""
        ...


class Role(IntEnum):
    """What somebody may do; each may all that the ones before may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Return how it is written."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}


class User(Struct, frozen=True):
    """Somebody; `epoch` is new with each password, and ends the sessions before."""

    name: str
    role: Role
    secret: str
    epoch: int
    created_at: str
    last_login_at: str | None = None

    def __repr__(self) -> str:
        """Leave the hash out."""
        return f"User({self.name!r}, {self.role.word})"


class Users(Protocol):
    """Users of the dashboard; each change has an audit entry. May raise Busy."""

    async def list(self) -> Sequence[User]:
        """Return all users by name."""
        ...

    async def find(self, name: str) -> User | None:
        """Return one user, None if there is none of that name."""
        ...

    async def add(
        self, name: str, role: Role, secret: str, who: str, *, first: bool = False
    ) -> None:
        """Add a user. Raises BackhaulError if it exists, or is not the `first`."""
        ...

    async def remove(self, name: str, who: str) -> None:
        """Remove a user. Raises BackhaulError for the last administrator."""
        ...

    async def set_role(self, name: str, role: Role, who: str) -> None:
        """Change a role. Raises BackhaulError for the last administrator."""
        ...

    async def set_secret(self, name: str, secret: str, who: str) -> None:
        """Change a password. Raises BackhaulError if there is no such user."""
        ...

    async def record_login(self, name: str, detail: str) -> None:
        """Record that a user logged in, in the audit too."""
        ...

    async def logins(self, name: str, since: str) -> Sequence[str]:
        """Return the different details of logins since a time, newest first."""
        ...

    async def record_action(self, deed: AuditEntry) -> None:
        """Add an audit entry for an action that changes no row of the store."""
        ...


class WebhookSecrets(Protocol):
    """What is known of each webhook secret; a fingerprint stands for it."""

    async def set_known(
        self, store: str, names: Sequence[str], source: str
    ) -> set[str]:
        """Make these all of what is known from `source`; return the store's dropped."""
        ...

    async def record_uses(self, uses: Mapping[tuple[str, str], str]) -> None:
        """Write down when each (store, fingerprint) was last used."""
        ...

    async def last_used(self, store: str, name: str) -> str | None:
        """Return when the secret last signed a delivery."""
        ...

    async def set_dropped(
        self, store: str, name: str, dropped: bool, deed: AuditEntry
    ) -> set[str]:
        """Remember that a person dropped the secret, or took it back; return all."""
        ...


class Pruned(Struct, frozen=True):
    """One slice of pruning: how many bodies were erased, whether there is more to do.

    `counts` is how many counts of stock were dropped.
    """

    erased: int
    more: bool
    counts: int = 0


class Retention(Protocol):
    """What arrived, as far as it is kept."""

    async def prune(self, before: str, slice_seconds: float) -> Pruned:
        """Erase bodies and headers received before that time, for about that long.

        What is not folded, waits or is in quarantine keeps them. The rows of jobs' runs
        go as well, and counts of stock that were done without a step: not the newest of
        an article that was made true, nor what a person decided. May raise Busy.
        """
        ...


class MetricSample(Struct, frozen=True):
    """Counts of a minute, mean seconds in it, and what waited at its end."""

    at: str
    webhooks: int
    folded: int
    applied: int
    platform_seconds: float | None
    heartbeat_seconds: float | None
    events_waiting: int
    commands_open: int
    parked: int


class MetricSamples(Protocol):
    """Keeps a day of samples."""

    async def add(self, sample: MetricSample, since: str) -> None:
        """Keep a sample; forget those before `since`. May raise Busy."""
        ...

    async def count_mirrored(self) -> Mapping[str, int]:
        """Count what is mirrored, by table: it reads an index from end to end."""
        ...
