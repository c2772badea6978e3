"""Tests of selecting rows of the quarantine by a filter."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.filters import Filter
from backhaul.store.records import NewRecord, ReasonClass, Unmatched
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.quarantine import bad_event, bad_record, document
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.read_records import QuarantineCounts
    from backhaul.store.testing.scenes import TestClock


async def selected(store: Store, limit: int = 99, /, **terms: Any) -> list[int]:
    """Return the rows that a filter selects, the newest first."""
    wanted = Filter(**terms)
    rows = await store.read(lambda reader: reader.quarantine(limit, None, wanted))
    return [row.id for row in rows]


async def counted(store: Store, /, **terms: Any) -> QuarantineCounts:
    """Return the counts of a filter."""
    wanted = Filter(**terms)
    return await store.read(lambda reader: reader.quarantine_counts(wanted, 9))


async def failed(
    store: Store,
    key: str,
    members: dict[str, Any],
    kind: str = "adjust",
    *,
    why: ReasonClass = ReasonClass.VALUE,
    subject: str = "",
) -> int:
    """Quarantine a record of `courier` for a reason of a class; return its row."""
    payload = json.dumps({"kind": kind, "record": members}).encode()
    found = Unmatched("not now", final=True, reason_class=why, subject=subject)
    return await bad_record(store, payload, key, by=lambda *_: found)


class QuarantineSelectionConformance(StoreConformance):
    """Tests of the filter, the counts and the groups of the quarantine."""

    async def test_each_term_selects(self, store: Store, clock: TestClock) -> None:
        await show_order(store, "ord_1")
        order = await bad_record(store, document("#1001"), "order")
        sku = await failed(store, "sku", {"sku": "LAMP-2"})
        lines = {"lines": [{"sku": "MUG"}, {"sku": "LAMP-2"}]}
        parcel = await failed(store, "parcel", {"order": "1001", **lines}, "fulfill")
        bad = await bad_record(store, None, "bad", instance="books")
        clock.advance(60)
        event = await bad_event(store, kind="order", object_id="ord_1")
        other = await bad_event(store, name="outlet")
        every = [other, event, bad, parcel, sku, order]
        assert await selected(store) == every
        for terms, expected in (
            ({"ids": (sku, bad, 99)}, [bad, sku]),
            ({"kind": "adjust"}, [sku]),
            ({"kind": "order"}, [event]),
            ({"kind": "fulfill"}, [parcel, order]),
            ({"store": "main"}, [event, bad, parcel, sku, order]),
            ({"store": "outlet"}, [other]),
            ({"connector": "books"}, [bad]),
            ({"connector": "main"}, []),
            ({"order": "1001"}, [event, parcel, order]),
            ({"order": "#1001"}, [event, parcel, order]),
            ({"order": "ord_1"}, [event]),
            ({"sku": "LAMP-2"}, [parcel, sku]),
            ({"sku": "LAMP"}, []),
            ({"since": at(clock)}, [other, event]),
            ({"until": at(clock)}, [bad, parcel, sku, order]),
            ({"kind": "fulfill", "sku": "MUG"}, [parcel]),
            ({"kind": "cancel", "sku": "MUG"}, []),
        ):
            assert await selected(store, **terms) == expected, terms
        assert await selected(store, 2) == every[:2]

    async def test_states_are_selected(self, store: Store) -> None:
        kept = await failed(store, "kept", {"sku": "A"})
        dropped = await failed(store, "dropped", {"sku": "A"})
        retried = await failed(store, "retried", {"sku": "A"})
        await store.quarantine.drop(dropped, "ann", "seen")
        await store.quarantine.retry(retried, None, "ann", "seen")
        assert await selected(store) == [kept]
        assert await selected(store, state="open") == [kept]
        assert await selected(store, state="dropped") == [dropped]
        assert await selected(store, state="any") == [retried, dropped, kept]
        assert await selected(store, ids=(kept, dropped)) == [dropped, kept]
        assert await selected(store, ids=(kept, dropped), state="open") == [kept]
        states = {"open": 1, "dropped": 1, "retried": 1}
        assert (await counted(store)).states == states
        assert (await counted(store, state="dropped", sku="A")).states == states
        assert (await counted(store, sku="B")).states == {}

    @pytest.mark.parametrize(
        ("words", "found"),
        [
            (("BLUE",), True),
            (("blue", "dhl"), True),
            (("blue", "ups"), False),
            (("Zoë",), True),
            (("lamp blue",), False),
            (("100%",), True),
            (("courier",), True),
            (("file:row",), True),
            (("not readable",), True),
        ],
    )
    async def test_words_are_searched_in_what_failed(
        self, words: tuple[str, ...], found: bool, store: Store
    ) -> None:
        row = NewRecord(
            "row", None, "Blue lamp;DHL;Zoë;100%", "not readable", "file:row"
        )
        await store.records.accept("courier", "main", [row], None, lambda *_: None)  # type: ignore[arg-type]
        assert bool(await selected(store, words=words)) is found

    async def test_the_body_of_an_event_is_searched(self, store: Store) -> None:
        event = await bad_event(store, '{"name": "#77", "note": "Gift"}')
        await bad_event(store, '{"name": "#78"}')
        assert await selected(store, words=("gift", "#77")) == [event]

    async def test_rows_are_grouped_by_their_reason(
        self, store: Store, clock: TestClock
    ) -> None:
        unknown: dict[str, Any] = {"why": ReasonClass.UNKNOWN_SKU, "subject": "LAMP-2"}
        for number in range(3):
            await failed(store, f"lamp {number}", {"sku": "LAMP-2"}, **unknown)
        clock.advance(60)
        await failed(store, "mug", {"sku": "MUG"}, **unknown | {"subject": "MUG"})
        await failed(store, "value", {"sku": "MUG"})
        counts = await counted(store)
        assert counts.reasons == {"unknown_sku": 4, "value": 1}
        groups = [
            (each.reason_class, each.subject, each.rows) for each in counts.groups
        ]
        assert groups == [
            ("unknown_sku", "LAMP-2", 3),
            ("unknown_sku", "MUG", 1),
            ("value", "", 1),
        ]
        assert [each.last_at for each in counts.groups] == [
            *(at(clock, -60), at(clock), at(clock)),
        ]
        assert (await counted(store, sku="MUG")).reasons == {
            "unknown_sku": 1,
            "value": 1,
        }
        assert len(await selected(store, reason="unknown_sku")) == 4
        assert len(await selected(store, subject="LAMP-2")) == 3
        assert len(await selected(store, subject="")) == 1

    async def test_a_row_is_listed_with_its_class(self, store: Store) -> None:
        await failed(store, "a", {"sku": "A"}, why=ReasonClass.UNKNOWN_SKU, subject="A")
        await bad_event(store, kind="order", object_id="ord_9")
        event, record = await store.read(lambda reader: reader.quarantine(9))
        assert (record.reason_class, record.subject) == ("unknown_sku", "A")
        assert (record.kind, record.store, record.state) == ("adjust", "main", "open")
        assert (event.reason_class, event.subject) == ("value", "")
        assert (event.kind, event.store) == ("order", "main")
