"""Fixtures: a shop in a currency with three decimals, the finest that is published."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from scenes.reference_shop import Receiver, Shop, open_receiver, open_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CURRENCY = "UPDATE store SET currency = 'KWD'"


@asynccontextmanager
async def open_dinar_shop(folder: Path, *, limits: bool) -> AsyncIterator[Shop]:
    """Not recorded: the fuzzer holds every answer to the document itself."""
    async with open_shop(
        folder / "data", fixture="demo", limits=limits, recorder=None
    ) as opened:
        await opened.running.platform.writer.run(lambda tx: tx.run(CURRENCY))
        yield opened


@pytest.fixture
async def dinar_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_dinar_shop(tmp_path, limits=False) as opened:
        yield opened


@pytest.fixture
async def limited_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_dinar_shop(tmp_path, limits=True) as opened:
        yield opened


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "data", fixture="demo") as opened:
        yield opened


@pytest.fixture
async def strict_shop(tmp_path: Path) -> AsyncIterator[Shop]:
    """A second shop, which limits how often it may be asked."""
    async with open_shop(tmp_path / "strict", fixture="demo", limits=True) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with open_receiver() as opened:
        yield opened
