"""Several rows of one SKU in a stock list are refused or added up, as configured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.file_drop.parsing import ArticleIndex
from backhaul_sdk import StockLevel
from connectors.dropping import Drop

if TYPE_CHECKING:
    from typing import Any

CASES = Path(__file__).parent / "cases"
LEVELS = "sku,quantity\n"
MORE = "".join(f"X{number},1\n" for number in range(8))


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


async def taken(drop: Drop, content: str | bytes, **options: Any) -> dict[str, int]:
    """Return what a list says in the end, by article."""
    drop.options |= options
    drop.put("stock-levels.csv", content)
    await drop.pull()
    found = [each for each in drop.records() if isinstance(each, StockLevel)]
    assert len(found) == len({each.sku for each in found})
    return {each.sku: each.quantity for each in found if each.sku[0] != "X"}


async def test_two_places_of_one_article_are_refused(drop: Drop) -> None:
    assert await taken(drop, (CASES / "05-two-locations.csv").read_bytes()) == {}
    assert len(drop.reasons()) == 2
    for reason in drop.reasons():
        assert reason.startswith("lines 2 and 3 count the same SKU")
        assert 'set same_sku = "sum"' in reason


async def test_two_places_of_one_article_are_added_up(drop: Drop) -> None:
    content = (CASES / "05-two-locations.csv").read_bytes()
    assert await taken(drop, content, same_sku="sum") == {"A3": 42}
    (level,) = drop.records()
    assert isinstance(level, StockLevel)
    assert level.note == "30 + 12 of lines 2 and 3 added up"
    assert drop.reasons() == []


@pytest.mark.parametrize("batch_rows", [1, 2, 500])
@pytest.mark.parametrize(
    ("rows", "refused", "summed"),
    [
        ("A,5\nA,5\n", {}, {"A": 10}),
        ("A,5\nB,1\na ,7\n", {"B": 1}, {"A": 12, "B": 1}),
        ("A,5\nB,1\nA,-2\n", {"B": 1}, {"A": 3, "B": 1}),
        ("A,-5\nA,2\n", {}, {"A": 0}),
        ("A,5\nA,2\nA,x\n", {}, {}),
        ("A,5\n\nA\nB,2\n", {"A": 5, "B": 2}, {"A": 5, "B": 2}),
    ],
)
async def test_rows_of_one_article_at_any_position(
    drop: Drop,
    batch_rows: int,
    rows: str,
    refused: dict[str, int],
    summed: dict[str, int],
) -> None:
    content = f"{LEVELS}{rows}{MORE}"
    options = {"max_bad_share": 1, "batch_rows": batch_rows}
    assert await taken(drop, content, **options) == refused
    again = Drop(drop.path)
    assert await taken(again, content, same_sku="sum", **options) == summed


async def test_a_list_of_one_article_at_two_times_is_no_contradiction(
    drop: Drop,
) -> None:
    rows = "A,5,2026-03-31T10:00\nA,7,2026-03-31T12:00\n"
    drop.put("stock-levels.csv", f"sku,quantity,as_of\n{rows}")
    await drop.pull()
    assert len(drop.records()) == 2


async def test_key_columns_do_not_make_one_article_two(drop: Drop) -> None:
    content = "sku,quantity,place\nA,5,main\nA,7,outlet\n"
    assert await taken(drop, content, key_columns=["place"]) == {}
    again = Drop(drop.path)
    options = {"key_columns": ["place"], "same_sku": "sum"}
    assert await taken(again, content, **options) == {"A": 12}


async def test_a_list_that_contradicts_itself_throughout_is_held(drop: Drop) -> None:
    rows = "".join(f"A{number},5\nA{number},6\n" for number in range(3))
    assert await taken(drop, LEVELS + rows) == {}
    (reason,) = drop.reasons()
    assert "6 of 6 rows cannot be used" in reason
    assert "lines 2 and 3 count the same SKU" in reason


@pytest.mark.parametrize(("below", "is_held"), [(1, False), (5, False), (6, True)])
async def test_a_list_that_is_mostly_below_zero_is_held(
    drop: Drop, below: int, is_held: bool
) -> None:
    rows = "".join(f"A{n},{-1 if n < below else 1}\n" for n in range(10))
    found = await taken(drop, LEVELS + rows)
    assert len(found) == (0 if is_held else 10)
    if is_held:
        (reason,) = drop.reasons()
        assert f"{below} of 10 rows are below 0" in reason


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=30))
def test_every_row_of_a_repeated_article_is_named(rows: list[tuple[int, int]]) -> None:
    articles = ArticleIndex(adds_up=False)
    for line, (article, number) in enumerate(rows, 2):
        articles.add(article, None if number == 9 else number, line)
    articles.finish()
    named = [article for article, _ in rows if article]
    expected = {
        line
        for line, (article, number) in enumerate(rows, 2)
        if named.count(article) > 1 and number != 9
    }
    assert {each.line for each in articles.refused()} == expected
