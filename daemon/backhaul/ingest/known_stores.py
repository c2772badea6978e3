"""Folding with what is known of the stores: whose event it is, and in what currency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.ingest.folding import fold_one
from backhaul.shop.client import StoreFacts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul.store.contract import Folded, FoldOne, MirrorWriter, StoredEvent

_NOTHING = StoreFacts()


def fold_for(facts: Mapping[str, StoreFacts]) -> FoldOne:
    """Return what folds one event; `facts` may grow while it is used."""

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        known = facts.get(event.store, _NOTHING)
        return fold_one(
            event,
            mirror,
            store_id=known.store_id or None,
            currency=known.currency,
            tracking=known.tracking,
        )

    return fold
