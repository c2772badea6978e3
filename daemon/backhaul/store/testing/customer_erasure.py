"""Tests of erasing a customer: found everywhere in one store, and redacted there."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backhaul.core.identity import address_digest
from backhaul.core.lifecycle import Cause
from backhaul.store.commands import Attempt, Check, MentionedCustomer, Transition
from backhaul.store.deliveries import DeliveryOutcome
from backhaul.store.inbox import Folded
from backhaul.store.operators import NewView
from backhaul.store.read_models import SearchText
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import (
    at,
    audit_entries,
    detail,
    in_brief,
    sent,
    uncertain,
)
from backhaul.store.testing.delivery_scenes import NOW, claim
from backhaul.store.testing.event_scenes import (
    arrive,
    event_detail,
    fold_with,
    quarantined,
)
from backhaul.store.testing.mirror_scenes import show_customer, show_order
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.customer_erasure import CustomerTrace
    from backhaul.store.inbox import MirrorWriter, StoredEvent
    from backhaul.store.testing.scenes import OpenStore, TestClock

EMAIL = "asha@example.com"
PERSON = {"id": "cus_1", "name": "Asha", "email": EMAIL}
GUEST = {"id": None, "name": "Asha", "email": EMAIL}
ABOUT = json.dumps({"id": "ord_1", "customer": PERSON}).encode()
DIGEST = address_digest("main", EMAIL)


class NameEraser:
    """Removes an e-mail address from texts."""

    def document(self, kind: str, text: str) -> str:
        return text.replace(EMAIL, f"no {kind}")

    def body(self, topic: str, body: bytes) -> bytes | None:
        return self._without(body) if EMAIL.encode() in body else None

    def text(self, text: str) -> str | None:
        return text.replace(EMAIL, "") if EMAIL in text else None

    def _without(self, body: bytes) -> bytes:
        return body.replace(EMAIL.encode(), b"")


def describe(kind: str, document: str) -> SearchText:
    """Return a document as its own words."""
    return SearchText(kind, document)


async def trace(store: Store, name: str, *emails: str) -> CustomerTrace:
    """Return what is stored of a customer, which must be something."""
    found = await store.erasure.find_customer("main", name, emails)
    assert found is not None
    return found


async def redact_rows(store: Store, table: str, slice_seconds: float = 1.0) -> int:
    """Redact the rows of a table, slice by slice; return how many were changed."""
    changed, last = 0, 0
    while True:
        rows = await store.erasure.redact_rows(
            "main", table, last, NameEraser(), slice_seconds
        )
        if rows.last is None:
            return changed
        changed, last = changed + rows.changed, rows.last


class ErasureConformance(StoreConformance):
    """Tests of `Store.erasure`."""

    async def test_a_customer_is_found_by_id_or_email(self, store: Store) -> None:
        await show_customer(store, "cus_1", EMAIL)
        await show_order(store, "ord_1", customer=PERSON, customer_id="cus_1")
        await show_order(store, "ord_2", customer=PERSON, customer_id="cus_2")
        for name in ("cus_1", EMAIL, EMAIL.upper()):
            found = await trace(store, name)
            assert (found.customer_id, found.orders) == ("cus_1", ("ord_1",))
            assert len(found.documents) == 2
            assert found.erased_at == ""
        assert await store.erasure.find_customer("main", "cus_9", ()) is None
        assert await store.erasure.find_customer("other", "cus_1", ()) is None

    async def test_the_orders_of_a_customer_without_an_id_are_found_by_email(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1", customer=GUEST)
        await show_order(store, "ord_2", customer={**GUEST, "email": "b@b.example"})
        await show_order(store, "ord_3", customer=GUEST, name="other")
        found = await trace(store, EMAIL, EMAIL)
        assert found.orders == ("ord_1",)
        assert found.customer_id.startswith("guest-")

    @pytest.mark.parametrize("value", ['"zero \\u0000"', "1E400000"])
    async def test_a_strange_value_in_an_order_stops_no_query(
        self, value: str, store: Store
    ) -> None:
        for order, note in (("ord_1", value), ("ord_3", "null")):
            customer = order.replace("ord", "cus")
            named = f'{{"customer": {{"name": "Bela"}}, "note": {note}}}'.encode()
            await show_order(store, order, document=named, customer_id=customer)
        found = await store.erasure.nearest("main", "cus_2")
        assert found == {"cus_1": "Bela", "cus_3": "Bela"}

    async def test_events_with_the_email_are_found(self, store: Store) -> None:
        await arrive(store, ABOUT, name="other")
        assert await store.erasure.find_customer("main", EMAIL, [EMAIL]) is None
        await arrive(store, ABOUT)
        found = await trace(store, EMAIL, EMAIL)
        assert (found.customer_id, len(found.documents)) == ("cus_1", 1)

    async def test_near_names_are_suggested(self, store: Store) -> None:
        await show_customer(store, "cus_1", EMAIL)
        await show_customer(store, "cus_8", "b@b.example", "other")
        found = await store.erasure.nearest("main", "cus_2")
        assert list(found) == ["cus_1"]
        assert list(await store.erasure.nearest("main", "cu")) == ["cus_1"]
        near_email = await store.erasure.nearest("main", f"x{EMAIL}")
        assert near_email == {"cus_1": EMAIL}
        assert await store.erasure.nearest("main", "nobody") == {}

    async def test_an_erased_customer_is_known_to_the_fold(
        self, store: Store, clock: TestClock, open_store: OpenStore
    ) -> None:
        assert await is_erased(store, "main", "cus_1", None) == (False, False)
        await show_customer(store, "cus_1", EMAIL)
        found = await trace(store, "cus_1")
        await store.erasure.register("main", found, [DIGEST])
        assert (await trace(store, "cus_1")).erased_at == at(clock)
        again = await open_store()
        for customer, digest, expected in (
            ("cus_1", None, True),
            (None, DIGEST, True),
            ("cus_2", b"other", False),
        ):
            known = await is_erased(again, "main", customer, digest)
            assert known == (True, expected)
            for_reads = await again.mirror.is_erased("main", customer, digest)
            assert for_reads is expected
        assert await is_erased(again, "other", "cus_1", None) == (True, False)

    async def test_an_unfinished_erasure_is_known(
        self, store: Store, open_store: OpenStore
    ) -> None:
        assert not await store.erasure.begin("main", "cus_1")
        assert not await store.erasure.begin("other", "cus_1")
        again = await open_store()
        assert await again.erasure.begin("main", "cus_1")
        await again.erasure.finish("main", "cus_1")
        assert not await again.erasure.begin("main", "cus_1")
        assert await again.erasure.begin("other", "cus_1")

    async def test_documents_and_responses_are_redacted(self, store: Store) -> None:
        for name in ("main", "other"):
            await show_order(store, "ord_1", name=name, customer=PERSON)
        own = await sent(store, Cause.CONFIRMED, change={"response": ABOUT})
        other = await sent(
            store, Cause.CONFIRMED, change={"response": ABOUT}, name="other"
        )
        erase = (NameEraser(), describe)
        assert await store.erasure.redact("main", "order", ["ord_1"], *erase) == 1
        assert await store.erasure.redact("main", "order", ["ord_1"], *erase) == 0
        assert await store.erasure.redact("main", "order", ["ord_9"], *erase) == 0
        assert EMAIL not in await document(store, "main")
        assert EMAIL in await document(store, "other")
        for command, is_left in ((own, False), (other, True)):
            (attempt,) = (await detail(store, command.id)).attempts
            assert (EMAIL.encode() in (attempt.response or b"")) is is_left

    async def test_what_a_check_read_is_redacted(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_order(store, "ord_1", customer=PERSON)
        doubt = await uncertain(store)
        for body in (ABOUT.decode(), "nobody"):
            read = {"path": "/orders/ord_1", "body": body}
            check = Check(at(clock), "absent", "why", read)
            unknown = Transition((Cause.UNKNOWN,), "why")
            await store.uncertain.record_check(doubt, check, unknown)
        erase = (NameEraser(), describe)
        await store.erasure.redact("main", "order", ["ord_1"], *erase)
        first, second = (await detail(store, doubt.command.id)).looks
        assert EMAIL not in (first.read or "")
        assert json.loads(first.read or "")["path"] == "/orders/ord_1"
        assert json.loads(second.read or "")["body"] == "nobody"

    async def test_a_response_after_the_erasure_is_stored_without_the_customer(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_customer(store, "cus_1", EMAIL)
        await store.erasure.register("main", await trace(store, "cus_1"), [DIGEST])
        applied = Transition((Cause.CONFIRMED,), "sent")
        for target, customer, digest, expected in (
            ("ord_1", "cus_1", None, b"redacted"),
            ("ord_2", None, DIGEST, b"redacted"),
            ("ord_3", "cus_2", b"other", ABOUT),
        ):
            mentioned = MentionedCustomer(customer, digest, lambda: b"redacted")
            attempt = Attempt(at(clock), "confirmed", 200, "OK", ABOUT, mentioned)
            command = await sent(store, target=target)
            await store.commands.record_attempt(command, attempt, applied)
            (stored,) = (await detail(store, command.id)).attempts
            assert stored.response == expected

    async def test_a_redacted_customer_has_no_columns_left(self, store: Store) -> None:
        await show_customer(store, "cus_1", EMAIL)
        await show_customer(store, "cus_2", "b@b.example")
        await store.erasure.redact(
            "main", "customer", ["cus_1"], NameEraser(), describe
        )
        assert await store.erasure.find_customer("main", EMAIL, ()) is None
        found = await store.read(
            lambda reader: reader.object("customer", "main", "cus_1")
        )
        assert found is not None
        assert EMAIL not in repr(found)
        assert (await trace(store, "b@b.example")).customer_id == "cus_2"

    async def test_events_are_redacted_in_slices(
        self, store: Store, clock: TestClock
    ) -> None:
        about = [await arrive(store, ABOUT) for _ in range(3)]
        other = await arrive(store, ABOUT, name="other")
        plain = await arrive(store, b"{}")
        assert await redact_rows(store, "inbox", 0.0) == 3
        assert await redact_rows(store, "inbox") == 0
        for event in about:
            shown = await event_detail(store, event)
            assert EMAIL.encode() not in shown.body
            assert (shown.erased_at, shown.erased_by) == (at(clock), "forget")
        for event in (other, plain):
            shown = await event_detail(store, event)
            assert shown.erased_at is None

    async def test_a_redacted_event_has_no_digest_of_its_old_body(
        self, store: Store
    ) -> None:
        """Otherwise the fold would take the new body for damaged."""
        await arrive(store, ABOUT)
        await arrive(store, b"{}")
        assert await redact_rows(store, "inbox") == 1
        seen: list[StoredEvent] = []

        def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
            seen.append(event)
            return Folded("folded", event.topic)

        await fold_with(store, fold)
        assert [event.digest is None for event in seen] == [True, False]

    async def test_records_and_the_quarantine_are_redacted(self, store: Store) -> None:
        raw = f"a;{EMAIL}"
        for instance, name in (("courier", "main"), ("books", "other")):
            rows = [
                NewRecord("waits", json.dumps(PERSON).encode(), raw, "", ""),
                NewRecord("bad", None, raw, f"no order {EMAIL}", ""),
            ]
            await store.records.accept(
                instance, name, rows, None, lambda *_: Unmatched("", final=False)
            )
        assert await redact_rows(store, "records") == 2
        assert await redact_rows(store, "quarantine") == 1
        shown = {}
        for row in await store.read(lambda reader: reader.quarantine(9)):
            found = await quarantined(store, row.id)
            shown[row.name] = EMAIL in f"{found.raw!r} {found.reason}"
        assert shown == {"courier": False, "books": True}

    async def test_answers_of_the_back_office_are_redacted(self, store: Store) -> None:
        await store.deliveries.subscribe(NOW)
        await show_order(store, "ord_1")
        delivery = await claim(store)
        outcome = DeliveryOutcome(cause=Cause.REFUSED, reason=f"{EMAIL} is unknown")
        await store.deliveries.record_outcome("books", delivery, outcome)
        assert await redact_rows(store, "deliveries") == 1
        assert await redact_rows(store, "delivery_attempts") == 1
        found = await store.read(lambda reader: reader.delivery(delivery.seq))
        assert found is not None
        assert found.row.reason == " is unknown"
        assert [each.reason for each in found.attempts] == [" is unknown"]

    async def test_a_saved_view_that_names_the_customer_is_deleted(
        self, store: Store
    ) -> None:
        for name, filter_ in (("asha", EMAIL), ("parked", "state=parked")):
            view = NewView("commands", name, filter_, "usual")
            await store.users.save_view("ann", view)
        assert await redact_rows(store, "saved_views") == 1
        views = await store.read(lambda reader: reader.saved_views("ann", "commands"))
        assert [view.name for view in views] == ["parked"]

    async def test_an_erasure_has_an_audit_entry(self, store: Store) -> None:
        await store.erasure.audit("ann", "forget", "cus_1")
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == ("ann", "forget", "cus_1")

    async def test_what_was_replaced_is_nowhere_in_the_files(
        self, store: Store
    ) -> None:
        await store.kv.put("word", "quincunx")
        await store.erasure.empty_log()
        assert await store.erasure.holds(["Quincunx"])
        await store.kv.put("word", "")
        await store.erasure.rewrite()
        await store.erasure.empty_log()
        assert not await store.erasure.holds(["quincunx"])
        assert await store.kv.get("word") == ""
        assert await store.erasure.file_bytes() > 0


async def document(store: Store, name: str) -> str:
    """Return what operators see of `ord_1`."""
    found = await store.read(lambda reader: reader.object("order", name, "ord_1"))
    assert found is not None
    return repr(found)


async def is_erased(
    store: Store, name: str, customer: str | None, digest: bytes | None
) -> tuple[bool, bool]:
    """Return whether the fold knows any erased customer, and this one."""
    seen: list[tuple[bool, bool]] = []

    def fold(event: StoredEvent, mirror: MirrorWriter) -> Folded:
        is_this = mirror.is_erased(name, customer, digest)
        seen.append((mirror.has_erased_customers(), is_this))
        return Folded("folded", "")

    await arrive(store, b"{}", name)
    await fold_with(store, fold)
    return seen[-1]
