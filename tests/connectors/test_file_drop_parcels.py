"""Rows are grouped into parcels, in any order and wherever reading stops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_sdk import Fulfillment
from connectors.dropping import Drop

HEADER = "order,tracking_company,tracking_number,sku,quantity\n"
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["1001", "#1001", "1002"]),
        st.sampled_from(["DHL", "UPS"]),
        st.sampled_from(["JD1", "jd 1", "JD2", ""]),
        st.sampled_from(["A", "B"]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=8,
)


def asked(rows: list[tuple[str, str, str, str, int]]) -> Counter[tuple[str, str, str]]:
    """Return the units of each article in each parcel of these rows."""
    units = Counter[tuple[str, str, str]]()
    for order, _, number, sku, quantity in rows:
        parcel = number.upper().replace(" ", "")
        units[order.lstrip("#"), parcel, sku] += quantity
    return units


def brought(drop: Drop) -> Counter[tuple[str, str, str]]:
    """Return the same of the records, where each part counts once."""
    units = Counter[tuple[str, str, str]]()
    known = set[str]()
    for record in drop.records():
        assert isinstance(record, Fulfillment)
        number = (record.tracking_number or "").upper().replace(" ", "")
        parts = [(part.key, part.lines) for part in record.parts]
        for key, lines in parts or [(record.key, record.lines)]:
            for line in () if key in known else lines:
                units[record.order.lstrip("#"), number, line.sku] += line.quantity
            known.add(key)
    return units


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, stops=st.lists(st.integers(1, 3), max_size=4), size=st.integers(1, 4))
async def test_every_unit_is_in_one_parcel(
    rows: list[tuple[str, str, str, str, int]], stops: list[int], size: int
) -> None:
    """The daemon ends after so many batches, begins again, and takes the rest."""
    content = HEADER + "".join(",".join(map(str, row)) + "\n" for row in rows)
    with TemporaryDirectory() as folder:
        drop = Drop(Path(folder), {"batch_rows": size})
        drop.put("fulfillments.csv", content)
        for stop in stops:
            for batch in (await drop.batches())[:stop]:
                drop.host.commit(batch)
        await drop.pull()
        assert (brought(drop), drop.reasons()) == (asked(rows), [])
        before = list(drop.host.records)
        drop.put("fulfillments.csv", content)
        await drop.pull()
        assert list(drop.host.records) == before


@settings(max_examples=40, deadline=None)
@given(data=st.data(), rows=ROWS)
async def test_the_order_of_the_rows_makes_no_difference(
    data: st.DataObject, rows: list[tuple[str, str, str, str, int]]
) -> None:
    with TemporaryDirectory() as folder:
        drop = Drop(Path(folder))
        for shuffled in (rows, data.draw(st.permutations(rows))):
            lines = (",".join(map(str, row)) + "\n" for row in shuffled)
            drop.put("fulfillments.csv", HEADER + "".join(lines))
            await drop.pull()
        assert brought(drop) == asked(rows)
