"""Tests of selecting rows of the quarantine by a filter, and of changing many."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.errors import BackhaulError, Busy
from backhaul.store.filters import Filter, QuarantineCounts
from backhaul.store.records import (
    NewRecord,
    ReasonClass,
    RowChange,
    RowVerb,
    Unmatched,
)
from backhaul.store.testing.command_scenes import at, audit_entries
from backhaul.store.testing.event_scenes import quarantined
from backhaul.store.testing.mirror_scenes import show_order
from backhaul.store.testing.quarantine import bad_event, bad_record, document
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.records import QuarantinedRow
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
    reason: str = "not now",
) -> int:
    """Quarantine a record of `courier` for a reason of a class; return its row."""
    payload = json.dumps({"kind": kind, "record": members}).encode()
    found = Unmatched(reason, final=True, reason_class=why, subject=subject)
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
        values = {"order": ["#1001", "Order"], "sku": ["CUP", "Item"]}
        document_read = {"kind": None, "read": {"kind": "fulfill", "values": values}}
        read = await bad_record(store, json.dumps(document_read).encode(), "read")
        clock.advance(60)
        event = await bad_event(store, kind="order", object_id="ord_1")
        other = await bad_event(store, name="outlet")
        every = [other, event, read, bad, parcel, sku, order]
        assert await selected(store) == every
        for terms, expected in (
            ({"ids": (sku, bad, 99)}, [bad, sku]),
            ({"kind": "adjust"}, [sku]),
            ({"kind": "order"}, [event]),
            ({"kind": "fulfill"}, [read, parcel, order]),
            ({"store": "main"}, [event, read, bad, parcel, sku, order]),
            ({"store": "outlet"}, [other]),
            ({"connector": "books"}, [bad]),
            ({"connector": "main"}, []),
            ({"order": "1001"}, [event, read, parcel, order]),
            ({"order": "#1001"}, [event, read, parcel, order]),
            ({"order": "ord_1"}, [event]),
            ({"sku": "LAMP-2"}, [parcel, sku]),
            ({"sku": "LAMP"}, []),
            ({"sku": "CUP"}, [read]),
            ({"since": at(clock)}, [other, event]),
            ({"until": at(clock)}, [read, bad, parcel, sku, order]),
            ({"kind": "fulfill", "sku": "MUG"}, [parcel]),
            ({"kind": "cancel", "sku": "MUG"}, []),
        ):
            assert await selected(store, **terms) == expected, terms
        assert await selected(store, 2) == every[:2]

    async def test_states_are_selected(self, store: Store) -> None:
        kept = await failed(store, "kept", {"sku": "A"})
        dropped = await failed(store, "dropped", {"sku": "A"})
        retried = await failed(store, "retried", {"sku": "A"})
        await store.quarantine.discard(dropped, "ann", "seen")
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
        assert (await counted(store, sku="B")).states == states
        assert (await counted(store, sku="B")).reasons == {}
        assert (await counted(store, state="dropped")).reasons == {"value": 1}

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
        await store.records.accept("courier", "main", [row], None, lambda *_: None)  # type: ignore[arg-type]  # nothing is matched
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
        for key, name in (("a", "eaten"), ("b", "eaten"), ("c", "eaten too")):
            await failed(store, key, {"sku": "PEN"}, reason=f"no reason {name}")
        counts = await counted(store)
        assert counts.reasons == {"unknown_sku": 4, "value": 4}
        groups = [
            (each.reason_class, each.subject, each.reason, each.rows)
            for each in counts.groups
        ]
        assert groups == [
            ("unknown_sku", "LAMP-2", "", 3),
            ("value", "", "no reason eaten", 2),
            ("unknown_sku", "MUG", "", 1),
            ("value", "", "no reason eaten too", 1),
            ("value", "", "not now", 1),
        ]
        assert [each.last_at for each in counts.groups] == [
            *(at(clock, -60), *[at(clock)] * 4),
        ]
        for group in counts.groups:
            assert len(await selected(store, like=str(group.row))) == group.rows
        assert await selected(store, like="999") == []
        assert (await counted(store, sku="MUG")).reasons == {
            "unknown_sku": 1,
            "value": 1,
        }
        assert len(await selected(store, reason="unknown_sku")) == 4
        assert len(await selected(store, subject="LAMP-2")) == 3
        assert len(await selected(store, subject="")) == 4

    async def test_a_row_is_listed_with_its_class(self, store: Store) -> None:
        await failed(store, "a", {"sku": "A"}, why=ReasonClass.UNKNOWN_SKU, subject="A")
        await bad_event(store, kind="order", object_id="ord_9")
        event, record = await store.read(lambda reader: reader.quarantine(9))
        assert (record.reason_class, record.subject) == ("unknown_sku", "A")
        assert (record.kind, record.store, record.state) == ("adjust", "main", "open")
        assert (event.reason_class, event.subject) == ("value", "")
        assert (event.kind, event.store) == ("order", "main")


def the_change(verb: RowVerb, **more: Any) -> RowChange:
    """Return what ann does with rows."""
    return RowChange(verb, "ann", "seen", **more)


class QuarantineChangesConformance(StoreConformance):
    """Tests of `Quarantine.change`, and of what a preview counts before."""

    async def test_many_rows_are_retried_at_once(self, store: Store) -> None:
        good = [await failed(store, f"row {n}", {"sku": "A"}) for n in range(3)]
        bad = await bad_record(store, None, "bad")
        kept = await bad_record(store, None, "kept", can_apply=True)
        event = await bad_event(store)
        every = [*good, bad, kept, event, 99]
        done = await store.quarantine.change(every, the_change(RowVerb.RETRY))
        assert [(each.id, each.state) for each in done] == [
            *((row, "waiting") for row in good),
            *((bad, ""), (kept, "approved"), (event, "reprocess"), (99, "")),
        ]
        problems = {each.id: each.problem for each in done if each.problem}
        assert problems.keys() == {bad, 99}
        assert "could not read row" in problems[bad]
        assert "there is no row 99" in problems[99]
        assert [each.event for each in done if each.event] == [1]
        assert await selected(store) == [event, bad]
        entries = await audit_entries(store)
        assert [entry.who for entry in entries] == ["ann"] * 5
        assert {entry.action for entry in entries} == {"quarantine retry"}

    async def test_many_rows_are_discarded_at_once(self, store: Store) -> None:
        row = await failed(store, "row", {"sku": "A"})
        event = await bad_event(store)
        change = the_change(RowVerb.DISCARD)
        done = await store.quarantine.change([row, event], change)
        assert [each.state for each in done] == ["dropped", "dropped"]
        assert await selected(store, state="dropped") == [event, row]
        (again, _) = await store.quarantine.change([row, event], change)
        assert "is now dropped" in again.problem
        assert len(await audit_entries(store)) == 2

    async def test_many_rows_are_edited_at_once(self, store: Store) -> None:
        rows = [await failed(store, f"row {n}", {"sku": f"{n}"}) for n in range(3)]
        event = await bad_event(store)

        def edit(row: QuarantinedRow) -> bytes:
            if '"1"' in row.payload:
                raise BackhaulError("not this one")
            return document("edited")

        change = the_change(RowVerb.EDIT, edit=edit)
        done = await store.quarantine.change([*rows, event], change)
        assert [each.state for each in done] == ["waiting", "", "waiting", ""]
        assert done[1].problem == "not this one"
        assert "is an event" in done[3].problem
        assert (await quarantined(store, rows[0])).payload == document(
            "edited"
        ).decode()
        assert await selected(store) == [event, rows[1]]
        actions = {entry.action for entry in await audit_entries(store)}
        assert actions == {"quarantine edit"}

    @pytest.mark.parametrize("error", [RuntimeError("a bug"), Busy("the disk is full")])
    async def test_an_error_that_is_not_of_one_row_undoes_the_transaction(
        self, error: Exception, store: Store
    ) -> None:
        rows = [await failed(store, f"row {n}", {"sku": f"{n}"}) for n in range(2)]

        def edit(row: QuarantinedRow) -> bytes:
            if row.id == rows[1]:
                raise error
            return document("edited")

        with pytest.raises(type(error), match=str(error)):
            await store.quarantine.change(rows, the_change(RowVerb.EDIT, edit=edit))
        assert await selected(store) == rows[::-1]
        assert await audit_entries(store) == []

    async def test_a_preview_counts_what_can_be_done(self, store: Store) -> None:
        rows = [await failed(store, f"row {n}", {"sku": "A"}) for n in range(2)]
        await failed(store, "ask", {"sku": "A"}, why=ReasonClass.NEEDS_DECISION)
        await failed(store, "end", {}, "list", why=ReasonClass.NEEDS_DECISION)
        await bad_record(store, None, "bad")
        await bad_record(store, None, "kept", can_apply=True)
        await bad_event(store, name="outlet")
        await store.quarantine.discard(rows[0], "ann", "seen")
        wanted = Filter(state="any")
        found = await store.read(lambda reader: reader.quarantine_selected(wanted))
        assert [(x.store, x.state, x.content, x.rows) for x in found] == [
            ("main", "dropped", "record", 1),
            *(("main", "open", each, 1) for each in ("bad", "kept", "list")),
            *(("main", "open", each, 1) for each in ("question", "record")),
            ("outlet", "open", "event", 1),
        ]
        ids = await store.read(lambda reader: reader.quarantine_ids(Filter(sku="A")))
        assert ids == [rows[1], rows[1] + 1]
