"""The page of a command: its request, the recommended decision, and the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from backhaul.store.matching import NewCommand
from backhaul.store.records import Matched, NewRecord
from scenes import payloads
from scenes.damaged_rows import insert, overwrite
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from scenes.dashboard import Office

SENT = {"state": "parked", "sent_at": "2026-03-01T11:00:00.000Z"}
MAY_HAVE = "Backhaul does not know whether it took effect."


def box(page: str, heading: str) -> str:
    """Return the part of a page under a heading."""
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</section>")[0]


def buttons(part: str) -> list[str]:
    return re.findall(
        r'<(?:button|a) class="(?:button)?[^>]*>([^<]+)</(?:button|a)>', part
    )


async def command(office: Office, kind: str, target: str, **payload: object) -> str:
    """Plan a command of a CSV file; return its id."""
    id_ = f"{kind}{target}".encode().hex().ljust(32, "0")
    new = NewCommand(id_, kind, target, f"x:{target}", dict(payload))
    record = NewRecord(f"key-{id_}", b"null", "raw", "", "parcels.csv:17")
    await office.store.records.accept(
        "courier", "main", [record], None, lambda *_: Matched(new)
    )
    return id_


async def test_a_shipment_is_shown_with_its_lines_and_parcel(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    lines = [{"line_id": "li_1", "quantity": 2}]
    parcel = {"tracking_number": "T1", "tracking_company": "DHL"}
    id_ = await command(office, "fulfill", "ord_1", lines=lines, **parcel)
    browser = await office.browser("vera")
    asked = box(await browser.read(f"/commands/{id_}"), "What is asked")
    for shown in (
        'href="/mirror/order/main/ord_1">#1001</a>',
        "T1 (DHL)",
        "LS-S",
        "Linen shirt",
        "parcels.csv:17",
        'href="/connectors#connector-courier">courier</a>',
    ):
        assert shown in asked
    assert "{" not in asked  # no JSON
    listed = await browser.read("/commands")
    assert "2 \N{MULTIPLICATION SIGN} LS-S; T1 (DHL)" in listed
    assert "parcels.csv:17" in listed


def attempt(office: Office, command: str, outcome: str, status: int) -> None:
    times = dict.fromkeys(("started_at", "finished_at"), SENT["sent_at"])
    row = {"command_id": command, "number": 1, "outcome": outcome, "status": status}
    insert(office.path, "attempts", **row, **times)


async def test_a_single_decision_is_recommended_and_the_others_are_apart(
    office: Office,
) -> None:
    id_ = await office.plan(state="parked")
    overwrite(office.path, "commands", SENT, id=id_)
    attempt(office, id_, "uncertain", 503)
    browser = await office.browser("otto")
    page = await browser.read(f"/commands/{id_}")
    todo = box(page, "What to do")
    assert (MAY_HAVE in todo, buttons(todo)) == (True, ["Check again"])
    others = box(page, "Other decisions")
    assert buttons(others) == ["Mark as applied", "Send again…", "Discard"]
    assert "the change is made twice" in others
    overwrite(office.path, "attempts", {"outcome": "parked", "status": 422})
    page = await browser.read(f"/commands/{id_}")
    assert buttons(box(page, "What to do")) == ["Send again…"]
    assert "refused the last attempt with 422" in page


async def test_a_viewer_reads_the_advice_without_buttons(office: Office) -> None:
    id_ = await office.plan(state="parked")
    page = await (await office.browser("vera")).read(f"/commands/{id_}")
    assert "What to do" not in page
    assert "It was never sent" in page
    assert f'action="/commands/{id_}' not in page


async def test_a_command_that_was_never_sent_may_be_sent(office: Office) -> None:
    id_ = await office.plan(state="parked")
    page = await (await office.browser("otto")).read(f"/commands/{id_}")
    assert buttons(box(page, "What to do")) == ["Send again…"]
    assert buttons(box(page, "Other decisions")) == ["Mark as applied", "Discard"]
