"""Records of connectors in the store, and what matching makes of them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from backhaul.core.stock import ListEnd
    from backhaul.store.mappings import UsedMapping
    from backhaul.store.matching import (
        MatchReader,
        NewCommand,
        NewTarget,
        WaitingRecord,
    )
    from backhaul.store.mirror import Parcel
    from backhaul_sdk import Documents, NameInStore

T = TypeVar("T")


class ReasonClass(StrEnum):
    """Why a record or event was not used, as a word by which operators group rows.

    The code that makes the reason names its class. `other` stands for unexpected
    errors, and for rows from a version that stored no class.
    """

    UNKNOWN_ORDER = "unknown_order"
    UNKNOWN_SKU = "unknown_sku"
    UNKNOWN_PARCEL = "unknown_parcel"
    VALUE = "value"
    DUPLICATE = "duplicate"
    REFUSED_BY_PLATFORM = "refused_by_platform"
    CONNECTION = "connection"
    RATE_LIMIT = "rate_limit"
    NEEDS_DECISION = "needs_decision"
    OTHER = "other"

    def in_words(self, subject: str = "") -> str:
        """Return the class for people: `unknown SKU LAMP-2`."""
        words = self.value.replace("_", " ").replace("sku", "SKU")
        if self is ReasonClass.VALUE:
            words = "invalid value"
        return f"{words} {subject}" if subject else words


class NewRecord(Struct, frozen=True):
    """A record or a bad row from a connector; `payload` is None for a bad row.

    If `can_apply` is True, the connector applies the bad row once an operator says so.
    `read` is a document with the values of a bad row, for an operator who edits them:
    `{"kind": null, "read": …}`, see `connect/quarantine_fields.py`. `traceparent` names
    the span that submits the record.
    """

    key: str
    payload: bytes | None
    raw: str
    reason: str
    locator: str
    can_apply: bool = False
    read: bytes | None = None
    traceparent: str | None = None


class Matched(Struct, frozen=True):
    """What the record became; `note` says what was changed when it was read.

    `mappings` are those by which its names were read.
    """

    new: NewCommand | NewTarget
    note: str = ""
    mappings: tuple[UsedMapping, ...] = ()


class Unmatched(Struct, frozen=True):
    """The record cannot be matched; `final` if waiting would not help.

    `subject` is the order, SKU or parcel number that the reason is about, if it is
    about one. `withdraw` are the command ids of stock targets that the record
    contradicts. A record that `asks` is matched without this question once an operator
    retries it.
    """

    reason: str
    final: bool
    reason_class: ReasonClass = ReasonClass.OTHER
    subject: str = ""
    withdraw: tuple[str, ...] = ()
    asks: bool = False


class Known(Struct, frozen=True):
    """The record reports what is done already, maybe by this command."""

    command_id: str | None
    reason: str


class Tracked(Struct, frozen=True):
    """A tracking status of parcels of one order.

    `rank` is the position of the status in the order in which statuses follow each
    other. `cancel` is planned once every parcel of the order was returned; with
    `propose` it is parked for an operator, and does not depend on the other parcels.
    """

    parcels: tuple[Parcel, ...]
    tracking_number: str
    status: str
    rank: int
    at: str
    cancel: NewCommand | None = None
    propose: bool = False


class RecordOutcome(Struct, frozen=True):
    """What became of a record: the state and the sentence of its receipt.

    `also` are the outcomes of its other parts, if these differ.
    """

    record: WaitingRecord
    state: str
    reason: str
    also: tuple[RecordOutcome, ...] = ()


class RecordDetail(Struct, frozen=True):
    """One record, and where its command or its row in the quarantine stands.

    `kind` is None if the record is damaged. `quarantine_id` is the row's number, if the
    record was ever in quarantine.
    """

    id: int
    received_at: str
    store: str
    instance: str
    key: str
    kind: str | None
    locator: str
    state: str
    reason: str
    command_id: str | None
    command_state: str | None
    command_reason: str | None
    quarantine_id: int | None


class Submitted(Struct, frozen=True):
    """What became of a record that a program submitted with a key.

    `outcome` is None if the key was known; then `is_same` tells whether the record of
    that key is the same.
    """

    record: RecordDetail
    outcome: RecordOutcome | None
    is_same: bool


MatchOne: TypeAlias = (
    "Callable[[WaitingRecord, MatchReader],"
    " Matched | Tracked | ListEnd | Known | Unmatched]"
)


class RejectedRow(Struct, frozen=True):
    """A row of a connector that Backhaul could not use, and why."""

    id: int
    key: str
    raw: str
    reason: str
    locator: str


class Records(Protocol):
    """Records from connectors, and their rows in the quarantine. May raise Busy."""

    async def cursor(self, instance: str) -> str | None:
        """Return the connector's position in its source, None at the beginning."""
        ...

    async def must_read_stock_list(self, instance: str) -> bool:
        """Return True if the connection is to read its stock list from the beginning.

        Stock targets of the connection are on hold since a restore, and a newer count
        may replace them. The connection is asked once after each restore.
        """
        ...

    async def begin_stock_list(self, instance: str, cursor: str | None) -> None:
        """Store the cursor from which the connection reads its stock list again."""
        ...

    async def accept(
        self,
        instance: str,
        store: str,
        records: Sequence[NewRecord],
        cursor: str | None,
        match_one: MatchOne,
    ) -> list[RecordOutcome]:
        """Store records and cursor in one transaction, and plan matched records."""
        ...

    async def submit(
        self, instance: str, store: str, record: NewRecord, match_one: MatchOne
    ) -> Submitted:
        """Store a record whose key a program chose, and plan it if it matches.

        A record with a known key changes nothing, so a program may repeat it.
        """
        ...

    async def match(self, match_one: MatchOne, limit: int) -> list[RecordOutcome]:
        """Match waiting records again, those that are due longest first."""
        ...

    async def find_names(
        self, store: str, names: Sequence[str], instance: str = ""
    ) -> dict[str, NameInStore]:
        """Return what each name stands for in the mirror of a store.

        Mappings of the connection `instance` count, and those of all connections.
        """
        ...

    async def any_waiting(self) -> bool:
        """Return True if a record waits, even if it is not due."""
        ...

    async def unreported(self, instance: str, limit: int) -> list[RejectedRow]:
        """Return the oldest quarantined rows that the connector does not know."""
        ...

    async def mark_reported(self, ids: Sequence[int]) -> None:
        """Record that rows of the quarantine were reported to the connector."""
        ...

    async def approved(self, instance: str) -> list[RejectedRow]:
        """Return the rows that an operator wants applied by the connector."""
        ...

    async def mark_applied(self, id_: int) -> None:
        """Record that the connector has applied the row of this record."""
        ...


class ConnectorDocuments(Protocol):
    """What connectors keep in the database: documents by connection and key."""

    def transact(
        self, instance: str, store: str | None, work: Callable[[Documents], T]
    ) -> Awaitable[T]:
        """Run work on the documents of a connection, as one unit of a transaction.

        `store` is the one whose mirror the work can read, None if it cannot now.

        The unit is queued by the call, and resolves after its commit with what `work`
        returned. An exception of `work` is raised, and undoes all of it. May raise
        Busy.
        """
        ...


class QuarantinedRow(Struct, frozen=True):
    """A row of the quarantine, and the record that it became.

    `source` is `event` or `record`; `name` is the store of an event, or the connection
    of a record. `payload` is JSON: `null` if the row never became a record, or an
    object without a kind that has the values as they were read.
    """

    id: int
    source: str
    name: str
    key: str
    locator: str
    state: str
    reason: str
    payload: str
    command_id: str | None
    store: str
    subject: str


ROW_STATES = {
    "waiting": "are tried again now",
    "approved": "are applied by their connector in its next round",
    "reprocess": "were processed again",
    "dropped": "were discarded",
}
"""What became of rows, by the name of the number in the answer."""


class SourceRun(Struct, frozen=True):
    """The records of one file, or of one minute of a source without files.

    `applied` of them reached their goal and `failed` did not; the others are open.
    """

    source: str
    first_at: str
    last_at: str
    submitted: int = 0
    applied: int = 0
    failed: int = 0

    @property
    def open(self) -> int:
        """How many records wait, or have a command that is not done."""
        return self.submitted - self.applied - self.failed


class RowVerb(StrEnum):
    """What can be done with many rows of the quarantine at once."""

    RETRY = "retry"
    EDIT = "edit"
    DISCARD = "discard"


class RowChange(Struct, frozen=True):
    """What an operator does with rows of the quarantine.

    `edit` returns the new payload of a record; it raises BackhaulError if the record
    cannot be edited so.
    """

    verb: RowVerb
    who: str
    reason: str
    edit: Callable[[QuarantinedRow], bytes] | None = None


class ChangedRow(Struct, frozen=True):
    """What became of a row: the new state of its record, or the `problem`.

    The state is `waiting`, `approved` or `dropped`. An event to reprocess has its
    number in `event`, and the state `reprocess`.
    """

    id: int
    state: str = ""
    problem: str = ""
    event: int | None = None


class Quarantine(Protocol):
    """What an operator does with quarantined rows.

    Each change has an audit entry. All methods may raise Busy, and raise BackhaulError
    if the state of the row does not allow them.
    """

    async def find(self, id_: int) -> QuarantinedRow:
        """Return the row of a record that may be retried."""
        ...

    async def retry(
        self, id_: int, payload: bytes | None, who: str, reason: str
    ) -> str:
        """Match a row again, with a new payload if there is one.

        A row that was dropped can be retried too. Returns the new state of the record:
        `approved` if its connector is to apply it, otherwise `waiting`.
        """
        ...

    async def correct(self, id_: int, who: str, reason: str) -> str:
        """Plan to send only the tracking number of a shipment; return the command's id.

        The order must be shipped completely.
        """
        ...

    async def discard(self, id_: int, who: str, reason: str) -> None:
        """Discard a row: it stays readable, and Backhaul does not retry it.

        Backhaul ignores the record even if its connector submits it again. The commands
        that wait because of an event are released.
        """
        ...

    async def change(self, ids: Sequence[int], change: RowChange) -> list[ChangedRow]:
        """Change each row in one transaction, and return what became of each.

        A row that its state or content does not allow to change stays as it is, with
        the reason in its result. The retry of an event is only written to the audit
        log: reprocess the event then.
        """
        ...
