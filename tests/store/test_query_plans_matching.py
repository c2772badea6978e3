"""Query plans for the matching of records, among many old records."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from backhaul.store.sql.mirror.lookup import SIMILAR_SKUS
from backhaul.store.sql.read_models import near_matches
from backhaul.store.sql.stock_targets.count_coalescing import LISTED, OTHERS
from backhaul.store.sql.stock_targets.full_lists import ABSENT, LATER, UNMATCHED
from scenes.databases import make_database, open_for_reading

if TYPE_CHECKING:
    from pathlib import Path


def steps(folder: Path, query: str) -> list[str]:
    """Return the plan of a query on an empty database."""
    path = folder / "b.db"
    make_database(path)
    values = dict.fromkeys(re.findall(r":([a-z_]+)", query), "")
    with closing(open_for_reading(path)) as connection:
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


@pytest.mark.parametrize(
    "query",
    [
        *(SIMILAR_SKUS, near_matches.SKUS_SPELLED, near_matches.SKUS_AFTER),
        *(near_matches.SKUS_BEFORE, near_matches.SKU_DETAIL),
        *(near_matches.ORDERS_NUMBERED, near_matches.ORDERS_NAMED),
        *(near_matches.ORDERS_REFERENCED, near_matches.ORDER_UNITS),
    ],
)
def test_near_matches_are_found_by_indexes(query: str, tmp_path: Path) -> None:
    found = steps(tmp_path, query)
    allowed = ("SEARCH", "CORRELATED", "LIST SUBQUERY", "USE TEMP B-TREE")
    scans = [
        step for step in found if not step.startswith((*allowed, "SCAN json_each"))
    ]
    assert not scans, found


def test_carriers_are_read_from_the_newest_parcels_alone(tmp_path: Path) -> None:
    found = steps(tmp_path, near_matches.CARRIERS)
    assert any("SEARCH shipments USING INDEX" in step for step in found), found
