"""The contract of host and connector: manifest, batches, changes and outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from backhaul_sdk.records import Bad, Record

STRICT = ConfigDict(
    extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
)
"""For a model of settings: nothing unknown or endless passes, no error shows a secret.
"""
SettingsT = TypeVar("SettingsT", bound=BaseModel)
LookUp: TypeAlias = Callable[
    [Sequence[str]], Awaitable["Mapping[str, NameInShop] | None"]
]
"""Returns what each text names in the shop; None while the host cannot say."""
TOPICS = (
    "order.placed",
    "order.updated",
    "order.cancelled",
    "product.updated",
    "product.deleted",
    "stock.changed",
    "customer.updated",
)
"""Every kind of news. `order.placed` comes once for an order, before all others."""


class Applied(Struct, frozen=True):
    """The system took it. `reference` is what the system calls it, where it says."""

    reference: str | None = None


class Rejected(Struct, frozen=True):
    """The system refused it for good; `reason` is for the person who mends it."""

    reason: str


class NotSent(Struct, frozen=True):
    """It certainly did not arrive: the host sends it again.

    `retry_after_seconds` is what the system asked for; None leaves it to the host.
    """

    reason: str
    retry_after_seconds: float | None = None


class Uncertain(Struct, frozen=True):
    """It may have arrived: the host asks `lookup` before anything is sent again.

    To one that takes an id once (`Spec.takes_once`) it is sent again without.
    """

    reason: str


class Found(Struct, frozen=True):
    """The system has it."""

    reference: str | None = None


class Absent(Struct, frozen=True):
    """The system was read and has it not, nor can it still come."""


class Unknown(Struct, frozen=True):
    """Nothing can be told; `reason` says why."""

    reason: str


Pushed: TypeAlias = Applied | Rejected | NotSent | Uncertain
LookedUp: TypeAlias = Found | Absent | Unknown


class Capability(Enum):
    """What an instance does: bring records in, or carry changes out."""

    PULL = "pull"
    LISTEN = "listen"
    PUSH = "push"


def _no_meanings(_settings: Any) -> Sequence[str]:
    return ()


def _nothing_shared(_one: Any, _other: Any, _is_one_store: bool) -> str:
    return ""


class Spec(Struct, frozen=True, kw_only=True):
    """A connector's manifest; `topics` are the changes that its `push` understands.

    `settings` validates `[connectors.NAME]` without the keys that are the host's:
    `type, store, enabled, trigger, every, cron, jitter, quiet, silent_after, dry_run,
    counts, topics, begin`.
    `secret_fields` are never shown or logged.

    `meanings` returns, for valid settings, a sentence for each whose effect its name
    does not tell; `check-config` prints them.

    `shared` takes the valid settings of two instances, and whether both work for one
    store. It names what both would take, such as the files of one folder, so that it
    would be applied twice; empty where there is nothing. Such a pair does not start.

    `takes_once` says that the other side takes a `Change.id` once, however often it
    comes: what may have arrived is handed over again, and `lookup` is not asked.
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


class CheckFailed(Exception):
    """`check()` found something a person must mend; the text says what and how."""


class Receipt(msgspec.Struct, frozen=True):
    """What the host made of one emitted record, after it was committed.

    `state` is `accepted` (a command exists), `waiting` (kept, its order or product is
    not known yet), `duplicate` (known already) or `quarantined`; `what` is a sentence
    for the person at the scanner.
    """

    state: str
    what: str


class Rejection(msgspec.Struct, frozen=True):
    """A row of this instance that ended in quarantine, for the connector to show."""

    key: str
    raw: str
    reason: str
    locator: str


async def _nothing_to_acknowledge() -> None:
    return None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Records with the cursor behind them.

    The host stores both in one transaction and calls `ack` only after its commit; a
    kill in between delivers the batch again, and equal keys collapse. The host logs
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
    """An answer: `body` is sent as JSON.

    `content`, where it is given, is sent instead, with the `Content-Type` of `headers`.
    """

    status: int
    body: Mapping[str, object] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    content: bytes | None = None


HttpHandler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Emit: TypeAlias = Callable[[Record | Bad], Awaitable[Receipt]]


class LineInShop(msgspec.Struct, frozen=True):
    """A line of an order: `left` units are not shipped and not on their way."""

    sku: str | None
    variant_id: str | None
    left: int


class OrderInShop(msgspec.Struct, frozen=True):
    """An order as the shop has it now.

    `uncertain`: the outcome of an earlier shipment is unknown, so less may be left.
    """

    name: str
    cancelled: bool
    lines: tuple[LineInShop, ...]
    uncertain: bool = False


class NameInShop(msgspec.Struct, frozen=True):
    """What a text names in the shop: orders by number or id, articles by SKU or GTIN.

    `skus` and `variant_ids` are those of the articles.
    """

    orders: tuple[OrderInShop, ...] = ()
    skus: frozenset[str] = frozenset()
    variant_ids: frozenset[str] = frozenset()


async def nothing_known(names: Sequence[str]) -> Mapping[str, NameInShop] | None:
    """Look up nothing: the shop's orders and articles are not at hand."""
    return None


class Route(msgspec.Struct, frozen=True):
    """An HTTP route below `/connect/{instance}`; `path` starts with a slash."""

    method: str
    path: str
    handler: HttpHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """News of the store for a back office.

    `id` is the same whenever this change is handed to this instance: an idempotency
    key. `topic` is one of `TOPICS`. Changes of one `object_id` come one after the
    other. `document` is the object as the mirror holds it, with the platform's names;
    of a deleted one, and of stock, it is `{"id", "productId", "variantId", "sku",
    "stock"}`, as far as it applies.
    """

    id: str
    store: str
    topic: str
    object_id: str
    occurred_at: str
    document: Mapping[str, Any] = field(repr=False)


class Connector(Generic[SettingsT]):
    """One instance of a connector; override what its system can do.

    The host calls `open`, then `listen` once and `pull` on the instance's schedule,
    and `close` at the end. Nothing may be done at import or in `__init__`.
    """

    spec: ClassVar[Spec]

    def __init__(self, instance: str, settings: SettingsT) -> None:
        self.instance = instance
        self.settings = settings
        self.look_up: LookUp = nothing_known
        """Set by the host. It reads the mirror, which may be seconds behind the shop:
        what it does not know may exist all the same."""

    async def check(self) -> None:
        """Look, without side effects, whether work could begin; or `CheckFailed`."""

    def notices(self) -> Sequence[str]:
        """Return what an operator should know although the connector works.

        Each notice is one sentence: what the connector leaves alone, why, and what to
        do. The host calls this method after `check` and after each `pull`. It shows
        the notices in `status`, `doctor` and `connectors list`, and logs each new
        notice once. Return the same sentence for as long as the notice holds.
        """
        return ()

    async def open(self) -> None:
        """Get ready. May be called again after `close`."""

    async def close(self) -> None:
        """Give everything back. Safe to call twice."""

    async def pull(self, cursor: str | None) -> AsyncIterator[Batch]:
        """Yield what came after `cursor` (None: from the beginning), then end."""
        nothing: tuple[Batch, ...] = ()
        for batch in nothing:
            yield batch

    async def apply(
        self, rejection: Rejection, cursor: str | None
    ) -> AsyncIterator[Batch]:
        """Yield the records of a Bad with `can_apply` that an operator wants applied.

        The host calls this method again after a kill or a failure, until it ends
        without an error: the records must have the same keys each time.
        """
        nothing: tuple[Batch, ...] = ()
        for batch in nothing:
            yield batch

    async def listen(self, emit: Emit) -> Sequence[Route]:
        """Accept what is sent to us; return the HTTP routes the host shall serve."""
        return ()

    def topics(self) -> frozenset[str]:
        """Return the changes that this instance takes, by its settings."""
        return self.spec.topics

    async def push(self, change: Change) -> Pushed:
        """Carry one change out: once, without retries, with every failure classified.

        What is raised counts as Uncertain. Not called for topics that are not in
        `topics()`.
        """
        return Rejected(f"{type(self).__name__} takes no changes")

    async def lookup(self, change: Change) -> LookedUp:
        """Tell whether the system has a change whose `push` was uncertain.

        Raise where it cannot be asked now: it is asked again until it can be.
        """
        return Unknown("this system cannot be asked")

    async def report(self, rejections: Sequence[Rejection]) -> None:
        """Show rows that ended in quarantine. Repeated after a kill: be idempotent."""
