"""Decisions about many commands at once, after a preview."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from backhaul.app.bulk_actions import ROWS_AT_ONCE
from dashboard.test_decisions import fields
from scenes.damaged_rows import overwrite
from scenes.stored import values_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office

MANY = ROWS_AT_ONCE + 1


async def shown(browser: Browser, verb: str, **query: str) -> str:
    """Return the preview of an action on all rows that match, or on checked ones."""
    asked = urlencode({"verb": verb, "rows": "all", **query})
    return await browser.read(f"/commands/preview?{asked}")


async def confirm(browser: Browser, page: str, **more: str) -> ClientResponse:
    """Send the form of a preview, as a browser does."""
    return await browser.post("/commands/change", **fields(page) | more)


def states(office: Office) -> list[str]:
    return sorted(values_of(office.path, "commands", "state"))


async def test_all_that_match_are_discarded_for_a_reason(office: Office) -> None:
    for number in range(MANY):
        await office.plan(f"ord_{number}", "parked")
    await office.plan("ord_x")
    browser = await office.browser("otto")
    page = await shown(browser, "discard", where="state=parked")
    assert f"{MANY} rows: discarded; they are not sent again" in page
    assert (await confirm(browser, page)).status == 422
    assert (await confirm(browser, page, reason="a test")).status == 303
    assert states(office) == ["planned", *["rejected"] * MANY]
    assert len(office.audit()) == MANY
    assert set(office.audit()) == {("otto", "commands discard", "a test")}
    assert f"Commands: {MANY} rejected." in await browser.read("/commands")


async def test_only_checked_commands_are_parked(office: Office) -> None:
    first = await office.plan("ord_1")
    await office.plan("ord_2")
    last = await office.plan("ord_3")
    browser = await office.browser("otto")
    checked = {f"row:{first}": "on", f"row:{last}": "on", "rows": ""}
    page = await shown(browser, "park", where="", **checked)
    assert "2 rows: stopped until an operator decides" in page
    assert (await confirm(browser, page, reason="inventory")).status == 303
    assert states(office) == ["parked", "parked", "planned"]


async def test_a_command_that_was_sent_before_is_not_resent_in_bulk(
    office: Office,
) -> None:
    sent = await office.plan("ord_1", "parked")
    overwrite(office.path, "commands", {"sent_at": "2026-03-01T12:00:00.000Z"}, id=sent)
    fresh = await office.plan("ord_2", "parked")
    browser = await office.browser("otto")
    page = await shown(browser, "resend", where="state=parked")
    assert "1 row: planned again; Backhaul has never sent them" in page
    assert "1 row: unchanged: Backhaul sent them before" in page
    assert (await confirm(browser, page, reason="the carrier is back")).status == 303
    assert values_of(office.path, "commands", "state", id=fresh) == ["planned"]
    assert values_of(office.path, "commands", "state", id=sent) == ["parked"]
    text = html.unescape(await browser.read("/commands"))
    assert "1 planned; 1 unchanged, such as" in text
    assert "Backhaul sent them before" in text


async def test_sent_commands_are_checked_again_without_a_reason(office: Office) -> None:
    sent = await office.plan("ord_1", "parked")
    overwrite(office.path, "commands", {"sent_at": "2026-03-01T12:00:00.000Z"}, id=sent)
    browser = await office.browser("otto")
    page = await shown(browser, "check", where="")
    assert "1 row: checked at the platform now" in page
    assert (await confirm(browser, page)).status == 303
    assert states(office) == ["uncertain"]


async def test_more_commands_than_were_shown_are_shown_again(office: Office) -> None:
    await office.plan("ord_1", "parked")
    browser = await office.browser("otto")
    page = await shown(browser, "discard", where="state=parked")
    await office.plan("ord_2", "parked")
    answer = await confirm(browser, page, reason="a test")
    assert answer.status == 303
    again = await browser.read(answer.headers["Location"])
    assert "Nothing was changed: 2 rows match now" in again
    assert states(office) == ["parked", "parked"]


async def test_nothing_is_done_without_a_choice(office: Office) -> None:
    await office.plan("ord_1", "parked")
    browser = await office.browser("otto")
    for asked, said in (
        ("verb=burn&rows=all", "choose what to do"),
        ("verb=discard&rows=all&where=stat%3D1", "there is no field"),
    ):
        answer = await browser.get(f"/commands/preview?{asked}")
        assert answer.status == 422
        assert said in html.unescape(await answer.text())
    answer = await browser.get("/commands/preview?verb=discard&rows=&where=sku%3DA")
    assert answer.headers["Location"] == "/commands?where=sku%3DA"
    assert "no row is selected" in await browser.read("/commands")
    assert states(office) == ["parked"]


async def test_the_action_itself_refuses_more_commands_than_were_shown(
    office: Office,
) -> None:
    """A command may come after the page counted; the last check is the daemon's."""
    for number in range(2):
        await office.plan(f"ord_{number}", "parked")
    browser = await office.browser("otto")
    page = await shown(browser, "discard", where="state=parked")
    forged = json.dumps({"main": 1, "outlet": 5})
    answer = await confirm(browser, page, expected=forged, reason="x")
    assert answer.status == 422
    assert "more rows of store main match now than the 1" in await answer.text()
    assert states(office) == ["parked"] * 2
