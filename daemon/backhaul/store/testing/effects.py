"""Tests of effects of our own: echoes that events show, and tags in the history."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.effect_proof import TagMeaning
from backhaul.core.lifecycle import Cause
from backhaul.core.resources import Shipment
from backhaul.store.commands import TaggedAdjustment
from backhaul.store.testing.command_scenes import (
    ADJUSTMENT,
    adjusted,
    at,
    claimed,
    detail,
    ordering_key,
    plan,
    resolve,
    sent,
    state_of,
)
from backhaul.store.testing.event_scenes import in_fold
from backhaul.store.testing.mirror_scenes import order, rows_of, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.matching import Command
    from backhaul.store.testing.scenes import TestClock


PRODUCT = "prod_1"


async def sending(store: Store, instance: str = "books", **planned: Any) -> Command:
    """Return an adjustment of the product that is being sent."""
    planned.setdefault("target", PRODUCT)
    return await sent(
        store, kind="adjust", payload=ADJUSTMENT, instance=instance, **planned
    )


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


class EchoConformance(StoreConformance):
    """Tests of `MirrorWriter.record_effects` and of the changes of the feed."""

    async def test_the_first_event_that_shows_an_effect_is_its_echo(
        self, store: Store, clock: TestClock
    ) -> None:
        command = await adjusted(store, "adj_1")
        clock.advance(3)
        assert await show_effects(store, "adj_1") == ["adj_1"]
        assert await show_effects(store, "adj_1") == []
        assert causes(store) == ["books", None]
        columns = ("store", "effect", "event_id", "at", "command_id")
        (row,) = rows_of(store, "echoes", *columns)
        assert row == ("main", "adj_1", 1, at(clock), command.id)

    async def test_a_foreign_effect_is_no_echo(self, store: Store) -> None:
        await adjusted(store, "adj_1")
        assert await show_effects(store, "adj_2") == []
        assert causes(store) == [None]
        assert rows_of(store, "echoes", "effect") == []

    async def test_an_effect_of_another_store_is_no_echo(self, store: Store) -> None:
        await adjusted(store, "adj_1")
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
            await adjusted(store, effect)
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        assert causes(store) == ["books"]

    async def test_a_change_of_two_connections_is_withheld_from_none(
        self, store: Store
    ) -> None:
        await adjusted(store, "adj_1")
        await adjusted(store, "adj_2", "courier")
        assert await show_effects(store, "adj_1", "adj_2") == ["adj_1", "adj_2"]
        assert causes(store) == [None]

    async def test_a_change_with_an_effect_of_unknown_cause_is_withheld_from_none(
        self, store: Store
    ) -> None:
        await adjusted(store, "adj_1")
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
        await adjusted(store, "adj_1")
        assert await show_effects(store, "adj_1", is_shared=True) == ["adj_1"]
        assert causes(store) == [None]
        assert len(rows_of(store, "echoes", "effect")) == 1

    async def test_only_the_first_change_of_an_event_is_an_echo(
        self, store: Store
    ) -> None:
        await adjusted(store, "adj_1")

        def fold(mirror: MirrorWriter, event: int) -> None:
            lane = ordering_key(PRODUCT)
            mirror.record_effects("main", lane, ["adj_1"], event)
            for product in (PRODUCT, "prod_2"):
                mirror.add_change("main", "level", product, "updated", event)

        await in_fold(store, fold)
        assert causes(store) == ["books", None]

    async def test_changes_keep_the_order_of_their_events(self, store: Store) -> None:
        await adjusted(store, "adj_1")

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


ADJUST: dict[str, Any] = {
    "kind": "adjust",
    "target": "prod_1",
    "payload": ADJUSTMENT,
}
BECOMES_APPLIED = [
    ((Cause.UNDECIDABLE,), TagMeaning.LATE),
    ((Cause.REFUSED,), TagMeaning.LATE),
    ((Cause.NOT_SENT,), TagMeaning.LATE),
    ((Cause.CONFIRMED,), TagMeaning.LINKED),
]
OPEN = [((), "sending"), ((Cause.UNKNOWN,), "uncertain")]
SHIPPED = {"tracking_number": "T1", "lines": []}


async def record(
    store: Store, command: str, effect: str = "adj_1", *, adopt: bool = False
) -> TagMeaning:
    """Record one adjustment with a command's tag; return what it means."""
    found = [TaggedAdjustment(command, effect, ())]
    (meaning,) = await store.tags.record_tags("main", found, adopt=adopt)
    return meaning


async def doubled(store: Store, command: str) -> list[str]:
    """Return the duplicate effects in a command's evidence."""
    found = json.loads((await detail(store, command)).evidence or "{}")
    return list(found.get("doubled", []))


class HistoryTagsConformance(StoreConformance):
    """Tests of `Store.tags`."""

    @pytest.mark.parametrize(("causes", "meaning"), BECOMES_APPLIED)
    async def test_an_adjustment_becomes_the_effect_of_its_command(
        self,
        causes: tuple[Cause, ...],
        meaning: TagMeaning,
        store: Store,
        clock: TestClock,
    ) -> None:
        change = {"due_at": at(clock, 60)}
        command = await sent(store, *causes, change=change, **ADJUST)
        assert await record(store, command.id) is meaning
        shown = await detail(store, command.id)
        assert (shown.state, shown.effect_id) == ("applied", "adj_1")
        assert await record(store, command.id) is TagMeaning.OWN
        assert await doubled(store, command.id) == []

    async def test_a_second_adjustment_is_a_duplicate_effect(
        self, store: Store
    ) -> None:
        change = {"effect_id": "adj_1", "evidence": {"level": 5}}
        command = await sent(store, Cause.CONFIRMED, change=change, **ADJUST)
        for effect in ("adj_2", "adj_3"):
            assert await record(store, command.id, effect) is TagMeaning.DOUBLED
            assert await record(store, command.id, effect) is TagMeaning.OWN
        shown = await detail(store, command.id)
        evidence = {"level": 5, "doubled": ["adj_2", "adj_3"]}
        assert json.loads(shown.evidence or "") == evidence
        assert shown.effect_id == "adj_1"

    @pytest.mark.parametrize(("causes", "state"), OPEN)
    async def test_an_adjustment_of_an_open_command_is_left_to_its_check(
        self, causes: tuple[Cause, ...], state: str, store: Store
    ) -> None:
        command = await sent(store, *causes, **ADJUST)
        assert await record(store, command.id) is TagMeaning.OPEN
        shown = await detail(store, command.id)
        assert (shown.state, shown.effect_id) == (state, None)

    async def test_the_tag_of_another_stores_command_is_unknown(
        self, store: Store
    ) -> None:
        command = await sent(store, Cause.UNDECIDABLE, name="other", **ADJUST)
        assert await record(store, command.id) is TagMeaning.UNKNOWN
        assert await state_of(store, command.id) == "parked"

    async def test_a_foreign_adjustment_changes_nothing_unless_it_is_adopted(
        self, store: Store
    ) -> None:
        unsent = await plan(store, **ADJUST)
        assert await record(store, unsent) is TagMeaning.UNSENT
        assert await record(store, "a" * 32, "adj_2") is TagMeaning.UNKNOWN
        assert await state_of(store, unsent) == "planned"
        await plan(store, id_="a" * 32, kind="adjust", target="prod_2")
        assert await state_of(store, "a" * 32) == "planned"

    async def test_an_adopted_adjustment_is_of_before_a_restore(
        self, store: Store
    ) -> None:
        unsent = await plan(store, **ADJUST)
        assert await record(store, unsent, adopt=True) is TagMeaning.UNSENT
        shown = await detail(store, unsent)
        assert (shown.state, shown.effect_id) == ("applied", "adj_1")
        gone = "a" * 32
        assert await record(store, gone, "adj_2", adopt=True) is TagMeaning.UNKNOWN
        assert await record(store, gone, "adj_2") is TagMeaning.OWN
        assert await record(store, gone, "adj_3") is TagMeaning.DOUBLED
        await plan(store, id_=gone, **ADJUST)
        shown = await detail(store, gone)
        assert (shown.state, shown.effect_id) == ("applied", "adj_2")
        assert await doubled(store, gone) == ["adj_3"]

    async def test_after_an_adoption_every_open_command_is_uncertain(
        self, store: Store, clock: TestClock
    ) -> None:
        planned = await plan(store, target="ord_1")
        other = await plan(store, target="ord_2", name="other")
        parked = await sent(store, Cause.UNDECIDABLE, target="ord_3")
        await claimed(store)
        waiting = await plan(store, "cancel", "ord_4")
        await record(store, "a" * 32, adopt=True)
        shown = await detail(store, waiting)
        assert (shown.state, shown.due_at) == ("uncertain", at(clock))
        assert await state_of(store, planned) == "sending"
        assert await state_of(store, other) == "planned"
        assert await state_of(store, parked.id) == "parked"

    async def test_after_an_adoption_new_fulfillments_are_checked_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await record(store, "a" * 32, adopt=True)
        clock.advance(60)
        states = [
            await state_of(store, await plan(store, kind, target, name=name))
            for kind, target, name in (
                ("fulfill", "ord_1", "main"),
                ("cancel", "ord_2", "main"),
                ("fulfill", "ord_3", "other"),
            )
        ]
        assert states == ["uncertain", "planned", "planned"]

    async def test_a_parcel_that_left_twice_is_recorded_once(
        self, store: Store
    ) -> None:
        command = await twice(store, name="main")
        other = await twice(store, name="other")
        assert await store.tags.record_double_parcels("main") == [(command, "shp_2")]
        assert await store.tags.record_double_parcels("main") == []
        assert await doubled(store, command) == ["shp_2"]
        assert await doubled(store, other) == []

    async def test_a_parcel_of_a_command_that_was_sent_once_is_no_duplicate(
        self, store: Store
    ) -> None:
        change = {"effect_id": "shp_1"}
        await sent(store, Cause.CONFIRMED, change=change, payload=SHIPPED)
        await show_parcels(store)
        assert await store.tags.record_double_parcels("main") == []

    async def test_shift_moves_times_back_with_the_clock(
        self, store: Store, clock: TestClock
    ) -> None:
        due = {"due_at": at(clock, 60)}
        retry = await sent(store, Cause.NOT_SENT, change=due, target="ord_1")
        doubt = await sent(store, Cause.UNKNOWN, change=due, target="ord_2")
        soon = {"due_at": at(clock, -3600 + 60)}
        near = await sent(store, Cause.UNKNOWN, change=soon, target="ord_3")
        other = await sent(store, Cause.NOT_SENT, change=due, name="other")
        clock.set_by(-3600)
        await store.tags.shift("main", 3600.0, 600.0)
        for command in (retry, doubt, near):
            shown = await detail(store, command.id)
            assert (shown.created_at, shown.due_at) == (at(clock), at(clock, 60))
        assert (await detail(store, retry.id)).sent_at == at(clock)
        assert (await detail(store, other.id)).due_at == due["due_at"]

    async def test_catch_up_limits_the_waits_of_open_commands(
        self, store: Store, clock: TestClock
    ) -> None:
        due = {"due_at": at(clock, 60)}
        retry = await sent(store, Cause.NOT_SENT, change=due, target="ord_1")
        doubt = await sent(store, Cause.UNKNOWN, change=due, target="ord_2")
        other = await sent(store, Cause.UNKNOWN, change=due, name="other")
        clock.set_by(-86_400)
        await store.tags.catch_up("main", 600.0)
        assert (await detail(store, retry.id)).due_at == at(clock)
        assert (await detail(store, doubt.id)).due_at == at(clock, 600)
        assert (await detail(store, other.id)).due_at == due["due_at"]
        assert (await detail(store, retry.id)).created_at == at(clock)

    async def test_catch_up_leaves_times_that_are_near(
        self, store: Store, clock: TestClock
    ) -> None:
        due = {"due_at": at(clock, 60)}
        retry = await sent(store, Cause.NOT_SENT, change=due)
        await store.tags.catch_up("main", 600.0)
        assert (await detail(store, retry.id)).due_at == due["due_at"]


async def show_parcels(store: Store, name: str = "main") -> None:
    """Let the mirror show two parcels of `ord_1` with one number."""
    parcels = tuple(Shipment(f"shp_{n}", None, "T1", None) for n in (1, 2))
    shown = [{"id": parcel.id, "trackingNumber": "T1"} for parcel in parcels]
    document = {**json.loads(order().document), "shipments": shown}
    await show_order(
        store, name=name, shipments=parcels, document=json.dumps(document).encode()
    )


async def twice(store: Store, name: str) -> str:
    """Send a fulfillment twice, so that two parcels left; return its id."""
    command = await sent(store, Cause.NOT_SENT, payload=SHIPPED, name=name)
    (again,) = await claimed(store, name=name)
    await resolve(store, again, Cause.CONFIRMED, effect_id="shp_1")
    await show_parcels(store, name)
    return command.id
