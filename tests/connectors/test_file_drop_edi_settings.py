"""Settings of exported EDI files: each value fits into its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk.fields import Unusable
from connectors.test_file_drop_edi_exports import FORMATS, PARTIES, order, written

if TYPE_CHECKING:
    from pathlib import Path


def settings(path: Path, export_format: str, **edi: Any) -> Settings:
    options = {"path": path, "exports": "outbox", "export_format": export_format}
    return Settings.model_validate({**options, "edi": {**PARTIES, **edi}})


NAMES = ("own_id", "own_qualifier", "partner_id", "partner_qualifier")
SIGNS = {
    "edifact": ("+", ":", "'", "?", "\n", "ä", "Ł", "\u2028"),
    "x12": ("*", ">", "~", "^", "|", ":", "'", "\n", "ä", "Ł"),
}


@pytest.mark.parametrize(
    ("export_format", "sign"),
    [(each, sign) for each in FORMATS for sign in SIGNS[each]],
)
def test_an_identification_with_a_delimiter_or_another_alphabet_is_refused(
    tmp_path: Path, export_format: str, sign: str
) -> None:
    """It would break the envelope of each file, or fail only when an order comes."""
    for name in NAMES:
        with pytest.raises(ValueError, match=rf"edi\.{name} is .* which contains"):
            settings(tmp_path, export_format, **{name: f"A{sign}"})


@pytest.mark.parametrize("export_format", FORMATS)
@pytest.mark.parametrize("code", ["", "S+A*", "Ä", "SAXX"])
def test_an_article_code_that_does_not_fit_is_refused(
    tmp_path: Path, export_format: str, code: str
) -> None:
    with pytest.raises(ValueError, match=r"edi\.article_codes"):
        settings(tmp_path, export_format, article_codes=[code])


def test_an_association_code_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"edi\.association"):
        settings(tmp_path, "edifact", association="Ł")


@pytest.mark.parametrize(
    ("export_format", "code"), [("edifact", "SRV"), ("edifact", "EN"), ("x12", "SK")]
)
def test_codes_that_fit_are_accepted(
    tmp_path: Path, export_format: str, code: str
) -> None:
    found = settings(tmp_path, export_format, article_codes=[code])
    assert found.edi.article_codes == (code,)


def test_codes_of_files_that_are_only_read_may_be_longer(tmp_path: Path) -> None:
    edi = {"article_codes": ["LONGER"], "partner_id": "Ä"}
    found = Settings.model_validate({"path": tmp_path, "edi": edi})
    assert found.edi.partner_id == "Ä"


def test_a_province_that_does_not_fit_is_left_out() -> None:
    """A part of a name is not a province: `Baden-Wür` is nowhere."""
    to = {"city": "B", "province": "Baden-Württemberg", "country": "DE"}
    found = written(order(shippingAddress=to), "edifact")
    (party,) = (each for each in found if each.value(1) == "DP")
    assert [party.value(at) for at in (6, 7, 9)] == ["B", "", "DE"]
    short = written(order(shippingAddress={**to, "province": "CA"}), "edifact")
    (party,) = (each for each in short if each.value(1) == "DP")
    assert party.value(7) == "CA"


@pytest.mark.parametrize("name", ["phone", "email"])
def test_a_way_to_reach_the_customer_that_is_too_long_is_refused(name: str) -> None:
    to = {"name": "Kim", "city": "B", "country": "US", "phone": "1"}
    changes: dict[str, Any] = {"shippingAddress": to}
    if name == "phone":
        changes = {"shippingAddress": {**to, "phone": "1" * 81}}
    else:
        changes["email"] = f"{'k' * 80}@example.com"
    with pytest.raises(Unusable, match="longer than the 80 letters of X12"):
        written(order(**changes), "x12")
