"""Passes over lists with unreliable totals or page links."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest
from msgspec.structs import replace

from backhaul.sync.list_pass import MOST_STALE_PAGES, ListPage, ListPass
from backhaul.sync.resource_types import ListRow
from scenes import payloads
from scenes.scripted_platform import Connection, Request, document
from scenes.stored import values_of
from sync.conftest import reconciling
from sync.test_list_pass import List, ids, list_pass

if TYPE_CHECKING:
    from sync.conftest import Place


class OnlyTotals(List):
    """A list that shows its total, but not whether more pages follow."""

    async def fetch(self, number: int) -> ListPage:
        return replace(await List.fetch(self, number), has_more=None)


@pytest.mark.parametrize("seed", range(40))
async def test_deletions_and_new_rows_hide_no_row(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeats
    kinds = ["new", "gone", "gone", ""]
    moves = [(chance.choice(kinds), chance.randrange(700)) for _ in range(13)]
    moving = OnlyTotals(list(range(700, 0, -1)), moves=moves)
    before = set(moving.rows)
    found = await ids(list_pass(moving))
    assert before & set(moving.rows) <= set(found), f"seed {seed}"


@dataclass(slots=True)
class Products:
    """Pages of 20 of 200 products; after page 2 a product of page 8 is deleted."""

    listed: list[dict[str, Any]] = field(
        default_factory=lambda: [
            payloads.product(f"prod_{n}", n, variants=[payloads.variant(f"var_{n}")])
            for n in range(200, 0, -1)
        ]
    )

    async def __call__(self, request: Request, connection: Connection) -> None:
        page = int(parse_qs(request.query)["page"][0])
        shown = self.listed[20 * (page - 1) : 20 * page]
        meta = {"page": page, "total": len(self.listed)}
        await connection.send(document({"data": shown, "meta": meta}))
        if page == 2 and len(self.listed) == 200:
            self.listed.pop(150)


@pytest.mark.parametrize("job", ["backfill", "full"])
async def test_a_deletion_on_a_later_page_ends_no_full_sync(
    place: Place, job: str
) -> None:
    products = Products()
    place.platform.respond("/products", products)
    async with reconciling(place) as reconciler:
        await reconciler.read_lists(job, ["products"])
        await reconciler.repair.caught_up()
    held = set(values_of(place.store.place, "products", "id", deleted_at=None))
    assert {row["id"] for row in products.listed} <= held


@pytest.mark.parametrize("has_more", [True, False], ids=["more", "no-more"])
async def test_totals_that_count_the_page_are_borne(has_more: bool) -> None:
    """Totals of 100, 100 and 37 look as if rows were deleted."""
    asked = []

    async def fetch(number: int) -> ListPage:
        asked.append(number)
        assert len(asked) < 100, asked[:12]
        shown = range(237)[(number - 1) * 100 : number * 100]
        found = tuple(ListRow(str(id_), "", b"") for id_ in shown)
        more = number < 3 if has_more else None
        return ListPage(number, found, len(found), "", len(found), more)

    assert set(await ids(ListPass(fetch, True, lambda: None))) == set(range(237))


@pytest.mark.parametrize("deletable", [True, False])
@pytest.mark.parametrize("total", [None, 5_000])
async def test_a_page_that_comes_again_for_ever_ends(
    total: int | None, deletable: bool
) -> None:
    """The list ignores the page number, and always reports that more pages follow."""
    asked = []

    async def fetch(number: int) -> ListPage:
        asked.append(number)
        assert len(asked) < 3 * MOST_STALE_PAGES
        found = tuple(ListRow(str(id_), "", b"") for id_ in range(100))
        return ListPage(number, found, 100, "", total, True)

    pages: list[None] = []
    found = await ids(ListPass(fetch, deletable, lambda: pages.append(None)))
    assert set(found) == set(range(100))
    assert pages
