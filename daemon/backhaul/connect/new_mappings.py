"""What a new mapping would change, and why a mapping cannot be used."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from backhaul.errors import BackhaulError
from backhaul.store.filters import Filter
from backhaul.store.mappings import MappingKind
from backhaul.store.records import ReasonClass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store.mappings import NameMapping
    from backhaul.store.read_models import Reader
    from backhaul.store.read_records import NearMatch


MOST_GROUPS = 1_000_000
MOST_PROBLEMS = 10
"""The mappings with a problem that an error names."""


def waiting_for(store: str, mapping: NameMapping) -> Filter:
    """Return the filter of the quarantined rows that a mapping of a SKU is for."""
    return Filter(
        store=store,
        connector=mapping.connection or None,
        reason=ReasonClass.UNKNOWN_SKU.value,
        subject=mapping.alias,
        state="open",
    )


def rows_waiting(
    store: str, mappings: Sequence[NameMapping], reader: Reader
) -> list[int]:
    """Return the quarantined rows that new mappings make usable.

    The open rows are read once, however many mappings there are.
    """
    unknown = ReasonClass.UNKNOWN_SKU.value
    open_ = Filter(store=store, reason=unknown, state="open")
    groups = reader.quarantine_counts(open_, MOST_GROUPS).groups
    subjects = {group.subject for group in groups}
    return [
        id_
        for each in mappings
        if each.kind is MappingKind.SKU and each.alias in subjects
        for id_ in reader.quarantine_ids(waiting_for(store, each))
    ]


def require_usable(store: str, mappings: Sequence[NameMapping], reader: Reader) -> None:
    """Raise BackhaulError if mappings cannot be used, with what to write instead.

    The error names the first problems.
    """
    found = (_problem(store, each, reader) for each in mappings)
    if problems := list(islice(filter(None, found), MOST_PROBLEMS)):
        raise BackhaulError("; ".join(problems))


def _problem(store: str, mapping: NameMapping, reader: Reader) -> str | None:
    if mapping.kind is not MappingKind.SKU:
        return None
    if reader.sells(store, mapping.alias):
        return (
            f"store {store} has the SKU {mapping.alias} itself, so a mapping of it"
            " would have no effect"
        )
    if not reader.sells(store, mapping.name):
        near = reader.near_matches("sku", store, mapping.name, 3)
        hint = near_in_words(near)
        return f"store {store} has no SKU {mapping.name}{hint}"
    return None


def near_in_words(near: Sequence[NearMatch]) -> str:
    """Return near matches as the end of an error, an empty text if there are none."""
    if not near:
        return ""
    named = ", ".join(
        f"{each.name} ({', '.join(filter(None, (each.title, each.detail)))})"
        for each in near
    )
    return f". Near matches: {named}"
