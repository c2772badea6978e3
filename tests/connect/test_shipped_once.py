"""A parcel of a file is shipped once, however often the file arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes import payloads
from scenes.databases import append_and_fold
from scenes.drop_folder import HEADER, case, matched
from scenes.payloads import envelope
from scenes.stored import values_of

if TYPE_CHECKING:
    from backhaul.store import Store
    from scenes.clock import VirtualClock
    from scenes.drop_folder import Folder


async def look(store: Store, clock: VirtualClock) -> list[str]:
    await clock.advance(5)
    return await matched(store, clock)


async def test_a_corrected_file_ships_nothing_again(folder: Folder) -> None:
    await folder.drop(case("02-corrected-first.csv"))
    before = folder.left()
    assert len(before) == 3
    await folder.drop(case("02-corrected-second.csv"))
    assert folder.left() == before
    typo, filled_in, renamed = folder.reasons()
    assert "1 x LS-XL in DHL JD0OO1 (courier fulfillments.csv:2)" in typo
    assert "1 x LS-XL in DHL (courier fulfillments.csv:3)" in filled_in
    assert "the same parcel by another carrier" in renamed
    for reason in (typo, filled_in, renamed):
        assert "further parcel, retry ships it" in reason
        assert "discard the row" in reason


CHANGES = {
    "number": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL,JD2,LS-XL,1,"),
    "number filled in": ("2001,DHL,,LS-XL,1,", "2001,DHL,JD2,LS-XL,1,"),
    "number taken away": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL,,LS-XL,1,"),
    "carrier": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL Paket,JD1,LS-XL,1,"),
    "carrier filled in": ("2001,,JD1,LS-XL,1,", "2001,DHL,JD1,LS-XL,1,"),
    "time without number": ("2001,,,LS-XL,1,2026-03-01", "2001,,,LS-XL,1,2026-03-02"),
    "quantity": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL,JD1,LS-XL,2,"),
    "article": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL,JD1,LS-L,1,"),
    "article of the same": ("2001,DHL,JD1,LS-XL,1,", "2001,DHL,JD1,,,"),
}
"""A row before and after a correction."""
DATED = "order,tracking_company,tracking_number,sku,quantity,shipped_at\n"


@pytest.mark.parametrize("name", ["fulfillments.csv", "fulfillments-corrected.csv"])
@pytest.mark.parametrize(("row", "corrected"), CHANGES.values(), ids=list(CHANGES))
async def test_a_changed_row_is_held_for_an_operator(
    row: str, corrected: str, name: str, folder: Folder
) -> None:
    await folder.drop(f"{DATED}{row}\n")
    await folder.drop(f"{DATED}{corrected}\n", name)
    assert len(folder.left()) == 1
    (reason,) = folder.reasons()
    assert "correction or a further parcel" in reason
    await folder.drop(f"{DATED}{corrected}\n")
    assert (len(folder.left()), len(folder.reasons())) == (1, 1)


async def test_only_the_time_of_a_parcel_is_no_other_parcel(folder: Folder) -> None:
    row = "2001,DHL,JD1,LS-XL,1,2026-03-0"
    await folder.drop(f"{DATED}{row}1\n")
    await folder.drop(f"{DATED}{row}2\n")
    assert (len(folder.left()), folder.reasons()) == (1, [])


ASKED_ANYWAY = ("carrier", "carrier filled in", "article of the same")
FURTHER = {name: rows for name, rows in CHANGES.items() if name not in ASKED_ANYWAY}
"""One number with two carriers, or a row without article, is ambiguous."""


@pytest.mark.parametrize("name", ASKED_ANYWAY)
async def test_some_rows_beside_the_first_need_an_operator(
    name: str, folder: Folder
) -> None:
    row, corrected = CHANGES[name]
    await folder.drop(f"{DATED}{row}\n{corrected}\n")
    assert (len(folder.left()), len(folder.reasons())) == (1, 1)


@pytest.mark.parametrize(("row", "corrected"), FURTHER.values(), ids=list(FURTHER))
async def test_a_new_row_after_the_first_is_a_further_parcel(
    row: str, corrected: str, folder: Folder
) -> None:
    """The file grows with each parcel, and lists all parcels each time."""
    await folder.drop(f"{DATED}{row}\n")
    await folder.drop(f"{DATED}{row}\n{corrected}\n")
    assert (len(folder.left()), folder.reasons()) == (2, [])
    await folder.drop(f"{DATED}{corrected}\n{row}\n")
    assert (len(folder.left()), folder.reasons()) == (2, [])


async def test_a_file_that_is_overwritten_each_day_ships_other_articles(
    folder: Folder,
) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,LS-XL,1\n2002,DHL,JD2,A1,1\n")
    await folder.drop(f"{HEADER}2001,DHL,JD3,LS-L,1\n2003,DHL,JD4,A1,1\n")
    assert [(order, number) for order, number, _ in folder.left()] == [
        ("2001", "JD1"),
        ("2002", "JD2"),
        ("2001", "JD3"),
        ("2003", "JD4"),
    ]
    await folder.drop(f"{HEADER}2001,DHL,JD5,LS-XL,1\n")
    assert len(folder.left()) == 4
    assert len(folder.reasons()) == 1


async def test_an_operator_ships_a_further_parcel(
    folder: Folder, clock: VirtualClock
) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,A1,1\n")
    await folder.drop(f"{HEADER}2001,DHL,JD2,A1,1\n")
    await folder.decide("retry")
    assert await look(folder.store, clock) == ["accepted"]
    assert [number for _, number, _ in folder.left()] == ["JD1", "JD2"]
    await folder.drop(f"{HEADER}2001,DHL,JD2,A1,1\n")
    assert (len(folder.left()), folder.reasons()) == (2, [])


async def test_an_operator_discards_a_correction(
    folder: Folder, clock: VirtualClock
) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,A1,1\n")
    await folder.drop(f"{HEADER}2001,DHL,JD2,A1,1\n")
    await folder.decide("discard")
    await folder.drop(f"{HEADER}2001,DHL,JD2,A1,1\n")
    assert await look(folder.store, clock) == []
    assert (len(folder.left()), folder.reasons()) == (1, [])


async def test_a_correction_of_a_wholly_shipped_order_says_so(folder: Folder) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,A1,3\n")
    await folder.drop(f"{HEADER}2001,DHL,JD2,A1,3\n")
    assert len(folder.left()) == 1
    (reason,) = folder.reasons()
    assert "correction or a further parcel" in reason
    assert "the order has no open units for a further parcel" in reason


async def test_the_rows_of_a_parcel_are_one_shipment(folder: Folder) -> None:
    content = case("17-one-parcel-three-rows.csv")
    await folder.drop(content)
    parcel = ("2001", "JD41", {"LS-XL": 1, "KK-XL": 1, "KK-L": 1})
    assert folder.left() == [parcel]
    await folder.drop(content)
    header, *lines = content.splitlines()
    await folder.drop("\n".join([header, *reversed(lines), ""]))
    assert (folder.left(), folder.reasons()) == ([parcel], [])


async def test_rows_of_a_parcel_may_lie_apart(folder: Folder) -> None:
    rows_of = "2001,DHL,JD1,LS-XL,1\n2002,DHL,JD2,A1,1\n2001,DHL,JD1,LS-L,2\n"
    folder.options["batch_rows"] = 1
    await folder.drop(f"{HEADER}{rows_of}")
    assert folder.left() == [
        ("2001", "JD1", {"LS-XL": 1, "LS-L": 2}),
        ("2002", "JD2", {"A1": 1}),
    ]


async def test_a_further_row_of_a_parcel_ships_its_new_units(folder: Folder) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,LS-XL,1\n2001,DHL,JD1,LS-L,1\n")
    await folder.drop(
        f"{HEADER}2001,DHL,JD1,KK-L,1\n2001,DHL,JD1,LS-XL,1\n2001,DHL,JD1,LS-L,1\n"
    )
    assert folder.left() == [
        ("2001", "JD1", {"LS-XL": 1, "LS-L": 1}),
        ("2001", "JD1", {"KK-L": 1}),
    ]
    assert folder.reasons() == []


async def test_a_changed_row_of_a_parcel_is_held_alone(folder: Folder) -> None:
    first = "2001,DHL,JD1,LS-XL,1\n"
    await folder.drop(f"{HEADER}{first}2001,DHL,JD1,LS-L,1\n")
    await folder.drop(f"{HEADER}{first}2001,DHL,JD2,LS-L,1\n")
    assert len(folder.left()) == 1
    assert "correction or a further parcel" in folder.reasons()[0]


async def test_equal_rows_are_as_many_units(folder: Folder) -> None:
    content = case("08-serial-rows.csv")
    await folder.drop(content)
    assert folder.left() == [("2001", "JD003", {"A1": 2})]
    await folder.drop(content)
    assert (len(folder.left()), folder.reasons()) == (1, [])


async def test_equal_rows_without_a_number_are_as_many_parcels(folder: Folder) -> None:
    content = f"{HEADER}2001,DHL,,A1,1\n2001,DHL,,A1,1\n"
    await folder.drop(content)
    await folder.drop(content)
    assert [units for _, _, units in folder.left()] == [{"A1": 1}, {"A1": 1}]
    await folder.drop(f"{content}2001,DHL,,A1,1\n")
    assert (len(folder.left()), folder.reasons()) == (3, [])


async def test_a_comment_row_ships_nothing(folder: Folder) -> None:
    await folder.drop(case("04-comment-line.csv"))
    assert folder.left() == [("2001", "T1", {"LS-L": 1})]
    (reason,) = folder.reasons()
    assert "the row has no SKU, but other rows of this file have" in reason


@pytest.mark.parametrize("comment", ["2001,DHL,T1,,", "#2001,,,,", "2001,UPS,T9,,"])
async def test_a_comment_row_ships_nothing_at_any_position(
    comment: str, folder: Folder
) -> None:
    article = "2001,DHL,T1,LS-L,1"
    folder.options["batch_rows"] = 1
    await folder.drop(f"{HEADER}{comment}\n2002,DHL,T2,,\n{article}\n{comment}\n")
    assert [order for order, _, _ in folder.left()] == ["2002", "2001"]
    assert len(folder.reasons()) == 1


async def test_two_parcels_of_a_whole_order_need_an_operator(
    folder: Folder, clock: VirtualClock
) -> None:
    content = case("20-two-parcels.csv")
    await folder.drop(content)
    assert folder.left() == []
    reasons = folder.reasons()
    assert len(reasons) == 2
    assert all(
        "2 parcels of this file each contain the whole order 2001" in x for x in reasons
    )
    ids = values_of(folder.store.place, "quarantine", "id")
    await folder.store.quarantine.retry(ids[0], None, "otto", "all in the first")
    assert await look(folder.store, clock) == ["accepted"]
    await folder.store.quarantine.retry(ids[1], None, "otto", "and the second")
    assert await look(folder.store, clock) == ["quarantined"]
    assert folder.left() == [("2001", "JD001", {})]
    (reason,) = folder.reasons()
    assert "order #2001 is already shipped in JD001 (DHL)" in reason
    assert "the customer was not notified of JD002 (DHL)" in reason


async def test_a_second_parcel_of_a_whole_order_comes_later(folder: Folder) -> None:
    header = "order,tracking_company,tracking_number\n"
    await folder.drop(f"{header}2001,DHL,JD001\n")
    await folder.drop(f"{header}2001,DHL,JD002\n", "fulfillments-2.csv")
    assert folder.left() == [("2001", "JD001", {})]
    (reason,) = folder.reasons()
    assert "the customer was not notified of JD002 (DHL)" in reason
    assert "run `backhaul quarantine correct` to send it" in reason


async def test_a_whole_order_that_left_is_not_shipped_again(folder: Folder) -> None:
    await folder.drop("order,tracking_company,tracking_number\n2001,DHL,JD001\n")
    await folder.drop("order,tracking_company,tracking_number\n2001,DHL,\n")
    assert (len(folder.left()), folder.reasons()) == (1, [])


async def test_each_row_of_a_parcel_that_cannot_be_shipped_is_rejected(
    folder: Folder,
) -> None:
    lines = "2001,DHL,JD1,A1,4\n2001,DHL,JD1,KK-L,1\n"
    await folder.drop(f"{HEADER}{lines}")
    (rejected,) = (folder.path / "rejected").iterdir()
    text = rejected.read_text("utf-8-sig")
    assert [line.split(",")[:5] for line in text.splitlines()[1:]] == [
        line.split(",") for line in lines.splitlines()
    ]
    await folder.drop(f"{HEADER}{lines.replace('A1,4', 'A1,3')}")
    assert folder.left() == [("2001", "JD1", {"A1": 3, "KK-L": 1})]
    assert folder.reasons() == []


async def test_of_a_row_and_its_correction_that_both_wait_one_is_shipped(
    folder: Folder, clock: VirtualClock
) -> None:
    """The order arrives after both files."""
    await folder.drop(f"{HEADER}2009,DHL,JD1,A1,1\n")
    await folder.drop(f"{HEADER}2009,DHL,JD2,A1,1\n")
    assert folder.left() == []
    line = payloads.item("2009:A1", sku="A1", quantity=3)
    order = payloads.order("ord_2009", number=2009, items=[line])
    await append_and_fold(folder.store, envelope("orders/create", order))
    assert sorted(await look(folder.store, clock)) == ["accepted", "quarantined"]
    assert (len(folder.left()), len(folder.reasons())) == (1, 1)


KEYED = "order,tracking_company,tracking_number,sku,quantity,document,line\n"
RENUMBERED = {
    "zeros of the document": "2001,DHL,JD1,A1,1,4711,10",
    "zeros of the line": "2001,DHL,JD1,A1,1,0004711,010",
    "another line": "2001,DHL,JD1,A1,1,0004711,20",
    "another document": "2001,DHL,JD1,A1,1,0004712,10",
    "also another spelling": "#2001,dhl,jd 1,A1,1,4711,10",
}
"""A row whose key columns a spreadsheet or a program rewrote."""


@pytest.mark.parametrize("row", RENUMBERED.values(), ids=list(RENUMBERED))
async def test_a_parcel_that_comes_again_under_other_keys_is_a_question(
    row: str, folder: Folder
) -> None:
    folder.options["key_columns"] = ["document", "line"]
    await folder.drop(f"{KEYED}2001,DHL,JD1,A1,1,0004711,10\n")
    await folder.drop(f"{KEYED}{row}\n")
    assert folder.left() == [("2001", "JD1", {"A1": 1})]
    (reason,) = folder.reasons()
    assert "under other key columns, and that row is not in this file" in reason


def keyed(name: str) -> str:
    """Return a test file with a document and line number in each row."""
    header, *lines = case(name).splitlines()
    rows_ = [f"{line},D{number},10" for number, line in enumerate(lines)]
    return "\n".join((f"{header},document,line", *rows_, ""))


async def test_a_corrected_file_with_key_columns_ships_nothing_again(
    folder: Folder,
) -> None:
    folder.options["key_columns"] = ["document", "line"]
    await folder.drop(keyed("02-corrected-first.csv"))
    before = folder.left()
    assert len(before) == 3
    await folder.drop(keyed("02-corrected-second.csv"))
    assert folder.left() == before
    reasons = folder.reasons()
    assert len(reasons) == 3
    assert all("discard" in reason for reason in reasons), reasons


FURTHER_KEYS = {
    "beside the first": "2001,DHL,JD1,A1,1,0004711,10\n2001,DHL,JD1,A1,1,0004711,20",
    "another number": "2001,DHL,JD2,A1,1,0004712,10",
    "another quantity": "2001,DHL,JD1,A1,2,0004712,10",
    "another article": "2001,DHL,JD1,LS-L,1,0004712,10",
}


@pytest.mark.parametrize("rows_", FURTHER_KEYS.values(), ids=list(FURTHER_KEYS))
async def test_other_rows_under_other_keys_are_shipped(
    rows_: str, folder: Folder
) -> None:
    folder.options["key_columns"] = ["document", "line"]
    await folder.drop(f"{KEYED}2001,DHL,JD1,A1,1,0004711,10\n")
    await folder.drop(f"{KEYED}{rows_}\n")
    assert (len(folder.left()), folder.reasons()) == (2, [])


@pytest.mark.parametrize(
    "row",
    [
        *("#2001,DHL,JD1,A1,1", "2001,dhl,JD1,A1,1", "2001,DHL,J D 1,A1,1"),
        "2001,DHL,jd1,A1,1",
    ],
)
async def test_a_row_that_is_only_spelled_in_another_way_is_no_question(
    row: str, folder: Folder
) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,A1,1\n")
    await folder.drop(f"{HEADER}{row}\n")
    assert (len(folder.left()), folder.reasons()) == (1, [])


async def test_an_article_in_another_spelling_may_be_another_one(
    folder: Folder,
) -> None:
    await folder.drop(f"{HEADER}2001,DHL,JD1,A1,1\n")
    await folder.drop(f"{HEADER}2001,DHL,JD1,a1,1\n")
    assert (len(folder.left()), len(folder.reasons())) == (1, 1)
