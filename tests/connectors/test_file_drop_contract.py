"""The file drop keeps the connectors' contract, for each kind of file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul_sdk.testing import Bench, MemoryHost, PullContract
from connectors.dropping import CANCELLATIONS, FULFILLMENTS, STOCK_DELTAS, Drop
from connectors.examples import documented

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from backhaul_connectors.file_drop import FileDrop

KINDS = {
    "fulfillments": (FULFILLMENTS, "{},BlueDart,BD{}"),
    "cancellations": (CANCELLATIONS, "{},yes,customer"),
    "stock-deltas": (STOCK_DELTAS, "LS-{},-2,damaged"),
}


class DropBench(Bench):
    """A folder into which a courier or an ERP drops files."""

    def __init__(self, path: Path, kind: str) -> None:
        self._drop = Drop(path, {"batch_rows": 10})
        self._kind = kind
        self._header, self._row = KINDS[kind]

    def connector(self) -> FileDrop:
        return self._drop.connector()

    def offer(self, first: int, number: int) -> None:
        self._put(first, [self._good(n) for n in range(first, first + number)])

    def offer_a_bad_one_among(self, good: int) -> None:
        rows = [self._good(n) for n in range(good)]
        rows.insert(good // 2, "only one cell")
        self._put(0, rows)

    def offer_with_unknown_field(self, number: int) -> None:
        header, row = self._header.strip(), self._good(number)
        self._drop.put(f"{self._kind}.csv", f"colour,{header},note\nred,{row},x\n")

    def state(self) -> object:
        return {
            path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
            for path in (self._drop.path, *self._drop.path.rglob("*"))
        }

    def example(self) -> Mapping[str, object]:
        return documented("file_drop")

    def complaints(self, host: MemoryHost) -> Sequence[str]:
        return [bad.reason for bad in host.bad.values()]

    def _good(self, number: int) -> str:
        return self._row.format(number, number)

    def _put(self, first: int, rows: Sequence[str]) -> None:
        content = self._header + "".join(f"{row}\n" for row in rows)
        self._drop.put(f"{self._kind}-{first}.csv", content)


class TestFileDrop(PullContract):
    """Run for every kind of file."""

    @pytest.fixture(params=KINDS)
    def bench(self, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
        return DropBench(tmp_path, request.param)
