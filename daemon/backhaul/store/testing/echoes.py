"""Tests of echoes: the first event that shows an effect, and who caused it."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.core.lifecycle import Cause
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    at,
    ordering_key,
    resolve,
    sent,
)
from backhaul.store.testing.contract import FamilyTests
from backhaul.store.testing.transactions import in_fold, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.matching import Command
    from backhaul.store.testing.contract import MovableClock

PRODUCT = "prod_1"


async def sending(store: Store, instance: str = "books", **planned: Any) -> Command:
    """Return an adjustment of the product that is being sent."""
    planned.setdefault("target", PRODUCT)
    return await sent(
        store, kind="adjust", payload=ADJUSTMENT, instance=instance, **planned
    )


async def applied(
    store: Store, effect: str, instance: str = "books", **planned: Any
) -> Command:
    """Return an adjustment of the product that has had this effect."""
    command = await sending(store, instance, **planned)
    await resolve(store, command, Cause.CONFIRMED, effect_id=effect)
    return command


async def show_effects(
    store: Store,
    *effects: str,
    name: str = "main",
    product: str = PRODUCT,
    is_shared: bool = False,
) -> list[str]:
    """Fold an event that shows effects and changes the product; return the new ones."""

    def fold(mirror: MirrorWriter, event: int) -> list[str]:
        new = mirror.record_effects(name, ordering_key(product), effects, event)
        if is_shared:
            mirror.mark_shared_change(event)
        mirror.add_change(name, "level", product, "updated", event)
        return new

    return await in_fold(store, fold, name)


def causes(store: Store) -> Sequence[str | None]:
    """Return the connection that caused each change, the oldest change first."""
    return [instance for (instance,) in rows_of(store, "changes", "instance")]


class EchoConformance(FamilyTests):
    """Tests of `MirrorWriter.record_effects` and of the changes of the feed."""

    async def test_the_first_event_that_shows_an_effect_is_its_echo(
        self, store: Store, clock: MovableClock
    ) -> None:
        command = await applied(store, "adj_1")
        clock.advance(3)
        assert await show_effects(store, "adj_1") == ["adj_1"]
        assert await show_effects(store, "adj_1") == []
        assert causes(store) == ["books", None]
        columns = ("store", "effect", "event_id", "at", "command_id")
        (row,) = rows_of(store, "echoes", *columns)
        assert row == ("main", "adj_1", 1, at(clock), command.id)

    async def test_a_foreign_effect_is_no_echo(self, store: Store) -> None:
        await applied(store, "adj_1")
        assert await show_effects(store, "adj_2") == []
        assert causes(store) == [None]
        assert rows_of(store, "echoes", "effect") == []

    async def test_an_effect_of_another_store_is_no_echo(self, store: Store) -> None:
        await applied(store, "adj_1")
        assert await show_effects(store, "adj_1", name="other") == []
        assert causes(store) == [None]
        assert await show_effects(store, "adj_1") == ["adj_1"]

    async def test_an_effect_that_came_before_its_response_is_claimed(
        self, store: Store
    ) -> None:
        command = await sending(store)
        assert await show_effects(store, "adj_1") == ["adj_1"]
        assert await show_effects(store, "adj_2") == ["adj_2"]
        assert causes(store) == [None, None]
        await resolve(store, command, Cause.CONFIRMED, effect_id="adj_2")
        assert causes(store) == [None, "books"]
        columns = ("effect", "command_id")
        assert rows_of(store, "echoes", *columns) == [("adj_2", command.id)]

    async def test_the_effects_of_an_uncertain_command_are_kept(
        self, store: Store
    ) -> None:
        command = await sending(store)
        await resolve(store, command, Cause.UNKNOWN)
        assert await show_effects(store, "adj_1") == ["adj_1"]
        assert [effect for (effect,) in rows_of(store, "echoes", "effect")] == ["adj_1"]

    async def test_a_rejected_command_has_no_echo(self, store: Store) -> None:
        command = await sending(store)
        assert await show_effects(store, "adj_1") == ["adj_1"]
        await resolve(store, command, Cause.REFUSED)
        assert rows_of(store, "echoes", "effect") == []
        assert causes(store) == [None]

    async def test_a_command_in_flight_of_another_object_keeps_no_effect(
        self, store: Store
    ) -> None:
        await sending(store, target="prod_2")
        assert await show_effects(store, "adj_1") == []
        assert rows_of(store, "echoes", "effect") == []

    async def test_two_effects_of_one_connection_are_one_change_of_it(
        self, store: Store
    ) -> None:
        for effect in ("adj_1", "adj_2"):
            await applied(store, effect)
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        assert causes(store) == ["books"]

    async def test_a_change_of_two_connections_is_withheld_from_none(
        self, store: Store
    ) -> None:
        await applied(store, "adj_1")
        await applied(store, "adj_2", "courier")
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        assert causes(store) == [None]

    async def test_a_change_with_an_effect_of_unknown_cause_is_withheld_from_none(
        self, store: Store
    ) -> None:
        await applied(store, "adj_1")
        command = await sending(store)
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        assert causes(store) == [None]
        await resolve(store, command, Cause.CONFIRMED, effect_id="adj_2")
        assert causes(store) == [None]

    async def test_a_change_with_two_effects_of_unknown_cause_is_withheld_from_none(
        self, store: Store
    ) -> None:
        """One of them is foreign, as a command has one effect."""
        command = await sending(store)
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        await resolve(store, command, Cause.CONFIRMED, effect_id="adj_2")
        assert causes(store) == [None]

    async def test_an_event_with_a_foreign_change_is_withheld_from_none(
        self, store: Store
    ) -> None:
        await applied(store, "adj_1")
        assert await show_effects(store, "adj_1", is_shared=True) == ["adj_1"]
        assert causes(store) == [None]
        assert len(rows_of(store, "echoes", "effect")) == 1

    async def test_only_the_first_change_of_an_event_is_an_echo(
        self, store: Store
    ) -> None:
        await applied(store, "adj_1")

        def fold(mirror: MirrorWriter, event: int) -> None:
            lane = ordering_key(PRODUCT)
            mirror.record_effects("main", lane, ["adj_1"], event)
            for product in (PRODUCT, "prod_2"):
                mirror.add_change("main", "level", product, "updated", event)

        await in_fold(store, fold)
        assert causes(store) == ["books", None]

    async def test_changes_keep_the_order_of_their_events(self, store: Store) -> None:
        await applied(store, "adj_1")

        def fold(mirror: MirrorWriter, event: int) -> None:
            mirror.add_change("main", "order", "ord_1", "updated", event)
            lane = ordering_key(PRODUCT)
            mirror.record_effects("main", lane, ["adj_1"], event)
            mirror.add_change("main", "level", PRODUCT, "updated", event)
            mirror.add_change("main", "order", "ord_2", "updated", event)

        await in_fold(store, fold)
        objects = [id_ for (id_,) in rows_of(store, "changes", "object_id")]
        assert objects == ["ord_1", PRODUCT, "ord_2"]
        assert causes(store) == [None, "books", None]
