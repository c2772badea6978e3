"""GS1 codes: which part is the article or the parcel, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_connectors.scanner.codes import (
    article_of,
    order_of,
    parcel_of,
    plain,
    why_no_order,
)
from backhaul_connectors.scanner.labels import tracking_number
from backhaul_connectors.scanner.scan import ScanRefused

GTIN = "4006381333931"
SSCC = "106141412345678908"


@pytest.mark.parametrize(
    ("code", "article"),
    [
        ("LS-S", "LS-S"),
        ("1001", "1001"),
        (GTIN, GTIN),
        (f"]E0{GTIN}", GTIN),
        ("036000291452", "036000291452"),
        ("96385074", "96385074"),
        ("]C10104006381333931", GTIN),
        ("0104006381333931", GTIN),
        ("]d20104006381333931" + "10AB-123\x1d2112345", GTIN),
        ("\x1d010400638133393110AB\x1d21X", GTIN),
        ("(01)04006381333931(10)AB-123", GTIN),
        ("]Q30100036000291452", "036000291452"),
        ("https://id.gs1.org/01/04006381333931?10=AB", GTIN),
        ("https://shop.example/01/04006381333931/10/AB/21/X1", GTIN),
        ("12345", "12345"),
    ],
)
def test_an_article_is_found_in_every_form(code: str, article: str) -> None:
    assert article_of(code).name == article


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("4006381333932", "the check digit of 4006381333932 is wrong"),
        ("96385075", "the check digit of 96385075 is wrong"),
        ("036000291453", "check digit"),
        ("14006381333930", "check digit"),
        ("]C10104006381333932", "check digit of 04006381333932 is wrong"),
        ("(01)04006381333932", "check digit"),
        ("https://id.gs1.org/01/04006381333932", "check digit"),
        ("https://shop.example/sale", "names no variant"),
        (f"]C100{SSCC}", "contains no GTIN"),
        (SSCC, "number of a parcel"),
        ("106141412345678909", "check digit"),
        ("]C1nonsense", "cannot be read"),
        ("AB\x1dCD", "cannot be read"),
    ],
)
def test_a_code_that_names_no_article_is_refused(code: str, said: str) -> None:
    with pytest.raises(ScanRefused, match=said) as caught:
        article_of(code)
    assert caught.value.status == 422


@pytest.mark.parametrize("code", ["4006381333932", "96385075", "106141412345678909"])
def test_skus_may_be_numbers(code: str) -> None:
    assert article_of(code, numeric_skus=True).name == code


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("04252614", ("042100005264", "04252614")),
        ("]X004252614", ("042100005264", "04252614")),
        ("]E0042100005264", ("042100005264",)),
        ("01234565", ("012345000065", "01234565")),
        ("96385074", ("96385074",)),
        ("12345670", ("12345670", "123456000070")),
        ("[01]00036000291452[10]AB", ("036000291452",)),
        ("010003600029145210AB{GS}21123", ("036000291452",)),
        ("010003600029145210AB<GS>21123", ("036000291452",)),
        ("010003600029145210AB|21123", ("036000291452",)),
        ("010003600029145210AB~21123", ("036000291452",)),
        ("010003600029145210AB\u241d21123", ("036000291452",)),
        ("{FNC1}010003600029145210AB^]21123", ("036000291452",)),
        ("]C110AB|0100036000291452", ("036000291452",)),
    ],
)
def test_every_spelling_of_a_code_is_read(code: str, names: tuple[str, ...]) -> None:
    assert article_of(code).names == names


@pytest.mark.parametrize(
    ("code", "quantity", "units"),
    [
        ("(02)00036000291452(37)24", None, 24),
        ("(02)00036000291452(37)24", 24, 24),
        ("]C102000360002914523724", None, 24),
        ("(01)00036000291452(30)12", 12, 12),
        ("(01)00036000291452(37)24", None, 1),
        (GTIN, None, 1),
        (GTIN, 3, 3),
    ],
)
def test_a_code_may_state_its_units(
    code: str, quantity: int | None, units: int
) -> None:
    assert article_of(code).count(quantity) == units


@pytest.mark.parametrize(
    ("code", "quantity", "said"),
    [
        ("(02)00036000291452(37)24", 2, "the code itself says 24 units"),
        ("(02)00036000291452", None, "send quantity"),
        ("(01)00036000291452(30)12", None, "send quantity"),
    ],
)
def test_units_that_contradict_or_lack_are_refused(
    code: str, quantity: int | None, said: str
) -> None:
    with pytest.raises(ScanRefused, match=said):
        article_of(code).count(quantity)


@pytest.mark.parametrize("code", ["010003600029145299XX", "0100036000291452Z9"])
def test_an_unreadable_gs1_code_says_how_to_set_up_the_scanner(code: str) -> None:
    with pytest.raises(ScanRefused, match="cannot be read") as caught:
        article_of(code if code.endswith("Z9") else f"{code}{{GS}}Q")
    assert "FNC1 as GS" in str(caught.value)
    assert str(caught.value).isprintable()


LOTS = st.text(st.sampled_from("ABCXYZabc0123456789-/.+"), min_size=1, max_size=20)
SPELLINGS = ("\x1d", "{GS}", "<GS>", "[GS]", "|", "\u241d", "\\x1d", "^]", "~", "@")
PREFIXES = ("]C1", "]d2", "]Q3", "]e0", "\x1d", "]C1\x1d", "")


def with_check_digit(payload: str) -> str:
    weighed = sum(int(d) * (3, 1)[n % 2] for n, d in enumerate(reversed(payload)))
    return f"{payload}{-weighed % 10}"


@given(
    st.from_regex(r"[1-9]\d{12}", fullmatch=True).filter(str.isascii),
    LOTS,
    LOTS,
    st.sampled_from(SPELLINGS),
    st.sampled_from(PREFIXES),
    st.booleans(),
)
def test_any_gs1_string_names_its_article(
    payload: str, lot: str, serial: str, separator: str, prefix: str, first: bool
) -> None:
    gtin = with_check_digit(payload)
    parts = [f"01{gtin}", "17301231", f"10{lot}{separator}"]
    if prefix.startswith("]") and not first:
        parts.reverse()
    assert article_of(f"{prefix}{''.join(parts)}21{serial}").name == gtin
    bracketed = f"(01){gtin}(10){lot}(21){serial}"
    assert article_of(bracketed).name == gtin
    assert article_of(bracketed.replace("(", "[").replace(")", "]")).name == gtin


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    for read in (article_of, parcel_of, order_of, tracking_number, why_no_order):
        with suppress(ScanRefused):
            read(text)


@pytest.mark.parametrize(
    ("code", "order"),
    [
        ("1001", "1001"),
        ("#1001", "#1001"),
        ("]C01001", "1001"),
        ("https://shop.example/orders/1001", "1001"),
        ("https://shop.example/de/account/orders/1001/?utm=x", "1001"),
        ("HTTPS://SHOP.EXAMPLE/order/%231001", "#1001"),
        ("https://shop.example/#/orders/1001", "1001"),
        ("https://shop.example/status?order_number=1001", "1001"),
        ("https://shop.example/admin/orders/ord_9f/edit", "ord_9f"),
    ],
)
def test_an_order_is_named_by_its_number_or_its_page(code: str, order: str) -> None:
    assert order_of(code) == order
    assert why_no_order(code) is None


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("036000291452", "EAN, UPC or GTIN"),
        ("4006381333931", "EAN, UPC or GTIN"),
        ("]E0042100005264", "EAN, UPC or GTIN"),
        ("]E496385074", "EAN, UPC or GTIN"),
        ("(01)04006381333931(10)AB", "is a variant"),
        ("https://id.gs1.org/01/04006381333931", "is a variant"),
        ("https://shop.example/sale/2024", "names no order"),
        ("https://shop.example/orders/new", "names no order"),
        ("]C100340434161094042557", "parcel's label"),
        ("340434161094042557", "parcel's label"),
        ("1Z999AA10123456784", "parcel's label"),
        ("RR123456785DE", "parcel's label"),
        ("WIFI:S:lager1;T:WPA;;", "not an order's number"),
        ("LS-XL", "not an order's number"),
    ],
)
def test_a_code_that_is_certainly_no_order_says_why(code: str, said: str) -> None:
    assert said in (why_no_order(code) or "")


@pytest.mark.parametrize(
    "code", ["1001", "SO/2024/001", "ord_9f", "576461413038785751", "123-4567890-123"]
)
def test_a_code_that_may_be_an_order_is_read_as_an_order(code: str) -> None:
    assert why_no_order(code) is None


def test_an_order_may_come_with_its_symbology() -> None:
    assert (plain("]C01001"), plain("#1001")) == ("1001", "#1001")
