"""Tests of the lists of commands and stock targets for operators."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.core.lifecycle import Cause
from backhaul.store.matching import NewTarget
from backhaul.store.read_models import CommandFilter
from backhaul.store.records import Matched, NewRecord
from backhaul.store.testing.command_scenes import at, claimed_ids, detail, plan, sent
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.mirror_scenes import show_level, show_order, show_product

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.read_records import CommandDetail, ListedTarget
    from backhaul.store.testing.contract import MovableClock

ALL = CommandFilter()


async def command_ids(
    store: Store,
    wanted: CommandFilter = ALL,
    limit: int = 99,
    after: str | None = None,
) -> list[str]:
    """Return the ids of commands as operators see them."""
    rows = await store.read(lambda reader: reader.commands(wanted, limit, after))
    count = await store.read(lambda reader: reader.count_commands(wanted))
    assert after is not None or len(rows) == min(count, limit)
    return [row.id for row in rows]


async def open_ids(store: Store, state: str, limit: int = 9) -> list[str]:
    """Return the ids of some open commands."""
    rows = await store.read(lambda reader: reader.open_commands(state, limit))
    return [row.id for row in rows]


async def command(store: Store, prefix: str) -> CommandDetail | None:
    """Return the only command whose id begins so."""
    return await store.read(lambda reader: reader.command(prefix))


async def count(
    store: Store, quantity: int, product: str = "prod_1", name: str = "main"
) -> str:
    """Submit a stock count of a product; return its id."""
    variant = product.replace("prod", "var")
    as_of = f"2026-03-01T11:00:{quantity:02}.000Z"
    id_ = f"{name}-{product}-{quantity}".encode().hex()[:32].ljust(32, "0")
    target = NewTarget(id_, product, variant, quantity, as_of)
    record = NewRecord(id_, b"null", "", "", id_)
    await store.records.accept("erp", name, [record], None, lambda *_: Matched(target))
    return id_


async def targets(
    store: Store,
    state: str | None = None,
    name: str | None = None,
    limit: int = 99,
    before: int | None = None,
) -> list[ListedTarget]:
    """Return stock targets as operators see them."""
    return await store.read(
        lambda reader: reader.stock_targets(state, name, limit, before)
    )


class CommandListsConformance(FamilyTests):
    """Tests of the lists of commands and stock targets."""

    async def test_parked_commands_come_first_then_the_newest(
        self, store: Store
    ) -> None:
        parked = await sent(store, Cause.UNDECIDABLE, target="ord_1")
        done = await sent(store, Cause.CONFIRMED, target="ord_2")
        late = await sent(store, Cause.UNDECIDABLE, target="ord_3")
        open_ = await plan(store, target="ord_4")
        expected = [late.id, parked.id, open_, done.id]
        assert await command_ids(store) == expected
        for place, id_ in enumerate(expected):
            assert await command_ids(store, ALL, 2, id_) == expected[place + 1 :][:2]

    async def test_commands_are_filtered(self, store: Store) -> None:
        parked = (await sent(store, Cause.UNDECIDABLE, target="ord_1")).id
        cancel = await plan(store, "cancel", "ord_2")
        other = await plan(store, target="ord_3", name="other")
        for wanted, expected in (
            (CommandFilter(state="parked"), [parked]),
            (CommandFilter(state="planned"), [other, cancel]),
            (CommandFilter(kind="cancel"), [cancel]),
            (CommandFilter(store="other"), [other]),
            (CommandFilter(store="main", state="planned"), [cancel]),
            (CommandFilter(state="applied"), []),
        ):
            assert await command_ids(store, wanted) == expected

    async def test_a_command_is_listed_with_its_object(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_order(store, "ord_1")
        await show_product(store, "prod_1")
        await sent(store, Cause.REFUSED, target="ord_1")
        await plan(store, "adjust", "prod_1")
        await plan(store, target="ord_1", name="other")
        other, adjust, refused = await store.read(lambda r: r.commands(ALL, 9))
        assert (other.about, adjust.about, refused.about) == (None, "Lamp", "#1001")
        assert (refused.state, refused.reason) == ("rejected", "why")
        assert (refused.attempts, refused.settled_at) == (1, at(clock))
        assert (adjust.created_at, adjust.settled_at) == (at(clock), None)
        assert adjust.instance == "courier"
        assert adjust.cause.startswith("record courier file:")

    async def test_the_plan_is_in_the_order_of_planning(self, store: Store) -> None:
        ids = [await plan(store, target=f"ord_{number}") for number in (1, 2, 3)]
        await plan(store, target="ord_4", name="other")
        await claimed_ids(store, limit=1)
        wish = CommandFilter(store="main")
        found = await store.read(lambda reader: reader.plan(wish, 9))
        assert [command.id for command, _ in found] == ids[1:]
        assert found[0][0].payload == {"n": 1}
        first = await store.read(lambda reader: reader.plan(wish, 1))
        assert first == found[:1]

    async def test_open_commands_are_those_of_a_state_that_is_not_final(
        self, store: Store
    ) -> None:
        doubt = (await sent(store, Cause.UNKNOWN, target="ord_1")).id
        await sent(store, Cause.UNDECIDABLE, target="ord_2")
        gone = (await sent(store, target="ord_3")).id
        wait = await plan(store, target="ord_4")
        counted = await count(store, 7)
        for state, expected in (
            ("uncertain", [doubt]),
            ("sending", [gone]),
            ("planned", sorted([wait, counted])),
            ("parked", []),
        ):
            assert sorted(await open_ids(store, state)) == expected
        assert len(await open_ids(store, "planned", 1)) == 1

    async def test_a_command_is_found_by_the_beginning_of_its_id(
        self, store: Store
    ) -> None:
        for id_ in ("ab" * 16, "ac" * 16):
            await plan(store, id_=id_)
        assert (await detail(store, "ab")).id == "ab" * 16
        assert (await detail(store, "ac" * 16)).id == "ac" * 16
        for prefix in ("a", "b", "%", "ab" * 16 + "0"):
            assert await command(store, prefix) is None

    async def test_a_stock_target_is_listed_beside_commands(self, store: Store) -> None:
        await show_product(store, "prod_1")
        id_ = await count(store, 7)
        wanted = CommandFilter(kind="target", state="planned")
        assert await command_ids(store, wanted) == [id_]
        shown = await detail(store, id_)
        assert (shown.kind, shown.target, shown.about) == ("target", "prod_1", "Lamp")
        assert shown.target_of is not None
        assert (shown.target_of.variant_id, shown.target_of.quantity) == ("var_1", 7)
        assert shown.wanted["quantity"] == 7

    async def test_stock_targets_are_listed_page_by_page(
        self, store: Store, clock: MovableClock
    ) -> None:
        await show_product(store, "prod_1")
        await show_level(store, 3)
        first = await count(store, 7)
        second = await count(store, 8, "prod_2")
        third = await count(store, 9, name="other")
        found = await targets(store)
        assert [row.id for row in found] == [third, second, first]
        assert [(row.sku, row.stock) for row in found] == [
            (None, None),
            (None, None),
            ("SKU-1", 3),
        ]
        oldest = found[2]
        assert (oldest.quantity, oldest.variant_id, oldest.target) == (
            7,
            "var_1",
            "prod_1",
        )
        assert (oldest.state, oldest.created_at) == ("planned", at(clock))
        assert await targets(store, limit=1, before=found[0].seq) == [found[1]]
        assert await targets(store, name="other") == [found[0]]
        assert await targets(store, "applied") == []
        assert await targets(store, "planned", "main", 9, found[1].seq) == [oldest]
