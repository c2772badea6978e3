"""What alerting asks of a store: which causes were told, and whether they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class Alert(Struct, frozen=True):
    """A cause: `key` is the same while it lasts; `says` and `mend` are for a person."""

    key: str
    says: str
    mend: str


class Stranded(Struct, frozen=True):
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


class Backup(Struct, frozen=True):
    """Where backups stand.

    `failed` says why the last one that ended did, or is None; `last` is when the last
    one that succeeded began, or since when it is waited for; `running_since` when the
    one began that is being made.
    """

    failed: str | None
    last: str
    running_since: str | None


class Needs(Struct, frozen=True):
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
    backup: Backup | None = None
    open_stores: Collection[str] = ()
    news_parked: Sequence[Mapping[str, Any]] = ()
    news_since: Mapping[str, str] = field(default_factory=dict)
    in_vain: Sequence[Mapping[str, Any]] = ()
    strangers: Mapping[str, str] = field(default_factory=dict)
    unreadable: Sequence[Mapping[str, Any]] = ()
    incidents: Sequence[Mapping[str, Any]] = ()


class News(Struct, frozen=True):
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
    ) -> Mapping[str, News]:
        """Keep what is wrong now; return what is news for each way. May raise Busy.

        A way that is new is told of all; what one that is gone told is forgotten.
        """
        ...

    async def told(self, way: str, news: News) -> None:
        """Keep that a person was told by a way. May raise Busy."""
        ...
