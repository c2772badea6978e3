"""Two mirrors are equal when they say the same of the store, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store.sqlite.differences import differences
from support.databases import fold_all, started_store
from support.payloads import arrival, envelope, order

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.sqlite.differences import Difference


async def mirror(path: Path, *bodies: bytes) -> Path:
    async with started_store(path) as store:
        for body in bodies:
            await store.inbox.append(arrival(body))
        await fold_all(store)
    return path


async def compared(
    tmp_path: Path, left: list[bytes], right: list[bytes]
) -> list[Difference]:
    here = await mirror(tmp_path / "left.db", *left)
    there = await mirror(tmp_path / "right.db", *right)
    return list(differences(here, there))


def bodies(*ids: str, note: str = "") -> list[bytes]:
    return [envelope("orders/create", order(id_, note=note)) for id_ in ids]


async def test_the_way_does_not_matter(tmp_path: Path) -> None:
    run = bodies("ord_1", "ord_2", "ord_3")
    assert await compared(tmp_path, run, [*reversed(run), *run]) == []


async def test_a_missing_row_is_found_on_either_side(tmp_path: Path) -> None:
    left, right = bodies("ord_1", "ord_2"), bodies("ord_2", "ord_3")
    found = await compared(tmp_path, left, right)
    orders = [(d.id, d.left, d.right) for d in found if d.table == "orders"]
    assert orders == [("ord_1", "is there", None), ("ord_3", None, "is there")]
    assert {d.table for d in found} == {"orders", "order_items"}


async def test_a_differing_value_is_named(tmp_path: Path) -> None:
    left, right = bodies("ord_1", note="a"), bodies("ord_1", note="b")
    (found,) = await compared(tmp_path, left, right)
    assert (found.table, found.id, found.column) == ("orders", "ord_1", "document.note")
    assert (found.left, found.right) == ("a", "b")


async def test_an_empty_mirror_lacks_everything(tmp_path: Path) -> None:
    found = await compared(tmp_path, [], bodies("ord_1"))
    assert {(d.left, d.right) for d in found} == {(None, "is there")}
