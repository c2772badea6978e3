"""Reads the article numbers of a line, and chooses the one that is the SKU."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from backhaul_connectors.file_drop.edi.syntax import Segment

EDIFACT_ARTICLES = ("EN", "SRV", "UP", "UA", "SA", "BP", "IN", "MP", "SG")
"""Codes of article numbers (7143): GTIN, then the supplier's and the buyer's."""
X12_ARTICLES = ("SK", "VN", "VP", "VA", "BP", "IN", "MG", "UP", "EN", "UK", "UA")
"""Codes of article numbers (235): the SKU, the vendor's, the buyer's, then GTINs."""


def in_edifact_line(segment: Segment) -> dict[str, str]:
    """Return the number in the LIN segment of an EDIFACT message, by its code."""
    number = segment.value(3)
    return {segment.value(3, 2): number} if number else {}


def add_more(numbers: dict[str, str], segment: Segment) -> None:
    """Add the numbers of a PIA segment; the first number with a code counts."""
    for at in range(2, len(segment.elements) + 1):
        if number := segment.value(at):
            numbers.setdefault(segment.value(at, 2), number)


def in_x12_line(segment: Segment) -> dict[str, str]:
    """Return the numbers in the LIN segment of an X12 message, by their codes."""
    pairs = zip(segment.values(2, 2), segment.values(3, 2), strict=False)
    return {code: number for code, number in pairs if number}


def article(
    numbers: Mapping[str, str], codes: Sequence[str], defaults: Sequence[str]
) -> tuple[str, str]:
    """Return the article number of the first code, and a problem if there is none."""
    wanted = codes or defaults
    for code in wanted:
        if number := numbers.get(code):
            return number, ""
    has = ", ".join(f"{code} ({number})" for code, number in numbers.items())
    return "", (
        f"the line has no article number with one of the codes {', '.join(wanted)}; it"
        f" has {has or 'none'}. Set edi.article_codes"
    )
