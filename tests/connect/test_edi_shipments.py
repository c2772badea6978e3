"""A parcel of a despatch advice is shipped once, however often the message arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.interchanges import despatch, edifact, shirt

if TYPE_CHECKING:
    from scenes.drop_folder import Folder

LINE = shirt("1:PCE", "LS-XL")


def advice(*lines: list[str], document: str = "LS-1", reference: str = "1") -> str:
    """Return an EDI interchange with the despatch advice of order 2001."""
    message = despatch(*lines, order="2001", document=document)
    return edifact(message, reference=reference).decode()


async def test_a_retransmission_ships_nothing_again(folder: Folder) -> None:
    folder.options["fulfillments"] = "*.edi"
    await folder.drop(advice(LINE), "a.edi")
    before = folder.left()
    assert before == [("2001", "JJD1", {"LS-XL": 1})]
    await folder.drop(advice(LINE, reference="2"), "b.edi")
    await folder.drop(advice(LINE, reference="3"), "a.edi")
    assert folder.left() == before
    assert folder.reasons() == []


async def test_a_document_with_other_content_waits_for_an_operator(
    folder: Folder,
) -> None:
    folder.options["fulfillments"] = "*.edi"
    await folder.drop(advice(LINE), "a.edi")
    before = folder.left()
    await folder.drop(advice(shirt("2:PCE", "LS-XL"), reference="2"), "b.edi")
    assert folder.left() == before
    assert len(folder.reasons()) == 1


async def test_a_second_document_is_a_further_parcel(folder: Folder) -> None:
    folder.options["fulfillments"] = "*.edi"
    await folder.drop(advice(LINE), "a.edi")
    second = advice(LINE, document="LS-2", reference="2").replace("JJD1", "JJD2")
    await folder.drop(second, "b.edi")
    assert [(number, units) for _, number, units in folder.left()] == [
        ("JJD1", {"LS-XL": 1}),
        ("JJD2", {"LS-XL": 1}),
    ]
