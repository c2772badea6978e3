"""The preview of EDI files: their rows, and the settings that it proposes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from backhaul_connectors.file_drop.preview import preview
from backhaul_connectors.file_drop.proposal import propose
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import FilePreview, PreviewRequest
from connectors.interchanges import FILES, despatch, edifact, shirt, x12

if TYPE_CHECKING:
    from pathlib import Path

GLN = {"own_qualifier": "14", "partner_qualifier": "14"}
PARTNERS = {"own_id": "4098765000001", "partner_id": "4012345000009", **GLN}
KINDS = {
    "desadv-d96a.edi": "fulfillments",
    "invrpt-d01b.edi": "stock_levels",
    "x12-846.edi": "stock_levels",
    "x12-856.edi": "fulfillments",
    "x12-945.edi": "fulfillments",
}


async def shown(path: Path, options: dict[str, Any] | None = None) -> FilePreview:
    return await preview(PreviewRequest(path=path, rows=20, options=options))


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
async def test_the_proposed_settings_read_the_file(name: str, kind: str) -> None:
    found = await shown(FILES / name)
    assert (found.kind, found.held) == (kind, "")
    assert found.counts["used"] >= 1
    assert found.layout["format"].startswith(("EDIFACT D:", "X12: "))
    settings = Settings.model_validate({"path": "/x", **found.settings})
    assert settings.edi.own_id == found.layout["recipient"]
    again = await shown(FILES / name, dict(found.settings))
    assert again.rows == found.rows


async def test_each_row_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.edi"
    path.write_bytes(edifact(despatch(shirt(), ["QTY+12:1"])))
    found = await shown(path)
    places = [(row.state, row.values["place"]) for row in found.rows]
    assert places == [("used", "UNH 1, LIN 1"), ("refused", "UNH 1, LIN 2")]


def test_the_parties_of_the_envelope_are_proposed() -> None:
    found = propose("4711.edi", io.BytesIO(edifact(despatch(shirt()))))
    assert found.settings == {"fulfillments": "*.edi", "edi": PARTNERS}


def test_a_test_is_noted_because_it_becomes_real() -> None:
    content = x12(["846", "LIN**SK*A", "QTY*33*1*EA"], usage="T")
    found = propose("stock.x12", io.BytesIO(content))
    assert found.settings["edi"]["test"] is True
    assert any("before the connection goes live" in note for note in found.notes)


def test_messages_that_are_not_read_are_noted() -> None:
    content = edifact(despatch(shirt()), ["INVOIC:D:96A:UN", "BGM+380+1+9"])
    found = propose("a.edi", io.BytesIO(content))
    assert "messages of the type INVOIC are not read" in found.notes


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (edifact(["INVOIC:D:96A:UN", "BGM+380+1+9"]), "the file has INVOIC; Backhaul"),
        (edifact(despatch(shirt()))[:-12], "perhaps the file is incomplete"),
    ],
)
def test_a_file_that_is_not_read_has_no_proposal(content: bytes, problem: str) -> None:
    found = propose("a.edi", io.BytesIO(content))
    assert found.settings == {}
    assert problem in found.problem
