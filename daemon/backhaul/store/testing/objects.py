"""Tests of how operators find an object by a name, and what they see of it."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.resources import Deletion, Item, Product, Variant
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.read_models import SearchText
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.testing.command_scenes import at
from backhaul.store.testing.event_scenes import NOON, fold_with
from backhaul.store.testing.mirror_scenes import (
    find_objects,
    order,
    show,
    show_customer,
    show_level,
    show_order,
    version,
)
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.read_records import FoundObject
    from backhaul.store.testing.scenes import TestClock

EMAIL = "asha@example.com"
PERSON = {"id": "cus_1", "name": "Asha", "email": EMAIL}
NEVER_MIRRORED = "4711"


async def found_ids(store: Store, kind: str, name: str) -> list[str]:
    """Return the ids of the objects that a typed name may mean."""
    return sorted(found.id for found in await find_objects(store, kind, name))


async def searched_in(store: Store, kind: str) -> str:
    """Return a text of what a search covers."""
    return await store.read(lambda reader: reader.searched_in(kind))


async def shown(
    store: Store, kind: str, id_: str, name: str = "main"
) -> FoundObject | None:
    """Return an object by its key."""
    return await store.read(lambda reader: reader.object(kind, name, id_))


async def show_catalogue(
    store: Store,
    id_: str,
    *variants: Variant,
    second: int = 0,
    external_id: str | None = None,
    name: str = "main",
) -> None:
    """Let an event show a product with these variants."""
    document = json.dumps({"id": id_, "at": second}).encode()
    seen = version(second, document)
    handle = f"handle-{id_}"
    product = Product(
        id_,
        handle,
        f"Title of {id_}",
        "active",
        external_id,
        seen.updated_at,
        variants,
        (),
        document,
    )

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_product(name, product, "INR", seen)
        mirror.add_change(name, "product", id_, "updated", event)

    await show(store, "product", id_, write, name=name)


async def show_unnamed(store: Store, id_: str, number: int | None) -> None:
    """Let an event show an order without a name."""
    unnamed = replace(order(id_), name=None, number=number)

    def write(mirror: MirrorWriter, event: int) -> None:
        mirror.put_order("main", unnamed, version(0, b""))

    await show(store, "order", id_, write)


def variant(id_: str, sku: str | None, title: str | None = "small") -> Variant:
    """Return a variant."""
    return Variant(id_, sku, f"bar-{id_}", title, 100)


def describe(_: str, document: str) -> SearchText:
    """Return the e-mail of a document's customer."""
    customer = json.loads(document).get("customer") or {}
    return SearchText("", customer.get("email") or "")


class ObjectsConformance(StoreConformance):
    """Tests of `Reader.find_objects`, and of objects by their key."""

    async def test_an_order_is_found_by_each_of_its_names(self, store: Store) -> None:
        await show_order(store, "ord_1", external_id="POS-1", status="PAID")
        await show_order(store, "ord_2")
        for name in ("1001", "#1001", "ord_1", "POS-1"):
            assert await found_ids(store, "order", name) == ["ord_1"]
        for name in ("100", "1001x", "pos-1", "%", "ord_", "9" * 30, "", "#"):
            assert await found_ids(store, "order", name) == []
        (found,) = await find_objects(store, "order", "1001")
        assert (found.name, found.store) == ("#1001", "main")
        assert found.facts == {
            "status": "PAID",
            "financial_status": "PENDING",
            "fulfillment_status": "UNFULFILLED",
            "awaiting_confirmation": 0,
            "updated_at": NOON,
        }

    async def test_all_orders_that_a_name_may_mean_are_found(
        self, store: Store
    ) -> None:
        await show_order(store, "ord_1")
        await show_order(store, "ord_2", external_id="1001")
        await show_order(store, "ord_3", name="other", number=None, external_id=None)
        await show_order(store, "ord_1", name="third")
        found = [
            (each.store, each.id) for each in await find_objects(store, "order", "1001")
        ]
        expected = [("main", "ord_1"), ("main", "ord_2"), ("third", "ord_1")]
        assert sorted(found) == expected

    async def test_an_order_is_shown_by_its_key(self, store: Store) -> None:
        items = (
            Item("li_1", "prod_1", "var_1", "SKU-1", "Lamp", 2, 1, 50),
            Item("li_2", None, None, None, "Gift", 1, 0, None),
        )
        await show_order(store, "ord_1", 5, items=items, customer_id="cus_1")
        found = await shown(store, "order", "ord_1")
        assert found is not None
        assert (found.name, found.facts["currency"]) == ("#1001", "INR")
        assert (found.facts["total_minor"], found.facts["placed_at"]) == (100, NOON)
        assert found.facts["customer_id"] == "cus_1"
        assert json.loads(found.facts["document"])["id"] == "ord_1"
        assert await shown(store, "order", "ord_1", "other") is None
        lines = await store.read(lambda reader: reader.order_lines("main", "ord_1"))
        assert [(line.sku, line.title, line.quantity) for line in lines] == [
            ("SKU-1", "Lamp", 2),
            (None, "Gift", 1),
        ]
        assert [line.fulfilled_quantity for line in lines] == [1, 0]
        assert (lines[0].product_id, lines[0].variant_id) == ("prod_1", "var_1")
        assert await store.read(lambda r: r.order_lines("other", "ord_1")) == []

    async def test_a_product_is_found_by_id_handle_and_external_id(
        self, store: Store
    ) -> None:
        await show_catalogue(store, "prod_1", external_id="POS-1")
        await show_catalogue(store, "prod_2")
        for name in ("prod_1", "handle-prod_1", "POS-1"):
            (found,) = await find_objects(store, "product", name)
            assert (found.id, found.name) == ("prod_1", "Title of prod_1")
            assert found.facts["deleted_at"] is None
        assert await find_objects(store, "product", "prod_9") == []

    async def test_a_deleted_product_is_found_with_its_time(self, store: Store) -> None:
        await show_catalogue(store, "prod_1", variant("var_1", "A"))
        gone = version(9, b"gone")
        deletion = Deletion("prod_1", gone.updated_at, "handle-prod_1", "Lamp")
        await show(
            store,
            "product",
            "prod_1",
            lambda mirror, _: mirror.delete_product("main", deletion, gone),
        )
        (found,) = await find_objects(store, "product", "handle-prod_1")
        assert found.facts["deleted_at"] == gone.updated_at
        assert await find_objects(store, "sku", "A") == []

    async def test_a_variant_is_found_by_its_sku_or_id(self, store: Store) -> None:
        await show_catalogue(
            store, "prod_1", variant("var_1", "A"), variant("var_2", "B", None)
        )
        await show_level(store, 7, 5)
        for name in ("A", "var_1"):
            (found,) = await find_objects(store, "sku", name)
            assert (found.id, found.name) == ("var_1", "Title of prod_1 / small")
            assert found.facts == {
                "sku": "A",
                "stock": 7,
                "updated_at": version(5, b"").updated_at,
                "product_id": "prod_1",
            }
        (found,) = await find_objects(store, "sku", "B")
        assert found.facts["stock"] is None
        assert await find_objects(store, "sku", "a") == []

    async def test_two_variants_of_one_sku_are_both_found(self, store: Store) -> None:
        await show_catalogue(store, "prod_1", variant("var_1", "A"))
        await show_catalogue(store, "prod_2", variant("var_2", "A"))
        assert await found_ids(store, "sku", "A") == ["var_1", "var_2"]

    async def test_a_variant_that_moved_is_found_at_its_new_product(
        self, store: Store
    ) -> None:
        await show_catalogue(store, "prod_1", variant("var_1", "A"))
        await show_catalogue(store, "prod_2", variant("var_1", "A"), second=5)
        (found,) = await find_objects(store, "sku", "A")
        assert found.facts["product_id"] == "prod_2"
        by_key = await shown(store, "sku", "var_1")
        assert by_key is not None
        assert by_key.facts["product_id"] == "prod_2"

    async def test_a_product_has_its_variants_with_their_stock(
        self, store: Store
    ) -> None:
        await show_catalogue(
            store, "prod_1", variant("var_1", "A"), variant("var_2", "B")
        )
        await show_catalogue(store, "prod_2", variant("var_3", "C"))
        await show_level(store, 7)
        await show_level(store, 9, name="other")
        rows = await store.read(lambda reader: reader.variants("main", "prod_1"))
        assert [(row.id, row.sku, row.barcode, row.stock) for row in rows] == [
            ("var_1", "A", "bar-var_1", 7),
            ("var_2", "B", "bar-var_2", None),
        ]

    async def test_a_customer_is_found_by_id_or_email(self, store: Store) -> None:
        await show_customer(store, "cus_1", EMAIL)
        await show_customer(store, "cus_2", "b@b.example")
        await show_order(store, "ord_1", customer_id="cus_1")
        await show_order(store, "ord_2", customer_id="cus_1", name="other")
        for name in ("cus_1", EMAIL, EMAIL.upper()):
            (found,) = (
                each
                for each in await find_objects(store, "customer", name)
                if each.store == "main"
            )
            assert (found.id, found.name) == ("cus_1", "Asha")
            assert (found.facts["email"], found.facts["orders"]) == (EMAIL, 1)
            assert found.facts["forgotten_at"] is None
        assert await find_objects(store, "customer", "example.com") == []

    async def test_an_erased_customer_is_found_with_the_time(
        self, store: Store, clock: TestClock
    ) -> None:
        await show_customer(store, "cus_1", EMAIL)
        trace = await store.erasure.find_customer("main", "cus_1", ())
        assert trace is not None
        await store.erasure.register("main", trace, [])
        (found,) = await find_objects(store, "customer", "cus_1")
        assert found.facts["forgotten_at"] == at(clock)

    async def test_a_customer_that_only_orders_name_is_found(
        self, store: Store
    ) -> None:
        for number in (1, 2):
            await show_order(
                store, f"ord_{number}", number, customer=PERSON, customer_id="cus_1"
            )
        (found,) = await find_objects(store, "customer", "cus_1")
        assert (found.id, found.name) == ("cus_1", "Asha")
        assert (found.facts["email"], found.facts["orders"]) == (EMAIL, 2)
        assert found.facts["updated_at"] == version(2, b"").updated_at

    async def test_a_customer_without_an_account_is_found_by_the_email_of_an_order(
        self, store: Store
    ) -> None:
        """The index finds the words of the e-mail in `x.asha@example.com` too."""
        for number, email in ((1, EMAIL), (2, f"x.{EMAIL}"), (3, f"y.{EMAIL}")):
            id_ = f"cus_{number}"
            person = {"id": id_, "name": "Guest", "email": email}
            await show_order(
                store, f"ord_{number}", customer=person, customer_id=id_, number=None
            )
        while (await store.search.follow(describe, 1.0)).more:
            pass
        assert await found_ids(store, "customer", EMAIL.upper()) == ["cus_1"]
        assert await found_ids(store, "customer", "example.com") == []

    @pytest.mark.parametrize("state", ["quarantined", "unhandled"])
    async def test_an_order_that_only_an_unusable_event_names_is_found(
        self, state: str, store: Store
    ) -> None:
        body = json.dumps({"data": {"id": "ord_9", "number": 1009}}).encode()
        event = await store.inbox.append(
            Arrival("main", "delivery", "orders/updated", NOON, b"{}", body)
        )
        folded = Folded(state, "orders/updated", None, "order", "ord_9", "why")
        await fold_with(store, lambda *_: folded)
        for name in ("1009", "#1009", "ord_9"):
            (found,) = await find_objects(store, "order", name)
            assert (found.id, found.store, found.name) == ("ord_9", "main", "#1009")
            assert found.facts["mirrored"].startswith(f"no: event {event}")
        assert await find_objects(store, "product", "ord_9") == []
        await show_order(store, "ord_9", document=b"{}")
        (found,) = await find_objects(store, "order", "ord_9")
        assert "mirrored" not in found.facts

    @pytest.mark.parametrize("is_final", [False, True])
    async def test_an_order_that_only_a_record_names_is_found(
        self, is_final: bool, store: Store
    ) -> None:
        record = {"order": NEVER_MIRRORED, "tracking_number": "BD1"}
        payload = json.dumps({"kind": "fulfill", "record": record}).encode()
        row = NewRecord("key", payload, "raw", "", "file:1")
        await store.records.accept(
            "courier", "main", [row], None, lambda *_: Unmatched("no", final=is_final)
        )
        for name in (NEVER_MIRRORED, f"#{NEVER_MIRRORED}"):
            (found,) = await find_objects(store, "order", name)
            assert found.store == "main"
            assert "connector courier" in found.facts["mirrored"]
        assert await find_objects(store, "product", NEVER_MIRRORED) == []

    async def test_the_rows_that_a_search_covers_are_counted(
        self, store: Store
    ) -> None:
        await show_catalogue(
            store, "prod_1", variant("var_1", "A"), variant("var_2", "B")
        )
        for id_ in ("ord_1", "ord_2", "ord_3"):
            await show_order(store, id_)
        await show_customer(store, "cus_1", EMAIL)
        for kind, texts in (
            ("order", ["3 orders"]),
            ("product", ["1 products"]),
            ("sku", ["2 variants"]),
            ("customer", ["1 customers", "3 orders"]),
        ):
            says = await searched_in(store, kind)
            assert all(text in says for text in texts), says

    async def test_a_product_and_a_customer_are_shown_by_their_key(
        self, store: Store
    ) -> None:
        await show_catalogue(store, "prod_1", variant("var_1", "A"), external_id="X")
        await show_customer(store, "cus_1", EMAIL)
        product = await shown(store, "product", "prod_1")
        customer = await shown(store, "customer", "cus_1")
        variant_ = await shown(store, "sku", "var_1")
        assert product is not None
        assert customer is not None
        assert variant_ is not None
        assert (product.name, product.facts["handle"]) == (
            "Title of prod_1",
            "handle-prod_1",
        )
        assert (product.facts["external_id"], product.facts["status"]) == (
            "X",
            "active",
        )
        assert json.loads(product.facts["document"])["id"] == "prod_1"
        assert (customer.name, customer.facts["email"]) == ("Asha", EMAIL)
        assert json.loads(customer.facts["document"])["id"] == "cus_1"
        assert variant_.name == "Title of prod_1 / small"
        assert (variant_.facts["sku"], variant_.facts["barcode"]) == ("A", "bar-var_1")
        for kind in ("product", "customer", "sku", "order"):
            assert await shown(store, kind, "none") is None

    async def test_an_order_without_a_name_has_its_number_or_id(
        self, store: Store
    ) -> None:
        for id_, number, expected in (("ord_1", 7, "7"), ("ord_2", None, "ord_2")):
            await show_unnamed(store, id_, number)
            (found,) = await find_objects(store, "order", id_)
            assert found.name == expected
