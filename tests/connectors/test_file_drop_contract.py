"""file_drop fulfills the connector contract for each kind of file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import Bench, MemoryHost, PullContract
from connectors.dropping import CANCELLATIONS, FULFILLMENTS, STOCK_DELTAS, Drop
from connectors.examples import documented
from connectors.interchanges import edifact, x12
from connectors.spreadsheets import archive, sheet_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop


def as_csv(rows: Sequence[str]) -> bytes:
    return "".join(f"{row.strip()}\n" for row in rows).encode()


def as_json(rows: Sequence[str]) -> bytes:
    header, *cells = (row.strip().split(",") for row in rows)
    objects = (dict(zip(header, row, strict=False)) for row in cells)
    return "".join(f"{json.dumps(each)}\n" for each in objects).encode()


def as_spreadsheet(rows: Sequence[str]) -> bytes:
    return archive(sheet_of(rows))


def as_despatch_advices(rows: Sequence[str]) -> bytes:
    """Return a DESADV for each row; a row without all cells has no line."""
    header, *cells = (row.strip().split(",") for row in rows)
    messages = []
    for row in cells:
        values = dict(zip(header, row, strict=False))
        number = values.get("tracking_number", "")
        carrier = f"TDT+20++30+31+:::{values.get('tracking_company', '')}"
        references = [f"RFF+ON:{values.get('order')}", f"RFF+CN:{number}", carrier]
        lines = ["LIN+1", "PIA+1+LS-S:SA", "QTY+12:1", "FTX+ZZZ+++unknown"]
        inner = [f"BGM+351+{number}+9", *references, *(lines if number else ())]
        messages.append(["DESADV:D:96A:UN", *inner])
    return edifact(*messages)


def as_inventory_advice(rows: Sequence[str]) -> bytes:
    """Return an 846 with an item for each row; one without all cells has no SKU."""
    header, *cells = (row.strip().split(",") for row in rows)
    inner = ["BIA*00*MM*1*20260331*0600"]
    for row in cells:
        values = dict(zip(header, row, strict=False))
        inner += [f"LIN**SK*{values.get('sku', '')}", "PID*F****unknown"]
        inner.append(f"QTY*33*{values.get('quantity', '')}*EA")
    return x12(["846", *inner])


KINDS = {
    "fulfillments": (FULFILLMENTS, "{},BlueDart,BD{}"),
    "cancellations": (CANCELLATIONS, "{},yes,customer"),
    "stock-deltas": (STOCK_DELTAS, "LS-{},-2,damaged"),
    "stock-levels": ("sku,quantity,as_of\n", "LS-{},{},2026-03-31T06:00"),
}
FORMATS = {
    "csv": as_csv,
    "jsonl": as_json,
    "xlsx": as_spreadsheet,
    "edi": as_despatch_advices,
    "x12": as_inventory_advice,
}
EDI_NAMES = {"fulfillments": "*.edi", "stock_levels": "*.x12"}
TRIED = (
    ("fulfillments", "csv"),
    ("cancellations", "jsonl"),
    ("stock-deltas", "csv"),
    ("stock-levels", "xlsx"),
    ("fulfillments", "edi"),
    ("stock-levels", "x12"),
)


class DropBench(Bench):
    """A folder into which a courier or an ERP drops files."""

    secrets: Sequence[str] = ("no password is set for a folder",)

    def __init__(self, path: Path, kind: str, ending: str) -> None:
        self._drop = Drop(path, EDI_NAMES if ending in ("edi", "x12") else {})
        self._kind, self._ending = kind, ending
        self._header, self._row = KINDS[kind]

    def connector(self) -> FileDrop:
        return self._drop.connector()

    def offer(self, first: int, number: int) -> None:
        self._drop.options["batch_rows"] = max(10, number // 200)
        self._put(first, [self._good(n) for n in range(first, first + number)])

    def offer_a_bad_one_among(self, good: int) -> None:
        rows = [self._good(n) for n in range(good)]
        rows.insert(good // 2, "only one cell")
        self._put(0, rows)

    def offer_with_unknown_field(self, number: int) -> None:
        header, row = self._header.strip(), self._good(number)
        self._drop_file("", [f"colour,{header},note", f"red,{row},x"])

    def state(self) -> object:
        return {
            path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
            for path in (self._drop.path, *self._drop.path.rglob("*"))
        }

    async def unplug(self) -> None:
        self._drop.path.rename(self._drop.path.with_suffix(".away"))

    async def plug_in(self) -> None:
        self._drop.path.with_suffix(".away").rename(self._drop.path)

    def example(self) -> Mapping[str, object]:
        return documented("file_drop")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    def _good(self, number: int) -> str:
        return self._row.format(number, number)

    def _put(self, first: int, rows: Sequence[str]) -> None:
        self._drop_file(f"-{first}", [self._header, *rows])

    def _drop_file(self, suffix: str, rows: Sequence[str]) -> None:
        content = FORMATS[self._ending](rows)
        self._drop.put(f"{self._kind}{suffix}.{self._ending}", content)


class TestFileDrop(PullContract):
    """Run for every kind of file."""

    @pytest.fixture(params=TRIED, ids="-".join)
    def bench(self, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
        return DropBench(tmp_path, *request.param)
