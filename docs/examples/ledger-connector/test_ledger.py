"""The ledger fulfills the contract of connectors that deliver changes."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest
from backhaul_ledger import Ledger, Settings

from backhaul_sdk.testing import Failure, PushBench, PushContract

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class LedgerFolder(PushBench):
    """A folder with the ledger; moving the folder away makes it unreachable."""

    failures = (Failure.BREAKS,)

    def __init__(self, folder: Path) -> None:
        self._ledger = folder / "books" / "ledger.jsonl"
        self._ledger.parent.mkdir()
        self._away = folder / "away"

    def connector(self) -> Ledger:
        return Ledger("books", Settings(path=self._ledger))

    def state(self) -> object:
        return self._lines()

    def example(self) -> Mapping[str, object]:
        return {"type": "ledger", "path": "/var/lib/backhaul/books/ledger.jsonl"}

    async def effects(self) -> Sequence[int]:
        return [int(line["id"].rpartition(":")[2]) for line in self._lines()]

    def tries(self) -> int:
        return len(self._lines())

    async def fail(self, failure: Failure) -> None:
        await self.unplug()

    async def recover(self) -> None:
        await self.plug_in()

    async def unplug(self) -> None:
        self._ledger.parent.rename(self._away)

    async def plug_in(self) -> None:
        self._away.rename(self._ledger.parent)

    def _lines(self) -> list[dict[str, str]]:
        if not self._ledger.exists():
            return []
        return [
            json.loads(line)
            for line in self._ledger.read_text("utf-8").split("\n")
            if line
        ]


class TestLedger(PushContract):
    @pytest.fixture
    def bench(self, tmp_path: Path) -> PushBench:
        return LedgerFolder(tmp_path)


def test_the_daemon_finds_it() -> None:
    (found,) = entry_points(group="backhaul.connectors", name="ledger")
    assert found.load() is Ledger
