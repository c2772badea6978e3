"""What connectors share to parse rows: reasons, times and cursors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.core.clock import from_text
from backhaul_connectors.courier.polling import SeenStatuses
from backhaul_connectors.file_drop.files import FileCursor as Files
from backhaul_connectors.http_json.client import positions_of
from backhaul_connectors.sql.cursor import SqlCursor as Tables
from backhaul_connectors.tryton.reader import TrytonCursor as Shipments
from backhaul_sdk.erp import ErpCursor
from backhaul_sdk.fields import Unusable, parse_time, reason_of, rfc3339
from backhaul_sdk.records import STOCK_REASONS


@pytest.mark.parametrize("text", ["STOCK_COUNT", "stock count", "Stock-Count"])
def test_a_reason_is_known_however_it_is_written(text: str) -> None:
    assert reason_of(text, STOCK_REASONS, "RETURN") == "STOCK_COUNT"


def test_no_reason_is_the_default_and_another_is_refused() -> None:
    assert reason_of("", STOCK_REASONS, "RETURN") == "RETURN"
    with pytest.raises(Unusable, match="'sold' is unknown; use CORRECTION, "):
        reason_of("sold", STOCK_REASONS, "RETURN")


def test_times_are_returned_in_utc() -> None:
    at = datetime.fromisoformat("2026-03-31T14:05:00.5+02:00")
    assert rfc3339(at) == "2026-03-31T12:05:00.500000Z"
    assert rfc3339(at, "milliseconds") == "2026-03-31T12:05:00.500Z"


ZONES = st.integers(-23 * 60, 23 * 60).map(lambda m: timezone(timedelta(minutes=m)))


@given(
    st.datetimes(timezones=ZONES),
    st.from_regex(r"(\.[0-9]{1,12})?", fullmatch=True),
    st.sampled_from("Tt "),
    st.booleans(),
)
def test_a_time_is_read_as_the_platforms_times_are(
    at: datetime, fraction: str, between: str, small: bool
) -> None:
    text = at.replace(microsecond=0).isoformat(between)
    text = f"{text[:19]}{fraction}{text[19:]}".replace("+00:00", "z" if small else "Z")
    assert parse_time(text) == from_text(text)
    assert parse_time(text).utcoffset() == at.utcoffset()


def test_a_time_without_an_offset_stays_without() -> None:
    assert parse_time("2026-03-31t14:05").tzinfo is None
    assert parse_time("2026-03-31T14:05Z").tzinfo is UTC


SHAPES = ["{", "[]", "[1]", "7", '"x"', '{"x": 1}', '{"x": [[], {}]}', "[" * 100_000]
ENDLESS = ['{"asked_at": 1, "words": 1}', '{"size": 1e999}', '["", 1e999, 0, 0]']


@pytest.mark.parametrize("text", [*SHAPES, *ENDLESS])
def test_a_cursor_of_another_shape_is_the_beginning(text: str) -> None:
    assert SeenStatuses.from_text(text) == SeenStatuses()
    assert Files.from_text(text) == Files()
    assert Tables.from_text(text) == Tables({})
    assert Shipments.from_text(text) == Shipments()
    assert ErpCursor.from_text(text) == ErpCursor()
    assert positions_of(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        '["2026-01-01", "", "", "", 0]',
        '["", "2026-01-01T00:00:00", "", "", 0]',
        '["", "", null, "", 0]',
        '["", "", "", true, 0]',
        '["", "", "", "", 1e999]',
        '["", "", "", "", NaN]',
        '["soon", "", "", "", 0]',
        '[7, "", "", "", 0]',
    ],
)
def test_a_cursor_of_an_erp_with_a_wrong_part_is_the_beginning(text: str) -> None:
    assert ErpCursor.from_text(text) == ErpCursor()


def test_a_cursor_of_an_erp_is_read_as_it_was_written() -> None:
    zone = "2026-01-01T00:00:00+00:00"
    cursor = ErpCursor(zone, zone, "DN-1", 7, 12.5)
    assert ErpCursor.from_text(cursor.to_text()) == cursor
