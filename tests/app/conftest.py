"""A daemon on either engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from backhaul.store import Place


@pytest.fixture
def engine(database: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each daemon of a test its own file, or its own database on one server."""
    if isinstance(database, str):
        monkeypatch.setenv("BACKHAUL_DATABASE__URL", database)
        monkeypatch.setenv("BACKHAUL_CLUSTER__DURABILITY", "single")
