"""Which text is a carrier's label, and its tracking number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.scanner.labels import label_of, tracking_number
from backhaul_connectors.scanner.scan import ScanRefused

if TYPE_CHECKING:
    from collections.abc import Callable

SSCC = "106141412345678908"
USPS = "9400111899223818218407"


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (SSCC, f"00{SSCC}"),
        (f"]C100{SSCC}", f"00{SSCC}"),
        (f"00{SSCC}", f"00{SSCC}"),
        (f"(00){SSCC}", f"00{SSCC}"),
        (f"[00]{SSCC}", f"00{SSCC}"),
        (f"\x1d00{SSCC}", f"00{SSCC}"),
        (f"https://id.gs1.org/00/{SSCC}", f"00{SSCC}"),
        ("]C100340434161094042557", "00340434161094042557"),
        ("1Z999AA10123456784", "1Z999AA10123456784"),
        ("]C01z999aa10123456784", "1Z999AA10123456784"),
        ("1Z 999 AA1 01 2345 6784", "1Z999AA10123456784"),
        ("JJD000390007882823423", "JJD000390007882823423"),
        ("JD014600003828392837", "JD014600003828392837"),
        ("JVGL06223461000123456", "JVGL06223461000123456"),
        ("RR123456785DE", "RR123456785DE"),
        ("3SABCD123456789", "3SABCD123456789"),
        ("TBA123456789012", "TBA123456789012"),
        ("6A12345678901", "6A12345678901"),
        (USPS, USPS),
        (f"42010001{USPS}", USPS),
        (f"]C142010001\x1d{USPS}", USPS),
        (f"420100011234{USPS}", USPS),
        ("9611020987654312345672", "987654312345672"),
        ("1001921334250001000300779017972697", "779017972697"),
        ("%007110601505123456789101276", "01505123456789"),
    ],
)
def test_a_carriers_label_is_the_parcels(code: str, number: str) -> None:
    found = label_of(code)
    assert found is not None
    assert found.number == number


@pytest.mark.parametrize(
    "code",
    ["LS-XL", "1001", "4006381333931", "BD1", "0104006381333931", "JD22", "SF-100"],
)
def test_text_that_is_no_label_is_not_read_as_one(code: str) -> None:
    assert label_of(code) is None


@pytest.mark.parametrize(
    "code",
    [
        "106141412345678909",
        f"(00){SSCC[:-1]}9",
        "1Z999AA10123456785",
        "RR123456789DE",
        f"42010001{USPS[:-1]}8",
        "9611020987654312345673",
        "1001921334250001000300779017972698",
    ],
)
def test_a_label_that_was_misread_is_refused(code: str) -> None:
    with pytest.raises(ScanRefused, match="check digit"):
        label_of(code)


def test_the_postcode_of_a_label_is_not_its_number() -> None:
    with pytest.raises(ScanRefused, match="postcode of a parcel's label"):
        label_of("]C142010001")


@pytest.mark.parametrize(
    ("given_number", "number"),
    [
        ("]C100340434161094042557", "00340434161094042557"),
        ("(00)340434161094042557", "00340434161094042557"),
        ("]C0BD1", "BD1"),
        ("]X0BD1", "BD1"),
        ("]C1BD-1/2", "BD-1/2"),
        ("\x1dBD1", "BD1"),
        ("BD1\x1d", "BD1"),
        (f"42010001{USPS}", USPS),
        (f"42010001\x1d{USPS}", USPS),
        (f"]C142010001{USPS}", USPS),
        ("1001921334250001000300779017972697", "779017972697"),
        ("BD1", "BD1"),
        ("420-17", "420-17"),
        ("42000017", "42000017"),
        ("ZZ 1", "ZZ 1"),
    ],
)
def test_a_tracking_number_loses_characters_of_the_scanner(
    given_number: str, number: str
) -> None:
    assert tracking_number(given_number) == number


@pytest.mark.parametrize(
    "given_number",
    [f"42010001{USPS[:-1]}8", "https://carrier.example/track/BD1", "]C142010001"],
)
def test_no_wrong_number_reaches_a_buyer(given_number: str) -> None:
    with pytest.raises(ScanRefused):
        tracking_number(given_number)


@given(
    st.from_regex(r"9[1-5][0-9]{19}", fullmatch=True),
    st.from_regex(r"[0-9]{5}([0-9]{4})?", fullmatch=True),
    st.sampled_from(["", "]C1", "\x1d"]),
    st.sampled_from(["", "\x1d"]),
)
def test_any_postcode_before_a_number_is_cut(
    payload: str, postcode: str, prefix: str, separator: str
) -> None:
    number = numbered(payload)
    code = f"{prefix}420{postcode}{separator}{number}"
    longer = f"{postcode[5:]}{number}"
    reads_twice = longer[0] == "9" and longer != number == numbered(longer[:-1])[-22:]
    if reads_twice and not separator:
        with pytest.raises(ScanRefused, match=f"{longer} or {number}"):
            tracking_number(code)
    else:
        assert tracking_number(code) == number


def numbered(payload: str) -> str:
    """Return the digits with their check digit."""
    weighed = sum(int(d) * (3, 1)[n % 2] for n, d in enumerate(reversed(payload)))
    return f"{payload}{-weighed % 10}"


def scanned(code: str) -> str:
    label = label_of(code)
    assert label is not None
    return label.number


@pytest.mark.parametrize("read", [tracking_number, scanned])
def test_a_separator_ends_the_postcode(read: Callable[[str], str]) -> None:
    """Without it, ZIP+4 and the number read as a ZIP and a longer number as well."""
    number = "9100000000000000000002"
    assert read(f"420000009164\x1d{number}") == number
    with pytest.raises(ScanRefused, match=f"9164{number} or {number}"):
        read(f"420000009164{number}")
