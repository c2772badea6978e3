"""The settings of EDI files: who we are, who the partner is, and which codes count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from backhaul_sdk.contract import STRICT
from backhaul_sdk.extras import require_extra

if TYPE_CHECKING:
    from collections.abc import Iterator

EDI_FORMATS = ("edifact", "x12")
DELIMITERS = {"edifact": ":+?'", "x12": "*|>:~'^"}
"""The signs that end values in exported files; in X12 the texts decide which of them.

EDIFACT can release such a sign, but programs that compare envelopes as they are written
do not find them.
"""
CODE_LENGTHS = {"edifact": (1, 3), "x12": (2, 2)}
"""Least and most letters of a code of article numbers (7143 and 235)."""


class EdiSettings(BaseModel):
    """`[connectors.NAME.edi]`: an empty list of codes means the default of the docs."""

    model_config = STRICT

    own_id: str = Field(
        default="",
        max_length=35,
        description="Your own identification, such as a GLN: the sender of exported"
        " files. An imported file for another recipient is held.",
    )
    own_qualifier: str = Field(
        default="",
        max_length=4,
        description="What kind of identification own_id is, such as 14 (GLN) in"
        " EDIFACT or ZZ in X12.",
    )
    partner_id: str = Field(
        default="",
        max_length=35,
        description="The partner's identification: the recipient of exported files. An"
        " imported file of another sender is held.",
    )
    partner_qualifier: str = Field(
        default="",
        max_length=4,
        description="What kind of identification partner_id is.",
    )
    test: bool = Field(
        default=False,
        description="Whether exported files are marked as a test, and imported files"
        " with that mark are read. Without it a test file is held.",
    )
    article_codes: tuple[str, ...] = Field(
        default=(),
        description="Codes of the article number that is the SKU, the first that a line"
        ' has counts, such as ["SA"] or ["EN", "SA"].',
    )
    order_codes: tuple[str, ...] = Field(
        default=(),
        description='Codes of the reference that is the order\'s number, such as ["ON"]'
        ".",
    )
    tracking_codes: tuple[str, ...] = Field(
        default=(),
        description="Codes of the reference or mark that is the tracking number, the"
        ' first that a parcel has counts, such as ["CN", "BJ"].',
    )
    stock_codes: tuple[str, ...] = Field(
        default=(),
        description="Codes of the quantity that is the stock, the first that an article"
        ' has counts, such as ["145"].',
    )
    units: tuple[str, ...] = Field(
        default=("EA", "PCE", "PC", "C62", "H87", "NAR", "UN"),
        description="Codes of a unit that is one piece. A quantity in another unit is"
        " refused, because two cartons are not two pieces.",
    )
    charset: Literal["UNOC", "UNOW"] = Field(
        default="UNOC",
        description="Letters of exported EDIFACT files: UNOC is Latin-1, UNOW UTF-8.",
    )
    release: Literal["D96A", "D01B"] = Field(
        default="D96A", description="Directory of exported EDIFACT messages."
    )
    association: str = Field(
        default="",
        max_length=6,
        description="Association code of exported EDIFACT messages, such as EAN008.",
    )
    x12_version: Literal["004010", "005010"] = Field(
        default="004010", description="Version of exported X12 files."
    )


def check_export(export_format: str, edi: EdiSettings) -> None:
    """Raise ValueError if files of this format cannot be written."""
    if export_format not in EDI_FORMATS:
        return
    for name in ("own_id", "partner_id"):
        if not getattr(edi, name):
            raise ValueError(
                f'edi.{name} is missing; export_format = "{export_format}" names the'
                " sender and the recipient in each file"
            )
    _check_letters(export_format, edi)
    if export_format == "edifact":
        require_extra("edi", user="EDIFACT")
        return
    for name, most in (("own_id", 15), ("partner_id", 15)):
        if len(getattr(edi, name)) > most:
            raise ValueError(f"edi.{name} is longer than the {most} letters of X12")
    for name in ("own_qualifier", "partner_qualifier"):
        if len(getattr(edi, name)) not in (0, 2):
            raise ValueError(f"edi.{name} must have two letters in X12, such as ZZ")


def _check_letters(export_format: str, edi: EdiSettings) -> None:
    """Raise ValueError if a value of the settings has letters that files do not have.

    Otherwise each order would fail, or its envelope would be broken.
    """
    names = ("own_id", "own_qualifier", "partner_id", "partner_qualifier")
    named = {name: getattr(edi, name) for name in (*names, "association")}
    # Only the first code is written.
    code = next(iter(edi.article_codes), None)
    named |= {} if code is None else {"article_codes": code}
    for name, text in named.items():
        strange = next((c for c in text if not _is_plain(c, export_format)), "")
        if strange:
            raise ValueError(
                f"edi.{name} is {text!r}, which contains {strange!r}; in exported files"
                f" it can only have printable letters of ASCII, and none of"
                f" {' '.join(DELIMITERS[export_format])}"
            )
    least, most = CODE_LENGTHS[export_format]
    if code is not None and not least <= len(code) <= most:
        raise ValueError(
            f"the first entry of edi.article_codes is {code!r}; exported files have"
            f" it before each SKU, so it must have {least} to {most} letters"
        )


def _is_plain(letter: str, export_format: str) -> bool:
    is_printable = letter.isascii() and letter.isprintable()
    return is_printable and letter not in DELIMITERS[export_format]


def edi_meanings(export_format: str, edi: EdiSettings) -> Iterator[str]:
    """Yield what an operator should know about the EDI settings."""
    if export_format in EDI_FORMATS:
        yield "exports has one EDI file for each new order; other changes have no file"
    if edi.test:
        yield "EDI files marked as a test are imported, and exports have that mark"
