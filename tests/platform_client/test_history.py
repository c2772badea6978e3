"""The platform's stock history is read while it grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs

import pytest

from backhaul.platform import history
from backhaul.platform.client import PAGE_ROWS, PlatformClient
from backhaul.platform.transport import Transport
from scenes.scripted_platform import Connection, Request, document, serving
from scenes.stock_history import move

if TYPE_CHECKING:
    from backhaul.errors import Unusable

Connect: TypeAlias = Callable[[str], Transport]
KNOWN = 350
MORE = 150


@dataclass(slots=True)
class Growing:
    """Shows `KNOWN` moves, and has `MORE` as soon as page 2 was shown."""

    tells_more: bool = True
    ignores_page: bool = False
    shown: list[int] = field(default_factory=list)

    async def __call__(self, request: Request, connection: Connection) -> None:
        number = int(parse_qs(request.query)["page"][0])
        newest = KNOWN + (MORE if 2 in self.shown else 0)
        self.shown.append(number)
        last = newest - PAGE_ROWS * (0 if self.ignores_page else number - 1)
        first = max(last - PAGE_ROWS, 0)
        rows = [move(n, "0", note=None) for n in range(last, first, -1)]
        said: dict[str, Any] = {"data": rows}
        if self.tells_more:
            said["meta"] = {"hasMore": self.ignores_page or first > 0}
        await connection.send(document(said))


def fail(error: Unusable) -> None:
    raise error


async def test_new_rows_end_no_read_of_the_whole_history(connect: Connect) -> None:
    async with serving(Growing()) as server:
        client = PlatformClient(connect(server.url))
        pages = [page async for page in history.back_to(client, "", fail)]
    found = [each.adjustment_id for page in pages for each in page]
    assert found == [f"adj_{number}" for number in range(KNOWN, 0, -1)]


async def test_new_rows_end_no_read_of_the_history_of_a_product(
    connect: Connect,
) -> None:
    async with serving(Growing()) as server:
        client = PlatformClient(connect(server.url))
        found = await history.of_product(client, "prod_1", None)
    assert (len(found.moves), found.complete) == (KNOWN, True)


async def test_a_full_page_of_known_moves_may_not_be_the_last(connect: Connect) -> None:
    async with serving(Growing(tells_more=False)) as server:
        client = PlatformClient(connect(server.url))
        found = await history.of_product(client, "prod_1", None)
    assert (len(found.moves), found.complete) == (2 * PAGE_ROWS, False)


@pytest.mark.parametrize("tells_more", [True, False])
async def test_a_platform_that_shows_one_page_only_is_not_read_for_ever(
    tells_more: bool, connect: Connect
) -> None:
    platform = Growing(tells_more, ignores_page=True, shown=[2])
    async with serving(platform) as server:
        client = PlatformClient(connect(server.url))
        pages = [page async for page in history.back_to(client, "", fail)]
        found = await history.of_product(client, "prod_1", None)
    assert sum(map(len, pages)) == len(found.moves) == PAGE_ROWS
    assert not found.complete
    assert len(platform.shown) <= 2 * (history.MOST_PAGES + 1) + 1


@pytest.mark.parametrize("odd", ["0001-01-01T00:00:00Z", None])
async def test_a_row_of_year_one_hides_no_page_behind_it(
    odd: str | None, connect: Connect
) -> None:
    listed = [move(n, "0", note=None) for n in range(KNOWN, 0, -1)]
    since = listed[-1]["createdAt"]
    if odd:
        listed[10]["createdAt"] = odd

    async def say(request: Request, connection: Connection) -> None:
        last = PAGE_ROWS * int(parse_qs(request.query)["page"][0])
        shown = listed[last - PAGE_ROWS : last]
        more = {"hasMore": last < KNOWN}
        await connection.send(document({"data": shown, "meta": more}))

    async with serving(say) as server:
        client = PlatformClient(connect(server.url))
        pages = [page async for page in history.back_to(client, since, fail)]
    found = {each.adjustment_id for page in pages for each in page}
    missing = {listed[10]["adjustmentId"]} if odd else set()
    assert found == {row["adjustmentId"] for row in listed} - missing
