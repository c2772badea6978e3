"""The contract between host and connector: manifest, batches, changes, outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from backhaul_sdk.database import (
    DocumentStore,
    FindInStore,
    NoDocuments,
    ReadSqlite,
    no_sqlite,
    nothing_known,
)
from backhaul_sdk.records import Bad, Record

if TYPE_CHECKING:
    from backhaul_sdk.previews import ListPresets, Preset, PreviewFile

STRICT = ConfigDict(
    extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
)
"""For a model of settings: no unknown keys, no infinite numbers, no secrets in
errors."""
SettingsT = TypeVar("SettingsT", bound=BaseModel)
TOPICS = (
    "order.placed",
    "order.updated",
    "order.cancelled",
    "product.updated",
    "product.deleted",
    "stock.changed",
    "customer.updated",
)
"""Every topic of change notifications. `order.placed` comes once for an order, before
all others."""


class Applied(Struct, frozen=True):
    """The system accepted the change. `reference` is the system's id of it, if any."""

    reference: str | None = None


class Rejected(Struct, frozen=True):
    """The system refused it for good; `reason` is for the operator who corrects it."""

    reason: str


class NotSent(Struct, frozen=True):
    """The change certainly did not arrive: the host sends it again.

    `retry_after_seconds` is the wait that the system asked for; None leaves it to the
    host.
    """

    reason: str
    retry_after_seconds: float | None = None


class Uncertain(Struct, frozen=True):
    """The change may have arrived: the host calls `lookup` before it sends it again.

    With `Spec.takes_once` the host sends it again without a lookup.
    """

    reason: str


class Found(Struct, frozen=True):
    """The system has the change."""

    reference: str | None = None


class Absent(Struct, frozen=True):
    """The system was read: it does not have the change, and cannot get it any more."""


class Unknown(Struct, frozen=True):
    """The outcome cannot be determined; `reason` says why."""

    reason: str


Pushed: TypeAlias = Applied | Rejected | NotSent | Uncertain
LookedUp: TypeAlias = Found | Absent | Unknown


class Capability(Enum):
    """What a connector does: read records from a system, or write changes to it."""

    PULL = "pull"
    LISTEN = "listen"
    PUSH = "push"


def _no_meanings(_settings: Any) -> Sequence[str]:
    return ()


def _no_presets() -> Sequence[Preset]:
    return ()


def _nothing_shared(_one: Any, _other: Any, _is_one_store: bool) -> str:
    return ""


class Spec(Struct, frozen=True, kw_only=True):
    """A connector's manifest; `topics` are the changes that its `push` understands.

    `settings` validates `[connectors.NAME]` without the host's own keys: `type, store,
    enabled, runs_on, trigger, every, cron, jitter, quiet, silent_after, dry_run,
    counts, topics, begin`. `secret_fields` are never shown or logged. `meanings`
    returns, for valid settings, a sentence for each setting whose name does not explain
    its effect; `check-config` prints them.

    `shared` receives the valid settings of two connections, and whether both belong to
    one store. It names what both would read or write, such as the files of one folder,
    so that each record would be applied twice; it returns an empty text if there is
    nothing. The daemon does not start with such a pair. `shared_hint` says what the
    operator can do about it, other than to remove or disable one of the two.

    `takes_once` says that the other side ignores a repeated `Change.id`: an uncertain
    change is sent again, and `lookup` is not called.

    `preview` shows a file as the connector would import it, for
    `backhaul connectors preview`; None if the connector imports no files. `presets`
    returns settings for known layouts.
    """

    name: str
    version: str
    summary: str
    capabilities: frozenset[Capability]
    settings: type[BaseModel]
    secret_fields: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    takes_once: bool = False
    meanings: Callable[[Any], Sequence[str]] = _no_meanings
    shared: Callable[[Any, Any, bool], str] = _nothing_shared
    shared_hint: str = "give it a source of its own"
    preview: PreviewFile | None = None
    presets: ListPresets = _no_presets


class CheckFailed(Exception):
    """`check()` found a problem that an operator must fix; the text names the fix."""


class Receipt(msgspec.Struct, frozen=True):
    """The outcome of one emitted record, after its commit.

    `state` is `accepted` (a command exists), `waiting` (stored; its order or product is
    not known yet), `duplicate` (stored before) or `quarantined`; `what` is a sentence
    for the person at the scanner.
    """

    state: str
    what: str


class Rejection(msgspec.Struct, frozen=True):
    """A quarantined row of this connection, for the connector to show."""

    key: str
    raw: str
    reason: str
    locator: str


async def _nothing_to_acknowledge() -> None:
    return None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records, and the cursor after them.

    The host stores both in one transaction and calls `ack` only after its commit; after
    a kill in between it receives the batch again and ignores equal keys. The host logs
    each sentence of `notes` at INFO after the commit.
    """

    records: Sequence[Record | Bad]
    cursor: str | None
    ack: Callable[[], Awaitable[None]] = _nothing_to_acknowledge
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request to `/connect/{instance}/…`; header names are lower case.

    Headers carry tokens, so a repr does not show them.
    """

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    query: Mapping[str, str] = field(default_factory=dict, repr=False)


class HttpResponse(msgspec.Struct, frozen=True):
    """A response: `body` is sent as JSON.

    `content`, if given, is sent instead, with the `Content-Type` of `headers`.
    """

    status: int
    body: Mapping[str, object] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    content: bytes | None = None


HttpHandler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Emit: TypeAlias = Callable[[Record | Bad], Awaitable[Receipt]]


class Route(msgspec.Struct, frozen=True):
    """An HTTP route below `/connect/{instance}`; `path` starts with a slash."""

    method: str
    path: str
    handler: HttpHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change notification for a back office.

    `id` is an idempotency key: it is the same whenever this change is sent to this
    connection. `topic` is one of `TOPICS`. Changes of one `object_id` come one after
    the other. `document` is the object as it is in the mirror, with the platform's
    field names; for a deleted object, and for stock, it is `{"id", "productId",
    "variantId", "sku", "stock"}`, as far as it applies. `traceparent` is the header of
    W3C Trace Context to send with the change, None where Backhaul exports no traces.
    """

    id: str
    store: str
    topic: str
    object_id: str
    occurred_at: str
    document: Mapping[str, Any] = field(repr=False)
    traceparent: str | None = None


class Connector(Generic[SettingsT]):
    """A connection to one system; override the methods for what the system can do.

    The host calls `open`, then `listen` once and `pull` on the connection's schedule,
    and `close` at the end. Do nothing at import or in `__init__`.
    """

    spec: ClassVar[Spec]

    def __init__(self, instance: str, settings: SettingsT) -> None:
        self.instance = instance
        self.settings = settings
        self.find_in_store: FindInStore = nothing_known
        """Set by the host. It reads the mirror, which may be seconds behind the store:
        an unknown name may still exist."""
        self.documents: DocumentStore = NoDocuments()
        """Set by the host before `open`: documents that the connector keeps."""
        self.read_sqlite: ReadSqlite = no_sqlite
        """Set by the host before `open`, for a connector that moves its data out of a
        file of its own into `documents`."""

    async def check(self) -> None:
        """Check without side effects that work could begin. Raises CheckFailed."""

    def findings(self) -> Sequence[str]:
        """Return what the last `check` found, such as the version of the system.

        Each finding is one sentence, for the operator who tests the connection: what
        would be read, and which rights there are. It is not shown elsewhere.
        """
        return ()

    def notices(self) -> Sequence[str]:
        """Return what an operator should know although the connector works.

        Each notice is one sentence: what the connector ignores, why, and what to do.
        The host calls this method after `check` and after each `pull`. It shows the
        notices in `status`, `doctor` and `connectors list`, and logs each new notice
        once. Return the same sentence for as long as the notice applies.
        """
        return ()

    async def open(self) -> None:
        """Open connections and files. May be called again after `close`."""

    async def close(self) -> None:
        """Release everything. Safe to call twice."""

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        """Yield the records after `cursor` (None: from the beginning), then end."""
        nothing: tuple[Batch, ...] = ()
        for batch in nothing:
            yield batch

    def restart_stock(self, cursor: str | None) -> str | None:
        """Return the cursor from which `pull` yields all stock counts once more.

        Everything else goes on at `cursor`. The host calls this method after a restore,
        if stock counts may be missing in its database. A connector that yields all
        counts in each pull, or that cannot read them again, returns `cursor`.
        """
        return cursor

    async def apply(
        self, rejection: Rejection, cursor: str | None
    ) -> AsyncIterator[Batch]:
        """Yield the records of a Bad with `can_apply` that an operator approved.

        The host calls this method again after a kill or a failure, until it ends
        without an error: the records must have the same keys each time.
        """
        nothing: tuple[Batch, ...] = ()
        for batch in nothing:
            yield batch

    async def listen(self, emit: Emit) -> Sequence[Route]:
        """Accept incoming records; return the HTTP routes that the host serves."""
        return ()

    def topics(self) -> frozenset[str]:
        """Return the change topics that this connection takes, by its settings."""
        return self.spec.topics

    async def push(self, change: Change) -> Pushed:
        """Write one change: once, without retries, with every failure classified.

        An exception counts as Uncertain. Not called for topics that are not in
        `topics()`.
        """
        return Rejected(f"{type(self).__name__} takes no changes")

    async def lookup(self, change: Change) -> LookedUp:
        """Return whether the system has a change whose `push` was uncertain.

        Raise if the system cannot be read now: the host calls again until it can.
        """
        return Unknown("this connector cannot look up changes")

    async def report(self, rejections: Sequence[Rejection]) -> None:
        """Show rows that were quarantined. Repeated after a kill: be idempotent."""
