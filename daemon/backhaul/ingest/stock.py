"""Applies an event to stock: products, levels and the stock ledger."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backhaul.core.fold import Version, VersionComparison
from backhaul.errors import Unusable
from backhaul.ingest.objects import Fold, decide
from backhaul.platform import decoding

if TYPE_CHECKING:
    from backhaul.core.resources import Level, StockChange, StockMove
    from backhaul.store.contract import Folded


UNKNOWN_TIME = "1970-01-01T00:00:00.000Z"
"""The time of stock that was only seen beside a product."""


def product(fold: Fold) -> Folded:
    """Fold a product, and the stock that its variants show."""
    found = decoding.product(fold.envelope.data, fold.currency)
    store, mirror = fold.event.store, fold.mirror
    fold.notes = found.notes
    version = fold.version(found.updated_at, found.document)
    held = mirror.held("product", store, found.id)
    put = partial(mirror.put_product, store, found, fold.currency)
    judgement = decide(fold, ("product", found.id), held, version, put)
    # A delivery's bytes were frozen with the change, so the stock they show is as good
    # as a level's own event. A read shows stock of a later moment than `updatedAt`.
    take = _compare_level if fold.is_read else _level
    for level in found.levels:
        take(fold, level, found.updated_at)
    return fold.conclude("product", found.id, judgement)


def _compare_level(fold: Fold, level: Level, updated_at: str) -> None:
    """Let what a read product shows fill a gap, or raise a doubt, and no more."""
    held = fold.mirror.held_level(fold.event.store, level.variant_id)
    if held is None:
        # As of when is not told, so whatever tells it replaces this.
        _level(fold, level, UNKNOWN_TIME)
        return
    version = _version(fold, level, updated_at)
    if version.digest != held.digest and version.seen_at > held.seen_at:
        fold.ask("level", level.product_id, "the product shows another stock")


def stock_change(fold: Fold) -> Folded:
    """Fold a change of stock into the levels, and its moves into the ledger."""
    return _change(fold, decoding.stock_change(fold.envelope.data))


def history_row(fold: Fold) -> Folded:
    """Fold a row of the history that a look could not put among the others.

    Nearly always it raises Unusable, which tells what is wrong with the row.
    """
    row = decoding.entry(fold.envelope.data)
    if row.stock_after is None or row.adjustment is None:
        raise Unusable("stockAfter or adjustment is missing or null")
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
    return _change(fold, decoding.stock_change(change))


def _change(fold: Fold, change: StockChange) -> Folded:
    told_by = fold.envelope.event_id or ""
    is_news = fold.mirror.add_moves(fold.event.store, change, told_by)
    if change.adjustment_id and not change.order_id:
        lane = f"product:{change.product_id}"
        effects = [change.adjustment_id]
        heard = fold.mirror.hear(fold.event.store, lane, effects, fold.event.id)
        if heard and any(_shows_more(fold, m, change.updated_at) for m in change.moves):
            fold.mirror.share(fold.event.id)
    judgements = {_level(fold, m.level, change.updated_at) for m in change.moves}
    judgement = _strongest(judgements)
    if judgement is VersionComparison.SAME and is_news:
        judgement = VersionComparison.NEWER
    return fold.conclude("level", change.product_id, judgement)


def _shows_more(fold: Fold, move: StockMove, updated_at: str) -> bool:
    """Tell whether the stock that was moved is another than is known.

    Somebody else moved it before; of that no news came, or none that change anything.
    """
    held = fold.mirror.held_level(fold.event.store, move.level.variant_id)
    if held is None or not move.adjustment:
        return False
    before = replace(move.level, stock=move.level.stock - move.adjustment)
    explained = [_version(fold, each, updated_at) for each in (before, move.level)]
    return held.digest not in [version.digest for version in explained]


def level_read(fold: Fold) -> Folded:
    """Fold a level that was read."""
    level, updated_at = decoding.level(fold.envelope.data)
    judgement = _level(fold, level, updated_at)
    return fold.conclude("level", level.product_id, judgement)


def levels_shown(fold: Fold) -> Folded:
    """Fold the stock of a product that was read because its levels are in doubt.

    So it is where the platform lists no levels. When the stock last changed is not
    told then: the time that is known stays.
    """
    found = decoding.product(fold.envelope.data, fold.currency)
    judgements: set[VersionComparison] = set()
    for level in found.levels:
        held = fold.mirror.held_level(fold.event.store, level.variant_id)
        known = "" if held is None else held.updated_at
        judgements.add(_level(fold, level, max(known, found.updated_at)))
    return fold.conclude("level", found.id, _strongest(judgements))


def _strongest(judgements: set[VersionComparison]) -> VersionComparison:
    """Return what became of several levels as one."""
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
    if mirror.outlived(store, level.product_id, level.variant_id, updated_at):
        return VersionComparison.STALE
    held = mirror.held_level(store, level.variant_id)
    version = _version(fold, level, updated_at)
    put = partial(mirror.put_level, store, level)
    about = ("level", level.product_id)
    return decide(fold, about, held, version, put, level.variant_id)


def _version(fold: Fold, level: Level, updated_at: str) -> Version:
    return fold.version(updated_at, str(level.stock).encode())
