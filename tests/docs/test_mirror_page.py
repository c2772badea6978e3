"""docs/mirror.md names exactly the public tables and columns of the schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import SystemClock
from backhaul.store import database_at, open_store
from backhaul.store.sql.read_models.database_reads import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parents[2] / "docs/mirror.md"


def described() -> dict[str, set[str]]:
    """Return the columns that the page names, by table."""
    sections = re.split(r"^### `(\w+)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return {
        table: {name for row in _rows(text) for name in re.findall(r"`(\w+)`", row)}
        for table, text in zip(sections[1::2], sections[2::2], strict=True)
    }


def _rows(section: str) -> Iterator[str]:
    lines = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
    yield from (line for line in lines if "column" not in line)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mirror") / "backhaul.db"
    open_store(path, SystemClock())
    return path


def test_the_page_names_every_published_table() -> None:
    assert described().keys() == PUBLISHED.keys()


@pytest.mark.parametrize("table", PUBLISHED)
def test_the_mirror_page_names_every_column_and_no_other(
    table: str, database: Path
) -> None:
    with database_at(database).console(SystemClock()) as console:
        assert described()[table] == set(console.columns(table))


def test_the_indices_it_names_exist(database: Path) -> None:
    queries = (
        PAGE.read_text("utf-8").split("## Common queries")[1].split("## Search")[0]
    )
    named = re.findall(
        r"`(\w+)`", " ".join(re.findall(r"\| ([^|]*) \|$", queries, re.M))
    )
    schema = " ".join(database_at(database).schema())
    known = set(re.findall(r'\b(?:INDEX|TABLE|VIEW) "?(\w+)', schema))
    assert len(named) > 10
    assert set(named) - known == set()
