"""Applies an event to stock: products, levels and the stock ledger."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.fold import Version, VersionComparison
from backhaul.errors import Unusable
from backhaul.ingest.objects import Fold, decide
from backhaul.platform import decoding
from backhaul.store.inbox import Decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.core.resources import Level, Product, StockChange, StockMove
    from backhaul.ingest.objects import Source
    from backhaul.platform.decoding import Data
    from backhaul.store.inbox import Folded, MirrorWriter


UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""The time of a stock level that only a product has shown."""


def product(source: Source, data: Data) -> Decoded:
    """Decode a product and the stock of its variants."""
    found = decoding.product(data, source.currency)
    concerned = source.concerned("product", found.id, _variants(found.levels))
    return Decoded(partial(_product, source, found), concerned)


def _variants(levels: Iterable[Level]) -> tuple[str, ...]:
    return tuple(level.variant_id for level in levels)


def _product(source: Source, found: Product, mirror: MirrorWriter) -> Folded:
    fold, store = Fold(source, mirror), source.event.store
    fold.notes = found.notes
    version = fold.version(found.updated_at, found.document)
    held = mirror.current_version("product", store, found.id)
    put = partial(mirror.put_product, store, found, source.currency)
    judgement = decide(fold, ("product", found.id), held, version, put)
    # A webhook's body was written at `updatedAt`, so its stock counts like a level's
    # own event. The body of a read shows a stock that is newer than `updatedAt`.
    take = _compare_level if fold.is_read else _level
    for level in found.levels:
        take(fold, level, found.updated_at)
    return fold.conclude("product", found.id, judgement)


def _compare_level(fold: Fold, level: Level, updated_at: str) -> None:
    """Use the stock of a fetched product only to fill a gap or find a conflict."""
    held = fold.mirror.current_level_version(fold.event.store, level.variant_id)
    if held is None:
        # The time of the level is unknown, so any event with a time replaces it.
        _level(fold, level, UNKNOWN_TIME)
        return
    version = _version(fold, level, updated_at)
    if version.digest != held.digest and version.seen_at > held.seen_at:
        fold.enqueue_refetch(
            "level", level.product_id, "the product shows a different stock"
        )


def stock_change(source: Source, data: Data) -> Decoded:
    """Decode a stock change, which changes levels and adds moves to the ledger."""
    return _changed(source, decoding.stock_change(data))


def history_row(source: Source, data: Data) -> Decoded:
    """Decode a stock history row that a poll could not read.

    Nearly always it raises Unusable, with what is wrong with the row.
    """
    row = decoding.entry(data)
    if row.stock_after is None or row.adjustment is None:
        raise Unusable("the member stockAfter or adjustment is missing or null")
    move = {
        "variantId": row.variant_id,
        "stock": row.stock_after,
        "adjustment": row.adjustment,
    }
    change = {
        "adjustmentId": row.adjustment_id,
        "productId": row.product_id,
        "reason": row.reason or "",
        "orderId": row.order_id,
        "updatedAt": row.created_at,
        "levels": [move],
    }
    return _changed(source, decoding.stock_change(change))


def _changed(source: Source, change: StockChange) -> Decoded:
    variants = _variants(move.level for move in change.moves)
    effects = _effects(change)
    concerned = source.concerned("level", change.product_id, variants, effects, change)
    return Decoded(partial(_change, source, change, effects), concerned)


def _effects(change: StockChange) -> tuple[str, ...]:
    """Return the effect that a stock change shows, if a command can be its cause."""
    if not change.adjustment_id or change.order_id:
        return ()
    return (change.adjustment_id,)


def _change(
    source: Source, change: StockChange, effects: Sequence[str], mirror: MirrorWriter
) -> Folded:
    fold = Fold(source, mirror)
    event_id = fold.envelope.event_id or ""
    is_new = fold.mirror.add_moves(fold.event.store, change, event_id)
    if effects:
        lane = f"product:{change.product_id}"
        first_seen = fold.mirror.record_effects(
            fold.event.store, lane, effects, fold.event.id
        )
        if first_seen and any(
            _shows_more(fold, m, change.updated_at) for m in change.moves
        ):
            fold.mirror.mark_shared_change(fold.event.id)
    judgements = {_level(fold, m.level, change.updated_at) for m in change.moves}
    judgement = _strongest(judgements)
    if judgement is VersionComparison.SAME and is_new:
        judgement = VersionComparison.NEWER
    return fold.conclude("level", change.product_id, judgement)


def _shows_more(fold: Fold, move: StockMove, updated_at: str) -> bool:
    """Return whether the level before the move differs from the mirror.

    Then somebody else changed it before, and no event has reported that change.
    """
    held = fold.mirror.current_level_version(fold.event.store, move.level.variant_id)
    if held is None or not move.adjustment:
        return False
    before = replace(move.level, stock=move.level.stock - move.adjustment)
    explained = [_version(fold, each, updated_at) for each in (before, move.level)]
    return held.digest not in [version.digest for version in explained]


def level_read(source: Source, data: Data) -> Decoded:
    """Decode a level that Backhaul read."""
    level, updated_at = decoding.level(data)
    concerned = source.concerned("level", level.product_id, (level.variant_id,))
    return Decoded(partial(_level_read, source, level, updated_at), concerned)


def _level_read(
    source: Source, level: Level, updated_at: str, mirror: MirrorWriter
) -> Folded:
    fold = Fold(source, mirror)
    judgement = _level(fold, level, updated_at)
    return fold.conclude("level", level.product_id, judgement)


def levels_shown(source: Source, data: Data) -> Decoded:
    """Decode the stock of a product that was fetched because its levels conflict.

    This happens if the platform lists no levels. The product does not say when its
    stock changed, so the known time is kept.
    """
    found = decoding.product(data, source.currency)
    concerned = source.concerned("level", found.id, _variants(found.levels))
    return Decoded(partial(_levels_shown, source, found), concerned)


def _levels_shown(source: Source, found: Product, mirror: MirrorWriter) -> Folded:
    fold = Fold(source, mirror)
    judgements: set[VersionComparison] = set()
    for level in found.levels:
        held = fold.mirror.current_level_version(fold.event.store, level.variant_id)
        known = "" if held is None else held.updated_at
        judgements.add(_level(fold, level, max(known, found.updated_at)))
    return fold.conclude("level", found.id, _strongest(judgements))


def _strongest(judgements: set[VersionComparison]) -> VersionComparison:
    """Return one judgement for several levels."""
    for judgement in (
        VersionComparison.NEWER,
        VersionComparison.SAME,
        VersionComparison.STALE,
    ):
        if judgement in judgements:
            return judgement
    return VersionComparison.NEWER


def _level(fold: Fold, level: Level, updated_at: str) -> VersionComparison:
    store, mirror = fold.event.store, fold.mirror
    if mirror.deleted_since(store, level.product_id, level.variant_id, updated_at):
        return VersionComparison.STALE
    held = mirror.current_level_version(store, level.variant_id)
    version = _version(fold, level, updated_at)
    put = partial(mirror.put_level, store, level)
    about = ("level", level.product_id)
    return decide(fold, about, held, version, put, level.variant_id)


def _version(fold: Fold, level: Level, updated_at: str) -> Version:
    return fold.version(updated_at, str(level.stock).encode())
