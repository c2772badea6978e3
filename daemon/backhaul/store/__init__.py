"""The store: protocols that the other folders use, and the engines behind them.

The daemon works on a `Store`. Programs beside a running daemon use `database_at`. Only
`backhaul.app` and this folder import an engine, or the SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, TypeVar

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from backhaul.core.clock import Clock
    from backhaul.runtime.loop import OpenWork
    from backhaul.store.commands import (
        AllCommands,
        Decisions,
        HistoryTags,
        Incidents,
        UncertainCommands,
    )
    from backhaul.store.customer_erasure import Erasure
    from backhaul.store.database import Database, Restored
    from backhaul.store.deliveries import Deliveries
    from backhaul.store.inbox import (
        Inbox,
        RefetchQueue,
        Reprocessing,
        Spool,
    )
    from backhaul.store.mappings import Mappings
    from backhaul.store.mirror import Mirror, Passes
    from backhaul.store.moving import Moved, Show
    from backhaul.store.operations import (
        AlertConditionReads,
        Alerts,
        Gauges,
        JobRuns,
        KeyValues,
        MetricSamples,
        OrphanedWork,
        Retention,
        SealedSecrets,
        WebhookSecrets,
    )
    from backhaul.store.operators import Logins, Requests, Users
    from backhaul.store.ownership import Member, Ownership
    from backhaul.store.read_models import Reader, SearchIndex
    from backhaul.store.records import ConnectorDocuments, Quarantine, Records
    from backhaul.store.stock_targets import Targets
    from backhaul.store.tokens import Tokens

T = TypeVar("T")
Place: TypeAlias = "Path | str"
"""Where a database is: the path of a file, or the URL of a PostgreSQL database."""


class Store(Protocol):
    """Everything that the daemon stores, in families of methods.

    One process at a time works on it (`sole_writer`). A method that writes is one
    transaction. `start` and `stop` may be called twice.
    """

    place: Place
    """Where the database is, for `database_at`."""
    ownership: Ownership
    logins: Logins
    requests: Requests | None
    """What members ask of each other; None for a database with one daemon."""
    inbox: Inbox
    reprocessing: Reprocessing
    refetch_queue: RefetchQueue
    quarantine: Quarantine
    records: Records
    documents: ConnectorDocuments
    mappings: Mappings
    commands: AllCommands
    uncertain: UncertainCommands
    tags: HistoryTags
    decisions: Decisions
    incidents: Incidents
    targets: Targets
    deliveries: Deliveries
    mirror: Mirror
    passes: Passes
    search: SearchIndex
    erasure: Erasure
    kv: KeyValues
    users: Users
    tokens: Tokens
    webhook_secrets: WebhookSecrets
    sealed_secrets: SealedSecrets
    job_runs: JobRuns
    alerts: Alerts
    alert_conditions: AlertConditionReads
    gauges: Gauges
    open_work: OpenWork
    metric_samples: MetricSamples
    retention: Retention

    async def read(self, query: Callable[[Reader], T]) -> T:
        """Run a query for people in a thread. Raises ReadFailed."""
        ...

    async def orphaned_work(self, stores: Iterable[str]) -> tuple[OrphanedWork, ...]:
        """Return the open work of stores that are not among these. May raise Busy."""
        ...

    def start(self) -> None:
        """Start to write. Call this from the running event loop."""
        ...

    async def stop(self) -> None:
        """Finish the writes that were accepted, and close the database."""
        ...

    async def watch(self) -> NoReturn:
        """Raise WriterFailed when nothing can be written any more."""
        ...

    def heartbeat(self) -> Future[None]:
        """Resolve when the writer has answered, even with Busy."""
        ...

    @property
    def is_rewriting(self) -> bool:
        """Whether the writer does something that may take minutes."""
        ...


def database_at(place: Place) -> Database:
    """Return the database of a file or URL, for a program beside the daemon.

    Engines are imported on use, because each command line would wait for them.
    """
    if isinstance(place, str):
        from backhaul.store.postgres.database_reads import PostgresDatabase

        return PostgresDatabase(place)
    from backhaul.store.sqlite.database_file import SqliteDatabase

    return SqliteDatabase(place)


def prepare_live_move(source: Path, target: str, clock: Clock) -> bool:
    """Let daemons on a PostgreSQL database receive webhooks before a file is moved.

    A daemon may use the file meanwhile. Returns False if an interrupted move of this
    file only has to be completed. Raises BackhaulError, with what to do first.
    """
    from backhaul.store.postgres import moving as in_server
    from backhaul.store.sqlite import moving as in_file
    from backhaul.store.sqlite.movable_rows import tables

    with in_file.read_in_use(source) as file:
        if file.is_moved:
            return False
        in_server.prepare_live(target, tables(), file, clock)
    return True


def move_database(
    source: Place, target: Place, clock: Clock, show: Show, *, live: bool = False
) -> Moved:
    """Move a database from SQLite to PostgreSQL, or back. Hold `sole_writer` meanwhile.

    Exactly one of both is a path. The target is empty, or for a `live` move prepared by
    `prepare_live_move`. The source is unchanged until the copy is complete and was
    compared. `show` gets each step. Raises BackhaulError, with what to do first, and
    CorruptData for a damaged row.
    """
    from backhaul.store.moving import move
    from backhaul.store.postgres import moving as in_server
    from backhaul.store.sqlite import moving as in_file
    from backhaul.store.sqlite.movable_rows import tables

    if isinstance(source, str) == isinstance(target, str):
        raise BackhaulError(
            "a move must go from a SQLite file to PostgreSQL, or from PostgreSQL to"
            " a SQLite file. To copy a file to a file, use backhaul backup and"
            " backhaul restore. To copy PostgreSQL to PostgreSQL, use the tools of"
            " PostgreSQL"
        )
    every = tables()
    with (
        in_server.open_source(source, every)
        if isinstance(source, str)
        else in_file.open_source(source, every) as from_,
        in_server.open_target(target, every, live=live)
        if isinstance(target, str)
        else in_file.open_target(target) as to,
    ):
        return move(from_, to, clock, show)


def open_store(
    place: Place,
    clock: Clock,
    notify: Callable[[str], None] = lambda _: None,
    member: Member | None = None,
) -> Store:
    """Bring the database to this version's schema and return its store, not started.

    A file is backed up before its schema changes; `notify` gets a text before each step
    that may take long. An interrupted restore is undone first. Raises CorruptData if
    the database is damaged, not Backhaul's, or made by a newer version. Raises
    ConfigurationError if a file or its folder cannot be created, and
    DatabaseUnavailable if a server cannot be reached.

    On a server, a `member` writes only while it is the owner. Without one nothing keeps
    two writers apart: only for a program that knows that it is alone.
    """
    if isinstance(place, str):
        from backhaul.store.postgres.database import open_store as open_postgres

        return open_postgres(place, clock, member)
    from backhaul.store.sqlite.opening import open_store as open_sqlite

    return open_sqlite(place, clock, notify=notify)


OpenStore: TypeAlias = (
    "Callable[[Place, Clock, Callable[[str], None], Member | None], Store]"
)
"""Opens a store, as `open_store` does."""


def open_spool(path: Path, clock: Clock) -> Spool:
    """Open the file where events wait for a server; it is created if it is missing.

    Raises CorruptData, AlreadyRunning and ConfigurationError, as `open_store` does.
    """
    from backhaul.store.sqlite.database import SqliteSpool
    from backhaul.store.sqlite.opening import open_store as open_sqlite

    return SqliteSpool(open_sqlite(path, clock))


INBOX_FILE = "receiver-{}.db"
"""The name of the file in which one receiver process keeps webhooks."""


def inbox_files(folder: Path) -> list[Path]:
    """Return the files whose webhooks may not be in the database yet."""
    return sorted(folder.glob(INBOX_FILE.format("*")))


def open_inbox_file(path: Path, clock: Clock) -> Spool:
    """Open the file in which one receiver process keeps webhooks for the daemon.

    Raises CorruptData, and Busy if it cannot be opened now.
    """
    from backhaul.store.sqlite.database import open_inbox_file as open_sqlite

    return open_sqlite(path, clock)


def query_file(
    path: Path, query: str, values: Sequence[Any]
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a query on an SQLite file that is not Backhaul's database.

    Raises CorruptData and BackhaulError if it cannot be read.
    """
    from backhaul.store.sqlite.file_backup import query as query_sqlite

    return query_sqlite(path, query, values)


def test_restore(backup: Path, clock: Clock) -> Restored:
    """Restore a backup into a temporary folder. Raises CorruptData, BackhaulError."""
    from backhaul.store.sqlite.restoring import drill

    return drill(backup, clock)


def explained(error: Exception) -> Exception:
    """Return CorruptData for an engine's error about damage; other errors unchanged."""
    from backhaul.store.sqlite.file_backup import Damaged, is_damage

    return Damaged("SQLite", str(error)) if is_damage(error) else error
