"""Tests that a slice of events leaves what the same events leave one at a time."""

# ruff: noqa: S101, S311 - these are tests, which assert, and repeat their sequences

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core.fold import supersedes
from backhaul.core.resources import (
    Customer,
    Deletion,
    Item,
    Level,
    Shipment,
    StockChange,
    StockMove,
)
from backhaul.store.inbox import Folded
from backhaul.store.testing.command_scenes import adjusted
from backhaul.store.testing.event_scenes import (
    append,
    fold_all_with,
    in_fold,
)
from backhaul.store.testing.mirror_scenes import order, product_of, rows_of, version
from backhaul.store.testing.scenes import MirrorTests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul.core.fold import Version
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.event_scenes import Fold
    from backhaul.store.testing.scenes import TestClock

SEQUENCES = 50
SLICES = {"alone": 1, "sevens": 7, "together": 100}
"""The events of each slice; a store's name begins with one of these words."""
TABLES: Mapping[str, tuple[str, ...]] = {
    "orders": ("store", "id", "updated_at", "document"),
    "order_items": ("store", "order_id", "id", "quantity"),
    "shipments": ("store", "order_id", "id", "tracking_number"),
    "products": ("store", "id", "status", "updated_at", "deleted_at", "document"),
    "variants": ("store", "product_id", "id", "sku", "updated_at"),
    "inventory_levels": ("store", "product_id", "variant_id", "stock", "updated_at"),
    "stock_ledger": ("store", "variant_id", "at", "adjustment", "adjustment_id"),
    "customers": ("store", "id", "name", "updated_at"),
    "events": ("store", "topic", "state", "kind", "object_id", "detail"),
    "changes": ("store", "kind", "object_id", "change", "instance"),
    "echoes": ("store", "effect", "lane"),
    "quarantine": ("name", "raw", "reason"),
}
"""The columns of each table that are compared, beginning with the store."""
IDS: Mapping[str, tuple[str, ...]] = {
    "order": ("ord_1", "ord_2", "ord_3"),
    "product": ("prod_1", "prod_2"),
    "customer": ("cus_1", "cus_2"),
}
KINDS = {
    **dict.fromkeys(("order shown", "order gone", "order unreadable"), "order"),
    **dict.fromkeys(("product shown", "product deleted", "stock moved"), "product"),
    **dict.fromkeys(("customer shown", "customer gone"), "customer"),
}
"""What an event may say, and the kind of its object."""
Step: TypeAlias = dict[str, Any]
Write: TypeAlias = Callable[["MirrorWriter", str, int, Step, "Version"], None]


def steps_at_random(chance: random.Random) -> list[Step]:
    """Return events about a few objects: old and new, repeated, good and bad."""
    steps = [step_at_random(chance) for _ in range(chance.randint(0, 16))]
    return steps + [chance.choice(steps) for _ in range(chance.randint(0, 2)) if steps]


def step_at_random(chance: random.Random) -> Step:
    """Return one event."""
    says = chance.choice(["order shown", *KINDS])
    return {
        "says": says,
        "id": chance.choice(IDS[KINDS[says]]),
        "second": chance.randint(0, 3),
        "parts": chance.randint(0, 3),
        "effect": chance.choice([None, "adj_1", "adj_2", "adj_3"]),
        "fails": chance.random() < 0.1,
        "is_json": chance.random() < 0.95,
    }


def fold_step(event: StoredEvent, mirror: MirrorWriter) -> Folded:
    """Fold an event of `steps_at_random`: a newer version replaces an older one."""
    step = json.loads(event.body)
    says, id_, store = step["says"], step["id"], event.store
    if not mirror.is_new_delivery(store.encode() + event.body, event.id):
        return Folded("duplicate", event.topic)
    incoming = version(step["second"], event.body)
    kind = KINDS[says]
    state = "folded"
    if says == "stock moved":
        _move(mirror, store, event.id, step, incoming)
    elif says == "order unreadable":
        mirror.hold_order(store, id_, event.id, "why", event.received_at)
        mirror.enqueue_refetch(store, kind, id_, "a tie", event.id, rest_seconds=0)
    elif supersedes(mirror.current_version(kind, store, id_), incoming):
        _WRITES[says](mirror, store, event.id, step, incoming)
        mirror.add_change(store, kind, id_, says, event.id)
    else:
        state = "stale"
    if step["fails"]:
        raise ZeroDivisionError("a bug")
    return Folded(state, event.topic, None, kind, id_)


def _show_order(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    mirror.remove_tombstone("order", store, step["id"])
    numbers = range(step["parts"])
    items = tuple(
        Item(f"li_{n}", None, None, "SKU", "", n + at.sequence, 0, None)
        for n in numbers
    )
    parcels = tuple(Shipment(f"shp_{n}", None, f"T-{n}", None) for n in numbers[1:])
    shown = order(step["id"], step["second"], items=items, shipments=parcels)
    mirror.put_order(store, shown, at)
    mirror.release_order(store, step["id"], event, at.seen_at)


def _show_product(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    product = product_of(step["id"], step["second"], step["parts"])
    mirror.put_product(store, product, "INR", at)


def _delete_product(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    mirror.delete_product(store, Deletion(step["id"], at.updated_at), at)


def _show_customer(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    mirror.remove_tombstone("customer", store, step["id"])
    name = f"Asha {step['parts']}"
    shown = Customer(step["id"], name, None, None, at.updated_at, b"{}")
    mirror.put_customer(store, shown, at)


def _remove(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    mirror.remove(KINDS[step["says"]], store, step["id"], at)


def _move(
    mirror: MirrorWriter, store: str, event: int, step: Step, at: Version
) -> None:
    product, effect = step["id"], step["effect"]
    variant = product.replace("prod", "var")
    effects = [effect] if effect else []
    mirror.record_effects(store, f"product:{product}", effects, event)
    level = Level(product, variant, step["parts"])
    move = StockMove(level, -1, "SOLD")
    moved = StockChange(effect, product, None, at.updated_at, (move,))
    mirror.add_moves(store, moved, "")
    is_deleted = mirror.deleted_since(store, product, variant, at.updated_at)
    current = mirror.current_level_version(store, variant)
    if supersedes(current, at) and not is_deleted:
        mirror.put_level(store, level, at)
    mirror.add_change(store, "level", product, "updated", event)


_WRITES: Mapping[str, Write] = {
    "order shown": _show_order,
    "order gone": _remove,
    "product shown": _show_product,
    "product deleted": _delete_product,
    "customer shown": _show_customer,
    "customer gone": _remove,
}


async def fold_steps(
    store: Store, name: str, steps: Sequence[Step], fold_one: Fold, seconds: float
) -> list[int]:
    """Fold events for a store in slices of that length; return the sizes of these."""
    bodies = [json.dumps(step) if step["is_json"] else "{" for step in steps]
    await append(store, *bodies, name=name)
    return [each.folded for each in await fold_all_with(store, fold_one, seconds)]


async def left_by_folds(
    store: Store, names: Sequence[str]
) -> Mapping[str, list[tuple[Any, ...]]]:
    """Return what folds have written for each store."""
    found: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for table, columns in TABLES.items():
        for name, *row in rows_of(store, table, *columns):
            found[name].append((table, *row))
    counts = await store.read(lambda reader: reader.counts())
    for each in sorted(counts.unreadable_orders, key=lambda each: each.order_id):
        found[each.store].append(("unreadable", each.order_id, each.reason))
    for name in names:
        queue = await store.refetch_queue.next(name, 99)
        asked = [("refetch", row.kind, row.object_id, row.asks) for row in queue]
        found[name] += sorted(asked)

    def versions(mirror: MirrorWriter, _: int) -> None:
        for name in names:
            for kind, ids in IDS.items():
                for id_ in ids:
                    known = mirror.current_version(kind, name, id_)
                    found[name].append((kind, id_, known))

    await in_fold(store, versions)
    return found


class SlicesConformance(MirrorTests):
    """Tests of slices of `Inbox.fold`."""

    async def test_slices_of_any_length_leave_the_same(
        self, store: Store, clock: TestClock
    ) -> None:
        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            clock.advance(0.01)
            return fold_step(event, mirror)

        sequences = [steps_at_random(random.Random(n)) for n in range(SEQUENCES)]
        longest: defaultdict[str, int] = defaultdict(int)
        for word, length in SLICES.items():
            for number, steps in enumerate(sequences):
                name = f"{word}_{number}"
                await adjusted(store, "adj_1", name=name)
                seconds = 0.01 * (length - 0.5)
                sizes = await fold_steps(store, name, steps, fold, seconds)
                # After a failure all that waits is folded, one event at a time.
                if not any(step["fails"] or not step["is_json"] for step in steps):
                    longest[word] = max([longest[word], *sizes])
        assert (longest["alone"], longest["sevens"]) == (1, 7)
        assert longest["together"] > 7
        names = [f"{word}_{n}" for word in SLICES for n in range(SEQUENCES)]
        found = await left_by_folds(store, names)
        for number, steps in enumerate(sequences):
            alone = found[f"alone_{number}"]
            assert found[f"sevens_{number}"] == alone, steps
            assert found[f"together_{number}"] == alone, steps
