"""Operator actions on mappings; new ones retry the rows that wait for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from backhaul.connect.new_mappings import require_usable, rows_waiting
from backhaul.errors import BackhaulError
from backhaul.store.commands import LONGEST_REASON
from backhaul.store.mappings import NameMapping, require_valid
from backhaul.store.records import RowChange, RowVerb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.runtime.signals import SharedSignals
    from backhaul.store import Store

Answer: TypeAlias = dict[str, Any]

ROWS_AT_ONCE = 50
"""The rows of one transaction: other writes wait for it."""
MOST_AT_ONCE = 10_000
"""Mappings of one request: they are stored in one transaction."""


class NewMappings(msgspec.Struct, frozen=True):
    """The mappings to add to a store; a problem with one of them stores none."""

    store: str
    mappings: tuple[NameMapping, ...]
    who: str
    reason: str = ""


class Parts(Protocol):
    """What the actions work on, as in ActionContext."""

    @property
    def store(self) -> Store:
        """The store with the mappings."""
        ...

    @property
    def signals(self) -> SharedSignals:
        """Wakes the parts that match records again."""
        ...


async def add_mappings(parts: Parts, asked: Mapping[str, Any]) -> Answer:
    """Add the mappings of NewMappings, and retry the quarantined rows they are for.

    A mapping that was added before retries its rows again.
    """
    request = msgspec.convert(asked, NewMappings)
    _require_request(request)
    known = partial(require_usable, request.store, request.mappings)
    await parts.store.read(known)
    who, reason = request.who, request.reason.strip()
    added = await parts.store.mappings.add(request.store, request.mappings, who, reason)
    ids = await parts.store.read(partial(rows_waiting, request.store, request.mappings))
    change = RowChange(RowVerb.RETRY, who, "a mapping was added")
    retried = 0
    for begin in range(0, len(ids), ROWS_AT_ONCE):
        some = ids[begin : begin + ROWS_AT_ONCE]
        changed = await parts.store.quarantine.change(some, change)
        retried += sum(not each.problem for each in changed)
        parts.signals.operator_decided.emit()
    parts.signals.operator_decided.emit()
    return {"added": added, "retried": retried}


def _require_request(request: NewMappings) -> None:
    if len(request.reason) > LONGEST_REASON:
        raise BackhaulError(f"a reason has at most {LONGEST_REASON} characters")
    if not request.mappings:
        raise BackhaulError("there is no mapping to add")
    if len(request.mappings) > MOST_AT_ONCE:
        raise BackhaulError(
            f"{len(request.mappings):,} mappings are too many for one request; add at"
            f" most {MOST_AT_ONCE:,} at once"
        )
    for each in request.mappings:
        require_valid(each)


async def remove_mapping(parts: Parts, asked: Mapping[str, Any]) -> Answer:
    """Remove the mapping `id`. Commands that exist already do not change."""
    reason = asked["reason"].strip()
    if len(reason) > LONGEST_REASON:
        raise BackhaulError(f"a reason has at most {LONGEST_REASON} characters")
    removed = await parts.store.mappings.remove(asked["id"], asked["who"], reason)
    result: Answer = msgspec.to_builtins(removed)
    return result
