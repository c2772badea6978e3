"""Two mirrors are equal only if they have the same content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.store import database_at
from scenes.databases import dump, fold_all, started_store
from scenes.payloads import arrival, envelope, order, read, stock_change

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul.store.mirror import Difference


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
    return list(database_at(here).differences(there))


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


async def test_how_a_mirror_knows_it_makes_no_difference(tmp_path: Path) -> None:
    """One was told by webhook, the other read it to settle a doubt."""
    shown = order("ord_1")
    async with started_store(tmp_path / "left.db") as store:
        await store.inbox.append(arrival(envelope("orders/create", shown)))
        await fold_all(store)
    async with started_store(tmp_path / "right.db") as store:
        await store.inbox.append(read("orders/reread", shown, at=40))
        await fold_all(store)
    left, right = tmp_path / "left.db", tmp_path / "right.db"
    assert list(database_at(left).differences(right)) == []
    assert list(dump(left)) == list(dump(right))


async def test_a_missing_move_of_stock_is_a_difference(tmp_path: Path) -> None:
    changes = [stock_change(at, at, adjustment_id=f"adj_{at}") for at in (1, 2)]
    moved = [envelope("inventory/level_update", change) for change in changes]
    found = await compared(tmp_path, moved[1:], moved)
    assert [(d.table, d.left, d.right) for d in found] == [
        ("stock_ledger", None, "is there")
    ]
