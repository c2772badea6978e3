"""What the rest of the program asks of a store: domain verbs, never a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul.core.stock import ListEnd
    from backhaul.store.matching import MatchReader, NewCommand, WaitingRecord
    from backhaul.store.mirror import (
        Parcel,
    )
    from backhaul_sdk import NameInStore


class NewRecord(Struct, frozen=True):
    """A record or bad row from a connector; `payload` is None for a bad row.

    A bad row that `can_apply` is one that its connector applies if an operator says so.
    """

    key: str
    payload: bytes | None
    raw: str
    reason: str
    locator: str
    can_apply: bool = False


class Matched(Struct, frozen=True):
    """The record became a command; `note` says what was changed while reading it."""

    command: NewCommand
    note: str = ""


class Unmatched(Struct, frozen=True):
    """The record cannot be matched; `final` when waiting would not help.

    `withdraw` are stock targets that the record contradicts, by their command's id. One
    that `asks` is matched without this question once an operator retries it.
    """

    reason: str
    final: bool
    withdraw: tuple[str, ...] = ()
    asks: bool = False


class Known(Struct, frozen=True):
    """The record reports what is done already, maybe by this command."""

    command_id: str | None
    reason: str


class Tracked(Struct, frozen=True):
    """A record that tells how far parcels of one order got.

    `rank` is the status as a step of a ladder that leads one way. `cancel` is asked for
    once every parcel of the order came back; with `propose` it waits for a person, and
    for no other parcel.
    """

    parcels: tuple[Parcel, ...]
    tracking_number: str
    status: str
    rank: int
    at: str
    cancel: NewCommand | None = None
    propose: bool = False


class RecordOutcome(Struct, frozen=True):
    """What became of a record: the state and sentence of a receipt.

    `also` is what became of its other parts, where these came to different ends.
    """

    record: WaitingRecord
    state: str
    reason: str
    also: tuple[RecordOutcome, ...] = ()


MatchOne: TypeAlias = (
    "Callable[[WaitingRecord, MatchReader],"
    " Matched | Tracked | ListEnd | Known | Unmatched]"
)


class Records(Protocol):
    """Records from connectors, and their quarantine."""

    async def cursor(self, instance: str) -> str | None: ...

    async def accept(
        self,
        instance: str,
        store: str,
        records: Sequence[NewRecord],
        cursor: str | None,
        match_one: MatchOne,
    ) -> list[RecordOutcome]:
        """Store records and cursor in one transaction, planning what matches."""
        ...

    async def match(self, match_one: MatchOne, limit: int) -> list[RecordOutcome]:
        """Try the waiting records again."""
        ...

    async def find_names(
        self, store: str, names: Sequence[str]
    ) -> dict[str, NameInStore]:
        """Return what each name stands for in the mirror of a store."""
        ...

    async def any_waiting(self) -> bool:
        """Tell whether a record waits, be it not to be tried yet."""
        ...

    async def unreported(self, instance: str, limit: int) -> list[QuarantinedRow]: ...

    async def mark_reported(self, ids: Sequence[int]) -> None: ...

    async def approved(self, instance: str) -> list[QuarantinedRow]: ...

    async def mark_applied(self, id_: int) -> None: ...


class QuarantinedRow(Struct, frozen=True):
    """A row set aside."""

    id: int
    key: str
    raw: str
    reason: str
    locator: str
