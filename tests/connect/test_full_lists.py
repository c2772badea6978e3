"""Articles that a full stock list omits are set to 0, or left to an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.connect.record_matching import Matcher
from backhaul_sdk import FullList, StockLevel
from scenes import payloads
from scenes.back_office import ScriptedConnector, host_of
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, stock_targets, value_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock

ARTICLES = tuple(f"A{number}" for number in range(20))


class Lists:
    """Submits whole lists as a connector does: the counts, then the end."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.store, self.clock = store, clock
        self._host = host_of(
            ScriptedConnector("desk"), store, clock=clock, wait_seconds=600
        )

    async def sell(self, *skus: str) -> None:
        for number, sku in enumerate(skus):
            variant = payloads.variant(f"v_{sku}", sku=sku, stock=5)
            product = payloads.product(f"p_{number}_{sku}", variants=[variant])
            await append_and_fold(self.store, envelope("products/create", product))

    async def submit(
        self, second: int, *skus: str, end: bool = True, limit: float = 0.1
    ) -> str:
        """Submit a list that was written at this time; return the result of its end."""
        at = payloads.instant(second)
        for sku in skus:
            level = StockLevel(
                key=f"{second}:{sku}",
                sku=sku,
                quantity=5,
                as_of=at,
                listed_at=at,
                full_list=True,
            )
            await self._host.emit(level)
        whole = FullList(
            key=f"list:{second}", listed_at=at, rows=len(skus), absent_limit=limit
        )
        return (await self._host.emit(whole)).state if end else ""

    def zeros(self) -> list[str]:
        planned = stock_targets(self.store.place, "planned")
        return sorted(each.sku or "" for each in planned if each.quantity == 0)

    async def decide(self, verb: str) -> None:
        row = value_of(self.store.place, "quarantine", "id")
        if verb == "retry":
            await self.store.quarantine.retry(row, None, "ann", "sold out")
        else:
            await self.store.quarantine.discard(row, "ann", "a broken export")
        await self.clock.advance(2)
        await self.store.records.match(Matcher(self.clock, 600), 100)


@pytest.fixture
async def lists(store: Store, clock: VirtualClock) -> Lists:
    made = Lists(store, clock)
    await made.sell(*ARTICLES)
    return made


async def test_an_article_that_a_list_leaves_out_is_set_to_zero(lists: Lists) -> None:
    assert await lists.submit(1, *ARTICLES) == "accepted"
    assert lists.zeros() == []
    assert await lists.submit(2, *ARTICLES[2:]) == "accepted"
    assert lists.zeros() == ["A0", "A1"]


async def test_only_articles_of_an_earlier_list_are_covered(lists: Lists) -> None:
    assert await lists.submit(1, *ARTICLES[:10]) == "accepted"
    assert await lists.submit(2, *ARTICLES[:10]) == "accepted"
    assert lists.zeros() == []


async def test_without_its_end_a_list_leaves_nothing_out(lists: Lists) -> None:
    await lists.submit(1, *ARTICLES)
    await lists.submit(2, *ARTICLES[2:], end=False)
    assert lists.zeros() == []


@pytest.mark.parametrize("skus", [ARTICLES[3:], ()])
async def test_too_much_waits_for_an_operator(
    lists: Lists, skus: tuple[str, ...]
) -> None:
    await lists.submit(1, *ARTICLES)
    assert await lists.submit(2, *skus) == "quarantined"
    assert lists.zeros() == []
    ((raw, reason),) = rows_of(lists.store.place, "quarantine", "raw", "reason")
    assert raw.splitlines()[:3] == ["sku,stock,new stock", "A0,5,0", "A1,5,0"]
    assert len(raw.splitlines()) == 1 + 20 - len(skus)
    assert f"leaves out {20 - len(skus)} of the 20 SKUs" in reason
    # the repetition of a list is no decision
    assert await lists.submit(2, *skus) == "quarantined"
    assert lists.zeros() == []
    await lists.decide("retry")
    assert lists.zeros() == sorted(set(ARTICLES) - set(skus))


async def test_articles_of_a_discarded_list_keep_their_stock(
    lists: Lists,
) -> None:
    await lists.submit(1, *ARTICLES)
    await lists.submit(2)
    await lists.decide("discard")
    assert lists.zeros() == []


async def test_a_held_list_does_not_undo_a_newer_one(lists: Lists) -> None:
    await lists.submit(1, *ARTICLES)
    await lists.submit(2)
    await lists.submit(3, *ARTICLES[1:])
    assert lists.zeros() == ["A0"]
    await lists.decide("retry")
    assert lists.zeros() == ["A0"]


async def test_an_article_under_a_name_that_is_not_known_is_not_absent(
    lists: Lists,
) -> None:
    await lists.submit(1, *ARTICLES)
    renamed = payloads.product(
        "p_0_A0", 1, variants=[payloads.variant("v_A0", sku="NEW", stock=5)]
    )
    await append_and_fold(lists.store, envelope("products/update", renamed))
    assert await lists.submit(2, *ARTICLES) == "accepted"
    assert lists.zeros() == []


async def test_an_article_already_at_zero_counts_for_no_limit(lists: Lists) -> None:
    await lists.submit(1, *ARTICLES)
    for number, sku in enumerate(ARTICLES[:10]):
        variant = payloads.variant(f"v_{sku}", sku=sku, stock=0)
        product = payloads.product(f"p_{number}_{sku}", 1, variants=[variant])
        await append_and_fold(lists.store, envelope("products/update", product))
    assert await lists.submit(2, *ARTICLES[10:]) == "accepted"
    assert lists.zeros() == []


async def test_the_limit_is_that_of_the_settings(lists: Lists) -> None:
    await lists.submit(1, *ARTICLES)
    assert await lists.submit(2, *ARTICLES[10:], limit=0.5) == "accepted"
    assert len(lists.zeros()) == 10


@pytest.mark.parametrize("sku", ["a3", "A 3", "\uff213", "\ufeffA3 ", "00A3"])
async def test_an_article_that_a_list_names_in_another_spelling_keeps_its_stock(
    lists: Lists, sku: str
) -> None:
    """The row waits, and names the near match."""
    await lists.submit(1, *ARTICLES)
    others = [each for each in ARTICLES if each != "A3"]
    assert await lists.submit(2, sku, *others) == "accepted"
    assert lists.zeros() == []


async def test_an_unknown_article_in_a_list_keeps_no_other_from_zero(
    lists: Lists,
) -> None:
    await lists.submit(1, *ARTICLES)
    await lists.submit(2, "new", *ARTICLES[1:])
    assert lists.zeros() == ["A0"]
