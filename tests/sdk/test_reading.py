"""What connectors share to read rows: reasons as people write them, and times."""

from __future__ import annotations

from datetime import datetime

import pytest

from backhaul_connectors.courier.asking import Seen
from backhaul_connectors.file_drop.cursor import Cursor as Files
from backhaul_connectors.http_json.cursor import places_of
from backhaul_connectors.sql.cursor import Cursor as Tables
from backhaul_connectors.tryton.reading import Cursor as Shipments
from backhaul_sdk.reading import Unusable, reason_of, rfc3339
from backhaul_sdk.records import STOCK_REASONS


@pytest.mark.parametrize("text", ["STOCK_COUNT", "stock count", "Stock-Count"])
def test_a_reason_is_known_however_it_is_written(text: str) -> None:
    assert reason_of(text, STOCK_REASONS, "RETURN") == "STOCK_COUNT"


def test_no_reason_is_the_default_and_another_is_refused() -> None:
    assert reason_of("", STOCK_REASONS, "RETURN") == "RETURN"
    with pytest.raises(Unusable, match="'sold' is unknown; use CORRECTION, "):
        reason_of("sold", STOCK_REASONS, "RETURN")


def test_times_are_told_in_utc() -> None:
    at = datetime.fromisoformat("2026-03-31T14:05:00.5+02:00")
    assert rfc3339(at) == "2026-03-31T12:05:00.500000Z"
    assert rfc3339(at, "milliseconds") == "2026-03-31T12:05:00.500Z"


SHAPES = ["{", "[]", "[1]", "7", '"x"', '{"x": 1}', '{"x": [[], {}]}', "[" * 100_000]
ENDLESS = ['{"asked_at": 1, "words": 1}', '{"size": 1e999}', '["", 1e999, 0, 0]']


@pytest.mark.parametrize("text", [*SHAPES, *ENDLESS])
def test_a_cursor_of_another_shape_is_the_beginning(text: str) -> None:
    assert Seen.from_text(text) == Seen()
    assert Files.from_text(text) == Files()
    assert Tables.from_text(text) == Tables({})
    assert Shipments.from_text(text) == Shipments()
    assert places_of(text) == {}
