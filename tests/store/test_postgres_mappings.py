"""Mappings on a database that several daemons use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from store.test_postgres_requests import two_owners, url

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["url"]
pytestmark = pytest.mark.programs


@pytest.mark.parametrize(("store", "owner"), [("main", "a"), ("other", "b")])
@pytest.mark.parametrize("verb", ["mappings/add", "mappings/remove"])
async def test_the_owner_of_a_store_changes_its_mappings(
    verb: str,
    store: str,
    owner: str,
    url: str,
    tmp_path: Path,
) -> None:
    async with two_owners(url, tmp_path, verb) as two:
        asked = {"store": store, "id": 1, "mappings": [], "who": "ann", "reason": ""}
        assert await two.actions[verb](asked) == {"done": [owner]}
        assert [member for member, _ in two.acted] == [owner]
