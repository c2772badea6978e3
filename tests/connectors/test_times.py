"""Every connector reads every RFC 3339 form of a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import from_text
from backhaul_connectors.sql.values import earlier, is_long_before, latest
from backhaul_sdk import StockLevel
from backhaul_sdk.fields import Unusable
from connectors import reading_paths as paths
from connectors.dropping import Drop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

WRITTEN = [
    ("2026-03-31t14:05:06z", "2026-03-31T14:05:06.000Z"),
    ("2026-03-31T14:05:06z", "2026-03-31T14:05:06.000Z"),
    ("2026-03-31t14:05:06Z", "2026-03-31T14:05:06.000Z"),
    ("2026-03-31 14:05:06z", "2026-03-31T14:05:06.000Z"),
    ("2026-03-31 14:05:06+02:00", "2026-03-31T12:05:06.000Z"),
    ("2026-03-31t14:05:06.5+02:00", "2026-03-31T12:05:06.500Z"),
    ("2026-03-31T14:05:06.1234567z", "2026-03-31T14:05:06.123Z"),
    ("2026-03-31T14:05:06.123456789012345678Z", "2026-03-31T14:05:06.123Z"),
    ("2026-03-31T14:05:06-00:00", "2026-03-31T14:05:06.000Z"),
    ("2016-12-31t23:59:60z", "2017-01-01T00:00:00.000Z"),
    ("2017-01-01T00:59:60.25+01:00", "2017-01-01T00:00:00.250Z"),
    (" 2026-03-31T14:05:06Z ", "2026-03-31T14:05:06.000Z"),
]
NO_TIMES = [
    "2026-03-31T14:05:60Z",
    "2026-03-31T25:05:06Z",
    "2026-02-30T14:05:06Z",
    "9999-12-31T23:59:60Z",
    "2026-03-31T14:05:06ZZ",
    "t14:05z",
    "z",
]


def of_a_cursor(_: str, text: str) -> str | paths.Refused:
    """Return the time of a row in the order in which tables are read."""
    try:
        return latest(text, UTC, "changed_at").isoformat()
    except Unusable as error:
        return paths.Refused(str(error))


READERS: dict[str, Callable[[str, str], Any]] = {
    "http_json": paths.of_page,
    "sql": paths.of_table,
    "sql cursor": of_a_cursor,
    "scanner": paths.of_scan,
    "courier": paths.of_courier,
}


def same_moment(found: str, moment: str) -> bool:
    apart = from_text(found) - from_text(moment)
    return abs(apart.total_seconds()) < 0.001


@pytest.mark.parametrize("connector", READERS)
@pytest.mark.parametrize(("text", "moment"), WRITTEN)
def test_a_connector_reads_the_time(connector: str, text: str, moment: str) -> None:
    assert same_moment(READERS[connector]("as_of", text), moment)


@pytest.mark.parametrize("connector", READERS)
@pytest.mark.parametrize("text", NO_TIMES)
def test_a_connector_refuses_text_that_is_no_time(connector: str, text: str) -> None:
    refused = READERS[connector]("as_of", text)
    assert isinstance(refused, paths.Refused)
    assert "is not a time" in refused.reason


async def test_a_file_has_times_of_every_spelling(tmp_path: Path) -> None:
    drop = Drop(tmp_path, {"max_bad_share": 1})
    rows = [
        {"sku": f"S{number}", "quantity": 1, "as_of": text}
        for number, text in enumerate([text for text, _ in WRITTEN] + NO_TIMES)
    ]
    drop.put("stock-levels.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    await drop.pull()
    found = {x.sku: x.as_of for x in drop.records() if isinstance(x, StockLevel)}
    assert len(found) == len(WRITTEN)
    for number, (_, moment) in enumerate(WRITTEN):
        assert same_moment(found[f"S{number}"], moment)
    assert len(drop.reasons()) == len(NO_TIMES)


def test_an_earlier_time_keeps_its_spelling() -> None:
    assert earlier("2026-03-31t14:05:06.5z", 66) == "2026-03-31t14:04:00"


def test_an_old_time_of_any_spelling_is_known_to_be_old() -> None:
    assert is_long_before("2026-03-31t14:05:06z", datetime(2026, 4, 3, tzinfo=UTC))
