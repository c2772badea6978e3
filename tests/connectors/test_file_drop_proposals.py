"""The settings that a preview proposes for files of unknown layout."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.presets import KINDS
from backhaul_connectors.file_drop.proposal import Proposal, propose
from connectors.layouts import KNOWN, OWN, FileLayout, text

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST_RIGHT = 0.9


def proposed(layout: FileLayout) -> tuple[str, dict[str, Any]]:
    """Return the kind and the settings without the pattern and empty tables."""
    found = propose(layout.name, io.BytesIO(layout.content))
    settings = {name: value for name, value in found.settings.items() if value != {}}
    kinds = [kind for kind in KINDS if settings.pop(kind, "")]
    return "".join(kinds), settings


def wrong(layouts: Sequence[FileLayout]) -> dict[str, tuple[Any, Any]]:
    """Return the layouts with other settings than the right ones: expected, got."""
    pairs = {
        layout.name: ((layout.kind, layout.settings), proposed(layout))
        for layout in layouts
    }
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


@pytest.mark.parametrize("layouts", [OWN, KNOWN], ids=["own", "known"])
def test_most_proposals_are_right(layouts: Sequence[FileLayout]) -> None:
    """The share is asserted, and the message lists the layouts that fail."""
    assert len(layouts) >= 20
    failing = wrong(layouts)
    assert len(failing) <= (1 - FEWEST_RIGHT) * len(layouts), failing


def proposal(name: str, *lines: str) -> Proposal:
    return propose(name, io.BytesIO(text(*lines)))


def test_a_missing_sku_is_not_written_down() -> None:
    """Files that have a SKU later must not ship whole orders."""
    found = proposal("parcels.csv", "order,carrier,tracking no", "1,DHL,T1")
    assert found.settings["fulfillment_columns"].keys() == {
        *("order", "tracking_company", "tracking_number")
    } - {"order"}


def test_dates_that_leave_a_choice_are_noted() -> None:
    found = proposal(
        "parcels.csv", "order no,carrier,tracking no,ship date", "1,UPS,T1,03/04/2026"
    )
    assert found.settings["date_format"] == "%m/%d/%Y"
    assert any("whether the day comes first" in note for note in found.notes)


def test_a_quantity_that_leaves_a_choice_is_noted() -> None:
    found = proposal("stock.csv", "sku;stock", "A;1.000")
    assert "decimal" not in found.settings
    assert any("1.000 could be a thousand or one" in note for note in found.notes)


def test_an_uncertain_encoding_is_noted() -> None:
    content = text("order,tracking_company,tracking_number", "1,Žižkov,T", end="\n")
    found = propose("p.csv", io.BytesIO(content.decode().encode("cp1250")))
    assert any(note.startswith("encoding = ") for note in found.notes)


def test_a_file_without_known_columns_has_no_proposal() -> None:
    found = proposal("notes.csv", "colour;shape;taste", "red;round;sweet")
    assert found.settings == {}
    assert "no row names columns that Backhaul knows" in found.problem


def test_columns_of_one_name_are_noted() -> None:
    found = proposal("stock.csv", "SKU,Stock,Date,Date", "A,1,2026-01-01,2026-01-02")
    assert "as_of" not in found.settings["stock_level_columns"]
    assert any("several columns are called 'Date'" in note for note in found.notes)


def test_a_name_that_often_means_something_else_is_noted() -> None:
    found = proposal("stock.csv", "Produkt;Bestand", "A;1")
    assert any("check that 'Produkt' is the column of sku" in n for n in found.notes)
