"""A field has the same value, or is refused for the same reason, in every connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_sdk.fields import parse_time
from connectors import reading_paths as paths
from connectors.reading_paths import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    Path = Callable[[str, Any], Any]
    Case = tuple[Any, Any]

FILES: list[Path] = [paths.of_json_lines, paths.of_spreadsheet]
TYPED: list[Path] = [paths.of_table, paths.of_page]
EVERY: list[Path] = [*FILES, *TYPED]

LOST = Refused("digits are lost")
NO_TIME = Refused("is not a time: ")
NOTHING = ["n/a", "NULL", "nan", "-", "", None]
CODES: list[Case] = [
    ("1001", "1001"),
    (1001, "1001"),
    (1001.0, "1001"),
    ('="0034"', "0034"),
    ("'0034", "0034"),
    ("\u200bJD1\u200b", "JD1"),
    (" JD 1 ", "JD 1"),
    ("'NA", "NA"),
    ("'1234567890123450", "1234567890123450"),
    ('=HYPERLINK("https://t.example/";"JD1")', "JD1"),
    ("7.94658E+11", LOST),
    ("9400111899223810000000", LOST),
    (9.40011189922381e21, LOST),
    ("#N/A", Refused("a formula without a result")),
    ("=A1", Refused("is a formula, not a value")),
    ("JD1\nJD2", Refused("line break or another control character")),
    ("1" * 501, Refused("more than 500 characters")),
]
FRACTION: list[Case] = [(2.5, Refused("must be a text or a whole number, not 2.5"))]
POINT_ZERO: list[Case] = [("794658123456.0", "794658123456")]
REQUIRED: list[Case] = [(each, Refused("is empty")) for each in NOTHING]
OPTIONAL: list[Case] = [(each, None) for each in NOTHING]
KEYS: list[Case] = [(each, Refused("is empty")) for each in ("n/a", "NULL", "-", "")]
NAMES: list[Case] = [
    ("DHL", "DHL"),
    (" DHL\u200b ", "DHL"),
    ("'NA", "NA"),
    ("DHL\nExpress", "DHL Express"),
    ("#REF!", Refused("a formula without a result")),
    (2.5, Refused("must be a text")),
]
ANSWERS: list[Case] = [
    ("yes", True),
    ("N", False),
    (" TRUE ", True),
    ("'1", True),
    (1, True),
    (0.0, False),
    (True, True),
    ("maybe", Refused("restock must be yes or no, not 'maybe'")),
    ("n/a", Refused("restock must be yes or no, not 'n/a'")),
    ("", Refused("restock must be yes or no, not ''")),
    (2, Refused("restock must be yes or no, not ")),
]
REASONS: list[Case] = [
    ("damaged", "DAMAGED"),
    ("stock count", "STOCK_COUNT"),
    ("'Stock-Count", "STOCK_COUNT"),
    ("", "MANUAL_ADJUSTMENT"),
    (None, "MANUAL_ADJUSTMENT"),
    ("FRAUD", Refused("reason 'FRAUD' is unknown; use CORRECTION, DAMAGED")),
    ("n/a", Refused("reason 'n/a' is unknown; use CORRECTION")),
    (7, Refused("reason '7' is unknown")),
]
TIMES: list[Case] = [
    ("2026-03-31T14:05:06Z", "2026-03-31T14:05:06Z"),
    ("2026-03-31 14:05:06+02:00", "2026-03-31T12:05:06Z"),
    ("'2026-03-31T14:05:06Z", "2026-03-31T14:05:06Z"),
    ("\u200b2026-03-31t14:05:06.5z ", "2026-03-31T14:05:06.500Z"),
    ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
    ("soon", NO_TIME),
    ("n/a", NO_TIME),
    ("2026-02-30T14:05:06Z", NO_TIME),
    ("31.03.2026 14:05", NO_TIME),
    ("1767225600", NO_TIME),
    ("2026033110500", NO_TIME),
    ("0001-01-01T00:00+10:00", NO_TIME),
    (True, NO_TIME),
]
NUMBERS: list[Case] = [
    (1_767_225_600, "2026-01-01T00:00:00Z"),
    (1_767_225_600_000, "2026-01-01T00:00:00Z"),
    (1_767_225_600.5, "2026-01-01T00:00:00.500Z"),
]
IMPLAUSIBLE = [0, 46112, 46112.5, 20260331140500]
NO_NUMBERS: list[Case] = [(each, NO_TIME) for each in IMPLAUSIBLE]
NO_DIGITS: list[Case] = [(20260331, NO_TIME), (-1, NO_TIME)]
LEFT_OUT: list[Case] = [(each, None) for each in IMPLAUSIBLE]
LOCAL: list[Case] = [
    ("2026-03-31T14:05", "2026-03-31T12:05:00Z"),
    ("2026-10-25T02:30", Refused("exists twice in Europe/Berlin")),
    ("2026-03-29T02:30", Refused("does not exist in Europe/Berlin")),
]
DAY, DAY_BEGINS = "2026-03-31", "2026-03-30T22:00:00Z"
NO_DAY: list[Case] = [(DAY, Refused("is a day without a time of day: '2026-03-31'"))]
NO_ZONE: list[Case] = [("2026-03-31T14:05", Refused("has no time zone: '2026-"))]
COURIERS, TRYTON, SCANS = paths.of_courier, paths.of_tryton, paths.of_scan
TABLE: list[tuple[str, Sequence[Path], list[Case]]] = [
    ("order", [*EVERY, COURIERS, TRYTON], [*CODES, *FRACTION, *POINT_ZERO]),
    ("order", [*EVERY, TRYTON], REQUIRED),
    ("order", [COURIERS], OPTIONAL),
    ("sku", [*EVERY, COURIERS, TRYTON], CODES),
    ("sku", [*EVERY, COURIERS, TRYTON], [("10.0", "10.0")]),
    ("sku", [*TYPED, COURIERS, TRYTON], FRACTION),
    ("sku", EVERY, REQUIRED),
    ("sku", [COURIERS, TRYTON], [(each, Refused("has no ")) for each in NOTHING]),
    ("tracking_number", [*EVERY, COURIERS, TRYTON], [*CODES, *FRACTION, *POINT_ZERO]),
    ("tracking_number", [*EVERY, TRYTON], OPTIONAL),
    ("tracking_number", [COURIERS], REQUIRED),
    ("tracking_number", [SCANS], [*POINT_ZERO, *OPTIONAL, ("7.9E+11", LOST)]),
    ("tracking_company", [*EVERY, COURIERS, TRYTON], [*NAMES, *OPTIONAL]),
    ("tracking_company", [SCANS], [("DHL", "DHL"), *OPTIONAL]),
    ("restock", EVERY, ANSWERS),
    ("reason", EVERY, REASONS),
    ("as_of", [*EVERY, COURIERS, SCANS], TIMES),
    ("as_of", [*TYPED, COURIERS, SCANS], NUMBERS),
    ("as_of", [*EVERY, SCANS], NO_NUMBERS),
    ("as_of", [*TYPED, SCANS], NO_DIGITS),
    ("shipped_at", [paths.of_table, COURIERS], LEFT_OUT),
    ("as_of", [*FILES, paths.of_table], LOCAL),
    ("as_of", [*TYPED, SCANS], NO_DAY),
    ("as_of", [paths.of_page, SCANS], NO_ZONE),
    ("as_of", [COURIERS], [(DAY, None), ("2026-03-31T14:05", None), ("", None)]),
    ("as_of", FILES, [(DAY, DAY_BEGINS)]),
    ("shipped_at", [*FILES, paths.of_table], [(DAY, DAY_BEGINS), ("", None)]),
    ("shipped_at", [*EVERY, COURIERS, SCANS], TIMES),
    ("key", [*EVERY, SCANS], KEYS[:-1]),
    ("key", EVERY, KEYS[-1:]),
]


@pytest.mark.parametrize(
    ("field", "read", "cases"),
    [
        pytest.param(field, path, cases, id=f"{number} {field} {path.__name__}")
        for number, (field, readers, cases) in enumerate(TABLE)
        for path in readers
    ],
)
def test_a_field_means_the_same_everywhere(
    field: str, read: Path, cases: list[Case]
) -> None:
    found = [(cell, read(field, cell)) for cell, _ in cases]
    assert [_as_expected(*each) for each in zip(found, cases, strict=True)] == cases


def _as_expected(found: Case, case: Case) -> Case:
    """Return what was found; the expected answer if it says the same."""
    (cell, answer), (_, expected) = found, case
    if isinstance(answer, Refused) and isinstance(expected, Refused):
        return case if expected.reason in answer.reason else found
    if isinstance(answer, str) and isinstance(expected, str) and answer != expected:
        is_same = _moment(answer) is not None and _moment(answer) == _moment(expected)
        return case if is_same else found
    return cell, answer


def _moment(text: str) -> datetime | None:
    try:
        return parse_time(text)
    except ValueError:
        return None


def test_two_keys_stay_apart() -> None:
    for read in (paths.of_page, SCANS):
        assert read("key", "10.0") != read("key", "10")
        assert read("key", 10) == read("key", "10") == read("key", 10.0)
