"""Tests of the search: how texts are found and ranked, and how the index follows."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from backhaul.core.resources import Customer, Product
from backhaul.store.inbox import Arrival, Folded
from backhaul.store.read_models import IndexProgress, SearchText
from backhaul.store.read_records import RANKED
from backhaul.store.testing.event_scenes import NOON, fold_with
from backhaul.store.testing.mirror_scenes import order, show, show_gone, version
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.store import Store
    from backhaul.store.inbox import MirrorWriter
    from backhaul.store.read_records import SearchHit
    from backhaul.store.testing.scenes import OpenStore

WORDS = (
    "#1001\nJoão Ávila\n12 MG Road\nPune\n411001\njoao@pune.example\n"
    "BLUEDART-77\nLS-S\nLinen shirt"
)
FINDS = [
    *("#1001", "1001", "joao", "JOÃO", "ávila", "AVILA", "mg road", "road mg"),
    *("pune 411001", "bluedart-77", "BlueDart", "ls-s", "joao@pune.example"),
    *("linen joao bluedart", "shirt", "  joao\tavila "),
]
FINDS_BY_BEGINNING = ["100", "bluedar", "411", "li shi", "jo av pu", "LS"]
FINDS_NOTHING = ["asha", "1002", "joao mumbai", "ohn", "inen", "ord_1", "", " \t", "-"]
NO_SYNTAX = [
    *('"', 'jo"ao', "joao OR asha", "NOT joao", "NEAR(joao asha)", "joao* -asha"),
    *("title:joao", "joao & asha", "joao | asha", "'", "(", "%", "_", "\\", "\0", "^"),
]
KINDS = {"ord": "order", "pro": "product", "cus": "customer"}
"""The kinds of objects, by the beginning of their ids."""


def describe(_: str, document: str) -> SearchText:
    """Return the title and the words that a document names."""
    found = json.loads(document)
    return SearchText(found["title"], found["words"])


async def learn(
    store: Store,
    id_: str,
    words: str,
    *,
    title: str = "",
    second: int = 0,
    name: str = "main",
) -> None:
    """Let an event show an object with these words, of the kind that its id names."""
    kind = KINDS[id_[:3]]
    document = json.dumps({"title": title, "words": words}).encode()
    seen = version(second, document)

    def write(mirror: MirrorWriter, event: int) -> None:
        if kind == "order":
            mirror.put_order(name, replace(order(id_), document=document), seen)
        elif kind == "product":
            empty = Product(id_, None, "", "active", None, NOON, (), (), document)
            mirror.put_product(name, empty, "INR", seen)
        else:
            customer = Customer(id_, None, None, None, NOON, document)
            mirror.put_customer(name, customer, seen)
        mirror.add_change(name, kind, id_, "updated", event)

    await show(store, kind, id_, write, name=name)


async def learn_orders(store: Store, ids: Sequence[str], words: str) -> None:
    """Let one event show all these orders with these words."""
    document = json.dumps({"title": "", "words": words}).encode()

    def write(mirror: MirrorWriter, event: int) -> None:
        for id_ in ids:
            shown = replace(order(id_), document=document)
            mirror.put_order("main", shown, version(0, document))
            mirror.add_change("main", "order", id_, "updated", event)

    await show(store, "order", ids[0], write)


async def index(store: Store) -> None:
    """Index all changes."""
    while (await store.search.follow(describe, 1.0)).more:
        pass


async def search(
    store: Store, text: str, kind: str | None = None, limit: int = 9, skip: int = 0
) -> list[SearchHit]:
    """Search as operators do."""
    return await store.read(lambda reader: reader.search(text, kind, limit, skip))


async def found(
    store: Store, text: str, kind: str | None = None, limit: int = 9, skip: int = 0
) -> list[str]:
    """Return the ids of the objects that a search finds, the best first."""
    return [hit.id for hit in await search(store, text, kind, limit, skip)]


async def unindexed(store: Store) -> int:
    """Return how many changes the index lacks."""
    return await store.read(lambda reader: reader.unindexed())


class SearchConformance(StoreConformance):
    """Tests of `Reader.search`."""

    async def test_an_object_is_found_by_any_of_its_words(self, store: Store) -> None:
        await learn(store, "ord_1", WORDS, title="#1001")
        await learn(store, "ord_2", "somebody else", title="#77")
        await index(store)
        for text in (*FINDS, *FINDS_BY_BEGINNING):
            assert (text, await found(store, text)) == (text, ["ord_1"])
        for text in FINDS_NOTHING:
            assert (text, await found(store, text)) == (text, [])

    async def test_no_text_is_a_mistake(self, store: Store) -> None:
        await learn(store, "ord_1", "joao")
        await learn(store, "ord_2", "asha")
        await index(store)
        for text in NO_SYNTAX:
            assert len(await found(store, text)) < 2, text

    async def test_beginnings_count_only_if_nothing_has_the_whole_words(
        self, store: Store
    ) -> None:
        await learn(store, "ord_1", "linens")
        await index(store)
        assert await found(store, "linen") == ["ord_1"]
        await learn(store, "ord_2", "linen")
        await index(store)
        assert await found(store, "linen") == ["ord_2"]

    async def test_a_word_of_the_title_ranks_before_other_words(
        self, store: Store
    ) -> None:
        for id_, title in (("ord_1", ""), ("ord_2", "Lamp"), ("ord_3", "")):
            await learn(store, id_, "a lamp of brass", title=title)
        await index(store)
        assert (await found(store, "lamp"))[0] == "ord_2"

    async def test_a_short_text_ranks_before_a_long_one(self, store: Store) -> None:
        await learn(store, "ord_1", f"lamp {'and more ' * 40}")
        await learn(store, "ord_2", "lamp")
        await learn(store, "ord_3", f"lamp {'and more ' * 20}")
        await index(store)
        assert await found(store, "lamp") == ["ord_2", "ord_3", "ord_1"]

    async def test_hits_are_read_page_by_page(self, store: Store) -> None:
        for number in range(1, 6):
            await learn(store, f"ord_{number}", f"lamp {'more ' * number}")
        await index(store)
        whole = await found(store, "lamp")
        assert sorted(whole) == [f"ord_{number}" for number in range(1, 6)]
        assert await found(store, "lamp", limit=2) == whole[:2]
        assert await found(store, "lamp", limit=2, skip=2) == whole[2:4]
        assert await found(store, "lamp", limit=2, skip=4) == whole[4:]
        assert await found(store, "lamp", skip=5) == []

    async def test_of_many_matches_the_titles_come_first_then_the_newest(
        self, store: Store
    ) -> None:
        """To rank a word that a million objects have would take seconds."""
        many = [f"ord_{n}" for n in range(10, 10 + RANKED)]
        await learn_orders(store, many, "lamp of brass")
        titles = {"ord_2": "Brass Lamps", "ord_3": "A lamp of brass", "prod_1": "Lamp"}
        for id_ in ("ord_2", "ord_3", "cus_1", "prod_1", "prod_2"):
            words = f"lamp of brass {'and more ' * 9}"
            await learn(store, id_, words, title=titles.get(id_, ""))
        await index(store)
        rest = ["prod_2", "cus_1", "ord_2", *reversed(many)]
        whole = ["prod_1", "ord_3", *rest]
        assert await found(store, "lamp", limit=2 * RANKED) == whole
        for limit in (1, 2, 3):
            steps = range(0, 6, limit)
            pages = [await found(store, "lamp", limit=limit, skip=n) for n in steps]
            assert [id_ for page in pages for id_ in page] == whole[:6]
        assert await found(store, "lamp", limit=3, skip=RANKED + 3) == whole[-2:]
        both = ["ord_3", "prod_2", "prod_1", "cus_1", "ord_2"]
        assert (await found(store, "brass lamp"))[:5] == both
        beginning = ["prod_1", "ord_3", "ord_2", "prod_2", "cus_1", many[-1]]
        assert (await found(store, "lam"))[:6] == beginning
        assert await found(store, "lamp", "product") == ["prod_1", "prod_2"]
        assert await found(store, "lamp", "customer") == ["cus_1"]

    async def test_kinds_are_searched_alone_or_together(self, store: Store) -> None:
        for id_ in ("ord_1", "prod_1", "cus_1"):
            await learn(store, id_, "lamp")
        await index(store)
        assert sorted(await found(store, "lamp")) == ["cus_1", "ord_1", "prod_1"]
        for kind, id_ in (("order", "ord_1"), ("product", "prod_1")):
            assert await found(store, "lamp", kind) == [id_]
            assert await found(store, "lam", kind) == [id_]
        (hit,) = await search(store, "lamp", "customer")
        assert (hit.kind, hit.store, hit.id) == ("customer", "main", "cus_1")

    async def test_the_same_id_in_two_stores_is_two_objects(self, store: Store) -> None:
        await learn(store, "ord_1", "lamp")
        await learn(store, "ord_1", "shade", name="other")
        await index(store)
        for text, name in (("lamp", "main"), ("shade", "other")):
            (hit,) = await search(store, text)
            assert (hit.store, hit.id) == (name, "ord_1")

    async def test_a_hit_shows_its_title_and_where_the_words_are(
        self, store: Store
    ) -> None:
        words = "\n".join([*(f"word{n}" for n in range(50)), "the brass lamp", "end"])
        await learn(store, "ord_1", words, title="#1001")
        await index(store)
        (hit,) = await search(store, "brass")
        assert hit.title == "#1001"
        assert "brass lamp" in hit.found
        assert "word1 " not in hit.found
        assert "\n" not in hit.found

    @pytest.mark.parametrize("state", ["quarantined", "unhandled"])
    async def test_an_object_that_only_an_unusable_event_names_is_found(
        self, state: str, store: Store
    ) -> None:
        body = json.dumps({"data": {"id": "ord_9", "name": "#1009"}}).encode()
        event = await store.inbox.append(
            Arrival("main", "delivery", "orders/updated", NOON, b"{}", body)
        )
        folded = Folded(state, "orders/updated", None, "order", "ord_9", "why")
        await fold_with(store, lambda *_: folded)
        for text in ("1009", "#1009", "ord_9"):
            (hit,) = await search(store, text)
            assert (hit.kind, hit.id, hit.title) == ("order", "ord_9", "#1009")
            assert f"event {event}" in hit.found
        assert await found(store, "1009", "product") == []
        assert await found(store, "1009", skip=1) == []
        await learn(store, "ord_1", "1009")
        await index(store)
        assert await found(store, "1009") == ["ord_1"]


class SearchIndexConformance(StoreConformance):
    """Tests of `Store.search`."""

    async def test_a_changed_object_is_found_as_it_is_now(self, store: Store) -> None:
        await learn(store, "prod_1", "linen", title="Shirt")
        await index(store)
        await learn(store, "prod_1", "silk", title="Scarf", second=1)
        assert await found(store, "linen") == ["prod_1"]
        await index(store)
        for text in ("linen", "shirt"):
            assert await found(store, text) == []
        for text in ("silk", "scarf"):
            assert await found(store, text) == ["prod_1"]

    @pytest.mark.parametrize("id_", ["ord_1", "prod_1"])
    async def test_a_deleted_object_is_not_found(self, id_: str, store: Store) -> None:
        for each in (id_, "ord_2"):
            await learn(store, each, "lamp")
        await index(store)
        await show_gone(store, KINDS[id_[:3]], id_)
        await index(store)
        assert await found(store, "lamp") == ["ord_2"]

    async def test_folding_writes_nothing_to_the_index(self, store: Store) -> None:
        for id_ in ("ord_1", "ord_2"):
            await learn(store, id_, "lamp")
        assert await found(store, "lamp") == []
        assert await unindexed(store) == 2
        await index(store)
        assert len(await found(store, "lamp")) == 2
        assert await unindexed(store) == 0

    async def test_each_slice_continues_after_the_last(self, store: Store) -> None:
        ids = ["ord_1", "ord_2", "ord_3"]
        for id_ in ids:
            await learn(store, id_, "lamp")
        for number in (1, 2, 3):
            step = await store.search.follow(describe, 0.0)
            assert step == IndexProgress(1, number < 3, False)
            assert sorted(await found(store, "lamp")) == ids[:number]
        assert await store.search.follow(describe, 0.0) == IndexProgress(
            0, False, False
        )

    async def test_a_slice_reports_that_events_wait(self, store: Store) -> None:
        await learn(store, "ord_1", "lamp")
        assert await store.search.follow(describe, 1.0) == IndexProgress(
            1, False, False
        )
        await store.inbox.append(Arrival("main", "delivery", "", NOON, b"{}", b"{}"))
        assert await store.search.follow(describe, 1.0) == IndexProgress(0, False, True)

    async def test_the_index_follows_more_changes_than_one_slice_reads(
        self, store: Store
    ) -> None:
        number = 70
        await learn_orders(store, [f"ord_{each}" for each in range(number)], "lamp")
        first = await store.search.follow(describe, 0.005)
        assert first.more
        await index(store)
        assert len(await found(store, "lamp", limit=99)) == number

    async def test_a_slice_that_fails_is_done_again(self, store: Store) -> None:
        await learn(store, "ord_1", "lamp")
        await learn(store, "ord_2", "lamp")

        def fail(kind: str, document: str) -> SearchText:
            described.append(document)
            if len(described) == 2:
                raise ZeroDivisionError
            return describe(kind, document)

        described: list[str] = []
        with pytest.raises(ZeroDivisionError):
            await store.search.follow(fail, 1.0)
        assert await found(store, "lamp") == []
        assert await unindexed(store) == 2
        await index(store)
        assert len(await found(store, "lamp")) == 2

    async def test_the_index_continues_after_a_start(
        self, store: Store, open_store: OpenStore
    ) -> None:
        await learn(store, "ord_1", "lamp")
        await index(store)
        again = await open_store()
        assert (await again.search.follow(describe, 1.0)).indexed == 0
        assert await found(again, "lamp") == ["ord_1"]

    async def test_a_rebuilt_index_is_the_same(self, store: Store) -> None:
        for id_, title in (("ord_1", ""), ("prod_1", "Lamp"), ("cus_1", "")):
            await learn(store, id_, "lamp of brass", title=title)
        await index(store)
        before = {hit.id: hit for hit in await search(store, "lamp")}
        await store.search.rebuild()
        assert await found(store, "lamp") == []
        assert await unindexed(store) == 3
        await index(store)
        assert {hit.id: hit for hit in await search(store, "lamp")} == before
        await learn(store, "ord_1", "shade", second=1)
        await index(store)
        assert sorted(await found(store, "lamp")) == ["cus_1", "prod_1"]
