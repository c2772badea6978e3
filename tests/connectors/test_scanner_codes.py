"""GS1 codes: what names an article, what names a parcel, and what is refused."""

from __future__ import annotations

import pytest

from backhaul_connectors.scanner.codes import article_of, parcel_of, plain
from backhaul_connectors.scanner.scan import Refused

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
    assert article_of(code) == article


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("4006381333932", "the check digit of 4006381333932 is wrong"),
        ("96385075", "the check digit of 96385075 is wrong"),
        ("036000291453", "check digit"),
        ("14006381333930", "check digit"),
        ("]C10104006381333932", "check digit of 04006381333932 is wrong"),
        ("(01)04006381333932", "check digit"),
        ("https://id.gs1.org/01/04006381333932", "names no article"),
        ("https://shop.example/sale", "names no article"),
        (f"]C100{SSCC}", "has no GTIN"),
        (SSCC, "number of a parcel"),
        ("106141412345678909", "check digit"),
        ("]C1nonsense", "cannot be read"),
        ("AB\x1dCD", "cannot be read"),
    ],
)
def test_a_code_that_names_no_article_is_refused(code: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        article_of(code)
    assert caught.value.status == 422


@pytest.mark.parametrize("code", ["4006381333932", "96385075", "106141412345678909"])
def test_skus_may_be_numbers(code: str) -> None:
    assert article_of(code, numeric_skus=True) == code


@pytest.mark.parametrize(
    ("code", "parcel"),
    [
        (SSCC, SSCC),
        (f"]C100{SSCC}", SSCC),
        (f"00{SSCC}", SSCC),
        (f"(00){SSCC}", SSCC),
        (GTIN, None),
        ("BD1", None),
        ("0104006381333931", None),
    ],
)
def test_a_parcel_is_known_by_its_sscc(code: str, parcel: str | None) -> None:
    assert parcel_of(code) == parcel


def test_a_parcel_with_a_wrong_check_digit_is_refused() -> None:
    with pytest.raises(Refused, match="check digit"):
        parcel_of("106141412345678909")


def test_an_order_may_come_with_its_symbology() -> None:
    assert (plain("]C01001"), plain("#1001")) == ("1001", "#1001")
