"""What matching asks for each record, however many there were before."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlite_utils import Database

from backhaul.store.sql.mirror.lookup import SIMILAR_SKUS, MirrorReader
from backhaul.store.sql.stock_targets.count_coalescing import LISTED, OTHERS
from backhaul.store.sql.stock_targets.full_lists import ABSENT, LATER, UNMATCHED
from backhaul.store.sqlite.migrations.mirror import add_alphabets, create_spellings
from scenes.databases import make_database, opened

if TYPE_CHECKING:
    from pathlib import Path

ALPHA, BETA = "\u0391\u0392"


def steps(folder: Path, query: str) -> list[str]:
    """Return how a query searches an empty database."""
    path = folder / "b.db"
    make_database(path)
    values = dict.fromkeys(re.findall(r":([a-z_]+)", query), "")
    with closing(opened(path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
    return [row[3] for row in plan]


@pytest.mark.parametrize(
    "query",
    [ABSENT, UNMATCHED, LATER, LISTED],
    ids=["absent", "unmatched", "later", "listed"],
)
def test_a_list_is_found_by_indexes(query: str, tmp_path: Path) -> None:
    found = steps(tmp_path, query)
    assert found
    assert not any(step.startswith("SCAN") for step in found), found


def test_other_counts_of_an_article_are_found_by_an_index(tmp_path: Path) -> None:
    (step,) = steps(tmp_path, OTHERS)
    assert step.endswith("INDEX records_unmatched (instance=? AND <expr>=?)")


def test_near_skus_are_found_by_indexes(tmp_path: Path) -> None:
    found = steps(tmp_path, SIMILAR_SKUS)
    assert all(step.startswith(("SEARCH", "CORRELATED")) for step in found), found


def test_skus_of_an_earlier_version_are_found_by_their_looks() -> None:
    db = Database(memory=True)
    db.execute("CREATE TABLE variants (store TEXT, sku TEXT)")
    skus = ["AB", f"{ALPHA}{BETA}"]
    db.conn.executemany("INSERT INTO variants VALUES ('s', ?)", [(x,) for x in skus])
    create_spellings(db)
    db.execute("UPDATE sku_spellings SET near = lower(sku)")
    assert MirrorReader(db.conn).similar_skus("s", "AB") == []
    add_alphabets(db)
    assert MirrorReader(db.conn).similar_skus("s", "AB") == [f"{ALPHA}{BETA}"]
