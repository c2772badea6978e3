"""Fields as people and programs write them: identifiers, keys, numbers and words."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_sdk.fields import (
    Unusable,
    identifier,
    key,
    label,
    plain,
    reason,
    whole_number,
    word,
    yes_or_no,
)
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

NUMBER = "794658123456"
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202a\u2066\u034f\ufe0f\u3164"


@pytest.mark.parametrize(
    "cell",
    [
        NUMBER,
        f'="{NUMBER}"',
        f'= "{NUMBER}"',
        f"={NUMBER}",
        f"'{NUMBER}",
        f"\N{RIGHT SINGLE QUOTATION MARK}{NUMBER}",
        f"'{NUMBER}'",
        f'"{NUMBER}"',
        f'=" {NUMBER} "',
        f'\'="{NUMBER}"',
        f"{NUMBER}.0",
        f"{NUMBER},0",
        f"{NUMBER}.00",
        f'="{NUMBER}.0"',
        f"\u200b{NUMBER}\u200b",
        f"\ufeff{NUMBER}",
        f"\xa0{NUMBER}\u3000",
        f"{NUMBER}\r\n",
        f"\x02{NUMBER}\x03",
        f"{NUMBER[:4]}\u200b{NUMBER[4:]}",
        f"'\u200b{NUMBER}",
        f'=HYPERLINK("https://t.example/?n={NUMBER}","{NUMBER}")',
        f'=HYPERLINK("https://t.example/?n={NUMBER}";"{NUMBER}")',
        f'=hyperlink( "https://t.example/?a=1,2;3" ; "{NUMBER}" )',
        f'=HYPERLINK("https://t.example/?n="&A2,"{NUMBER}")',
        f'=HYPERLINK(A2;"{NUMBER}")',
        f'=HYPERLINK("https://t.example/",{NUMBER})',
        f'=HYPERLINK("https://t.example/",{NUMBER}.0)',
        f'HYPERLINK("https://t.example/","{NUMBER}")',
        f'=LIEN_HYPERTEXTE("https://t.example/";"{NUMBER}")',
        f'=HYPERLINK("https://t.example/";"\'{NUMBER}")',
        794658123456,
        794658123456.0,
        Decimal("794658123456.00"),
    ],
)
def test_an_identifier_is_read_without_spreadsheet_decoration(cell: object) -> None:
    assert identifier(cell, "tracking number") == NUMBER


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("", ""),
        (None, ""),
        ("\u200b", ""),
        ('=""', ""),
        ("'", ""),
        ("#1001", "#1001"),
        ("00012", "00012"),
        ("JD 004", "JD 004"),
        ("12E3", "12E3"),
        ("ITEM-1.0", "ITEM-1.0"),
        ("12.000", "12.000"),
        ("1.5", "1.5"),
        ('12"', '12"'),
        ("'=A1", "=A1"),
        ('="say ""hi"""', 'say "hi"'),
        ("-5", "-5"),
        ("Größe\u00a0L", "Größe\u00a0L"),
        ("00340434161094042557", "00340434161094042557"),
        ("123456789012345", "123456789012345"),
        ("100000000000000", "100000000000000"),
        ("'1234567890123450", "1234567890123450"),
        ('="12345678901234500"', "12345678901234500"),
    ],
)
def test_the_rest_of_an_identifier_stays_as_it_is(cell: object, text: str) -> None:
    assert identifier(cell, "sku") == text


NOTHING = [
    *("nan", "NaN", "NAN", "N/A", "n/a", "NA", "<NA>", "NULL", "null", "<null>"),
    *("(null)", "[NULL]", "None", "none", "NIL", "undefined", "\\N", "k.A.", "n.a."),
    *(
        "-",
        "--",
        " - ",
        "\u2013",
        "\u2014",
        "\u2212",
        "- -",
        "?",
        "...",
        "/",
        "_",
        "()",
    ),
    *('="N/A"', '"NULL"', "\u200bnan", "'None'", float("nan"), Decimal("sNaN")),
]


@pytest.mark.parametrize("cell", NOTHING)
def test_a_placeholder_is_no_identifier(cell: object) -> None:
    assert identifier(cell, "tracking number") == ""
    assert identifier(cell, "sku", is_text=True) == ""
    assert label(cell, "carrier") == ""


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        *(("'N/A", "N/A"), ("'-", "-"), ("\u2019None", "None")),
        *(("NAN-1", "NAN-1"), ("NULL2", "NULL2"), ("Nonesuch", "Nonesuch")),
        *(("A-", "A-"), ("-1", "-1"), ("0", "0"), ("<NA>1", "<NA>1"), ("NaN NaN",) * 2),
        *(("+", "+"), ("\u2605", "\u2605"), ("DHL (NA)", "DHL (NA)")),
    ],
)
def test_text_that_only_resembles_a_placeholder_is_kept(cell: str, text: str) -> None:
    assert identifier(cell, "sku") == text
    assert label(cell, "carrier") == text


@pytest.mark.parametrize(
    "cell",
    [
        *("#N/A", "#n/a", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#DIV/0!"),
        *("#NV", "#BEZUG!", "#WERT!", "#ZAHL!", "#N/D", "#VALEUR!", "#NOM?", "#RIF!"),
        *("#\u00a1REF!", "#\u00bfNOMBRE?", "#N/B", "#WAARDE!", "#ERROR!", "#CALC!"),
        *("#GETTING_DATA", "Err:502", '="#N/A"', "'#REF!"),
    ],
)
def test_an_error_of_a_spreadsheet_is_refused(cell: str) -> None:
    for read in (identifier, label):
        with pytest.raises(Unusable, match="a formula without a result"):
            read(cell, "carrier")


@pytest.mark.parametrize("text", ["#1001", "#A1", "#NV1", "Err:5", "#N/A-7", "##1"])
def test_text_that_only_resembles_an_error_is_kept(text: str) -> None:
    assert identifier(text, "order") == text


def test_a_column_that_was_too_narrow_is_refused() -> None:
    with pytest.raises(Unusable, match="if a column is too narrow"):
        identifier("########", "tracking number")


@pytest.mark.parametrize(
    ("value", "is_text", "said"),
    [
        ("7.9E+11", False, "the spreadsheet turned the tracking number into 7.9E+11"),
        ("7.9E+11", True, "tracking number is '7.9E+11', the text of a rounded number"),
        (7.94658e20, True, "the tracking number came as the number 7.946580E+20"),
        (7.94658e20, False, "the tracking number came as the number 7.946580E+20"),
    ],
)
def test_lost_digits_are_reported_as_such(
    value: object, is_text: bool, said: str
) -> None:
    with pytest.raises(Unusable, match=re.escape(said)):
        identifier(value, "tracking number", is_text=is_text)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("7.94658E11", "digits are lost; format the column as text"),
        ("7.94658E+11", "digits are lost"),
        ("7,94658E+11", "digits are lost"),
        ("7.9e11", "digits are lost"),
        ("8E+12", "digits are lost"),
        ("-1.2E-05", "digits are lost"),
        ("7.9E +11", "digits are lost"),
        ('="7.94658E+11"', "digits are lost"),
        ("'7.94658E+11", "digits are lost"),
        ("9400111899223810000000", "digits are lost"),
        ('="9400111899223810000000"', "digits are lost"),
        ("9400111899223810000000.0", "digits are lost"),
        ("1234567890123450", "write '1234567890123450 if it ends so"),
        (9.40011189922381e21, "digits are lost"),
        ('=HYPERLINK("https://t.example/?n=JD0100")', "a formula, not a value"),
        ('=HYPERLINK("https://t.example/a,b")', "a formula, not a value"),
        ("=HYPERLINK(A1,B1)", "a formula, not a value"),
        ('=HYPERLINK("a","b"&"c")', "a formula, not a value"),
        ('=HYPERLINK("a","b","c")', "a formula, not a value"),
        ('="a"&"b"', "a formula, not a value"),
        ("=A1", "a formula, not a value"),
        ("+SUM(A1:A2)", "a formula, not a value"),
        ("#N/A", "a formula without a result"),
        ('="#REF!"', "a formula without a result"),
        ("JD005\nJD006", "write one value in each row"),
        ("JD\x1d005", "control character inside"),
        ("1" * 501, "more than 500 characters"),
        (10**501, "more than 500 characters"),
        (True, "must be a text or a whole number"),
        (2.5, "must be a text or a whole number, not 2.5"),
        (float("inf"), "must be a text or a whole number"),
        (b"JD", "the tracking number holds bytes that are not UTF-8 text: x'4a44'"),
        ({"a": 1}, "must be a text or a whole number"),
    ],
)
def test_an_identifier_that_lost_its_value_is_refused(cell: object, said: str) -> None:
    with pytest.raises(Unusable) as refused:
        identifier(cell, "tracking number")
    assert said in str(refused.value)
    assert "tracking number" in str(refused.value)


def test_a_system_may_end_its_numbers_with_zeros() -> None:
    assert identifier("1234567890123450", "order", is_text=True) == "1234567890123450"
    with pytest.raises(Unusable, match="digits are lost"):
        identifier("9400111899223810000000", "order", is_text=True)


@given(st.text(), st.text(alphabet=INVISIBLE, max_size=3))
def test_invisible_characters_and_blanks_around_change_nothing(
    text: str, noise: str
) -> None:
    assert plain(f" {noise}{text}{noise}\t") == plain(text)
    assert plain(plain(text)) == plain(text)
    assert not any(letter in INVISIBLE for letter in plain(text))


@given(st.from_regex(r"[A-Z0-9]{1,4}-?[0-9]{1,9}[1-9]", fullmatch=True))
def test_every_wrapper_around_an_identifier_is_removed(text: str) -> None:
    link = f'=HYPERLINK("https://t.example/?n={text}";"{text}")'
    cells = [f'="{text}"', f"'{text}", f"\u200b{text}\u200b", link]
    assert {identifier(cell, "order") for cell in cells} == {text}


def is_bare(text: str) -> bool:
    """Tell whether no quotation mark is first or last, which more marks would hide."""
    return not {text[:1], text[-1:]} & set("'\"=\u2018\u2019")


@given(st.text(max_size=60))
def test_any_text_is_an_identifier_or_refused(text: str) -> None:
    try:
        found = identifier(text, "sku")
    except Unusable:
        return
    assert found == plain(found)
    assert not is_bare(found) or identifier(f"'{found}", "sku") == found


@pytest.mark.parametrize(
    ("value", "decimal", "number"),
    [
        ("5", "auto", 5),
        ("'5", "auto", 5),
        ('="5"', "auto", 5),
        ("\u200b5", "auto", 5),
        ("5-", "auto", -5),
        ("-0", "auto", 0),
        ("5,00", "auto", 5),
        ("1.012,00", "auto", 1012),
        ("1.012", ",", 1012),
        ("1,012", ".", 1012),
        ("5.000", "system", 5),
        (5, ",", 5),
        (5.0, ",", 5),
        (1e3, ",", 1000),
        (-0.0, ",", 0),
        (Decimal("2.000"), ",", 2),
    ],
)
def test_a_whole_number(value: object, decimal: Any, number: int) -> None:
    assert whole_number(value, "quantity", decimal) == number


@pytest.mark.parametrize("decimal", ["auto", ".", ",", "system"])
@pytest.mark.parametrize(
    "value",
    [
        2.125,
        1.234,
        12.5,
        Decimal("2.125"),
        True,
        False,
        None,
        float("nan"),
        float("inf"),
        Decimal("sNaN"),
        Decimal("1e999999999"),
        10**30,
        1e300,
        [5],
        "",
        "1e3",
        "1E+3",
        "five",
        "5 pcs",
        "\u0665",
        "0x10",
        "1_000",
        "1.2.3",
        "9" * 5000,
    ],
)
def test_text_that_is_no_whole_number_is_refused(value: object, decimal: Any) -> None:
    with pytest.raises(Unusable, match="quantity must be a whole number, not"):
        whole_number(value, "quantity", decimal)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**6))
def test_a_number_has_no_locale(value: Decimal) -> None:
    found: list[int | None] = []
    for decimal in ("auto", ".", ",", "system"):
        try:
            found.append(whole_number(value, "quantity", decimal))
        except Unusable:
            found.append(None)
    assert len(set(found)) == 1
    assert found[0] in (None, value)


@pytest.mark.parametrize("text", ["1.000", "2.125", "1,000"])
def test_an_ambiguous_separator_requires_the_decimal_setting(text: str) -> None:
    with pytest.raises(Unusable, match=r'number is \d+: set decimal = "[.,]"'):
        whole_number(text, "quantity")


@pytest.mark.parametrize(
    ("value", "is_yes"),
    [(True, True), (0, False), ("Yes", True), ("'1", True), ("f", False), (1.0, True)],
)
def test_yes_or_no(value: object, is_yes: bool) -> None:
    assert yes_or_no(value, "restock") is is_yes


@pytest.mark.parametrize("value", ["", "maybe", None, 2, 0.5, [1]])
def test_neither_yes_nor_no_is_refused(value: object) -> None:
    with pytest.raises(Unusable, match="restock must be yes or no"):
        yes_or_no(value, "restock")


def test_a_reason_is_mapped_or_refused_with_the_valid_ones() -> None:
    words = {"Bruch": "DAMAGED", "in-house use": "SHRINKAGE"}
    assert reason(" bruch ", STOCK_REASONS, "OTHER", words) == "DAMAGED"
    assert reason("In House_Use", STOCK_REASONS, "OTHER", words) == "SHRINKAGE"
    assert reason("stock count", STOCK_REASONS, "OTHER", words) == "STOCK_COUNT"
    assert reason(None, STOCK_REASONS, "MANUAL_ADJUSTMENT") == "MANUAL_ADJUSTMENT"
    assert reason("lost", CANCEL_REASONS, "OTHER", {"*": "STAFF"}) == "STAFF"
    with pytest.raises(
        Unusable, match=r"'lost' is unknown; use CUSTOMER, .*reason_map"
    ):
        reason("lost", CANCEL_REASONS, "OTHER", {"Bruch": "OTHER"})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((7, "7"), (7.0, "7"), (" a-1\u200b", "a-1"), ("10.0", "10.0")),
        *(("'5", "'5"), ("", ""), (None, ""), ("n/a", ""), ("1234567890123450",) * 2),
    ],
)
def test_a_key_is_kept_as_written(value: object, text: str) -> None:
    assert key(value) == text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NULL", "the key is empty: 'NULL' stands for no value"),
        (None, "the key is empty"),
        (0.5, "the key must be a text or a whole number, not 0.5"),
        (True, "the key must be a text or a whole number"),
        (1e20, "digits are lost"),
        ("1.2E+20", "digits are lost"),
        ("a\nb", "control character"),
    ],
)
def test_a_key_that_several_rows_may_have_is_refused(value: object, said: str) -> None:
    with pytest.raises(Unusable, match=re.escape(said)):
        key(value, required=True)


def test_a_word_is_kept_and_may_be_a_placeholder() -> None:
    assert (word(" In transit ", "status"), word("n/a", "status")) == (
        "In transit",
        "n/a",
    )
    for nothing in (None, "", " "):
        with pytest.raises(Unusable, match="the status is empty"):
            word(nothing, "status")
