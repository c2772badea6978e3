"""Actions on many rows of the quarantine at once, after a preview."""

from __future__ import annotations

import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from backhaul.app.quarantine_actions import ROWS_AT_ONCE
from backhaul.store.records import ReasonClass
from dashboard.test_decisions import fields
from dashboard.test_quarantine_filter import fail
from scenes import payloads
from scenes.damaged_rows import delete_rows, overwrite
from scenes.databases import append_and_fold
from scenes.stored import count, rows_of, values_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse

    from scenes.dashboard import Browser, Office

UNKNOWN = "reason=unknown_sku"
MANY = ROWS_AT_ONCE + 1


async def lamps(office: Office, number: int, first: int = 0) -> None:
    for each in range(first, first + number):
        await fail(office, f"lamp{each}", "LAMP-2", ReasonClass.UNKNOWN_SKU)


async def shown(browser: Browser, verb: str, **query: str) -> str:
    """Return the preview of an action on all rows that match, or on checked ones."""
    asked = urlencode({"verb": verb, "rows": "all", **query})
    return await browser.read(f"/quarantine/preview?{asked}")


async def confirm(browser: Browser, page: str, **more: str) -> ClientResponse:
    """Send the form of a preview, as a browser does."""
    return await browser.post("/quarantine/change", **fields(page) | more)


def states(office: Office) -> list[str]:
    return sorted(values_of(office.path, "quarantine", "state"))


async def test_all_that_match_are_retried(office: Office) -> None:
    await lamps(office, MANY)
    await fail(office, "mug", "MUG", ReasonClass.VALUE)
    browser = await office.browser("otto")
    page = await shown(browser, "retry", where=UNKNOWN)
    assert f"{MANY} rows: matched again" in page
    assert (await confirm(browser, page)).status == 303
    assert states(office) == ["open", *["retried"] * MANY]
    assert len(office.audit()) == MANY
    assert {entry[:2] for entry in office.audit()} == {("otto", "quarantine retry")}
    page = await browser.read("/quarantine")
    assert f"Rows: {MANY} are tried again now." in page
    assert "Rows that match: 1" in page


async def test_only_checked_rows_are_discarded_for_a_reason(office: Office) -> None:
    await lamps(office, 3)
    browser = await office.browser("otto")
    checked = {"row:1": "on", "row:3": "on"}
    page = await shown(browser, "discard", where=UNKNOWN, **checked)
    assert "2 rows: discarded" in page
    page = await shown(browser, "discard", where=UNKNOWN, rows="", **checked)
    assert "2 rows: discarded" in page
    assert (await confirm(browser, page)).status == 422
    assert states(office) == ["open"] * 3
    assert (await confirm(browser, page, reason="a test file")).status == 303
    assert rows_of(office.path, "quarantine", "id", state="open") == [(2,)]
    assert [entry[1] for entry in office.audit()] == ["quarantine discard"] * 2


async def test_a_single_field_is_edited_in_all_selected_rows(office: Office) -> None:
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "edit", where=UNKNOWN, field="sku", value="LAMP-20")
    assert 'value="LAMP-20"' in page
    assert page.count("<td>LAMP-2 → LAMP-20</td>") == 2
    more = {"field": "sku", "value": "LAMP-20"}
    assert (await confirm(browser, page, **more)).status == 303
    found = [json.loads(each) for each in values_of(office.path, "records", "payload")]
    assert [each["record"]["sku"] for each in found] == ["LAMP-20"] * 2


async def test_a_row_that_cannot_be_edited_so_stays_and_is_named(
    office: Office,
) -> None:
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "edit", where=UNKNOWN, field="colour", value="red")
    why = "Row 2 would be refused: a record of the kind adjust has no field colour"
    assert why in html.unescape(page)
    more = {"field": "colour", "value": "red"}
    answer = await confirm(browser, page, **more)
    assert (answer.status, answer.headers["Location"]) == (
        *(303, "/quarantine?where=reason%3Dunknown_sku"),
    )
    text = html.unescape(await browser.read("/quarantine"))
    assert "2 could not be changed, such as row 1: a record of the kind adjust" in text
    assert "has no field colour" in text
    assert (states(office), office.audit()) == (["open"] * 2, [])


async def test_a_value_that_is_not_valid_is_refused_in_the_preview(
    office: Office,
) -> None:
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "edit", where=UNKNOWN, field="delta", value="one")
    assert "Row 2 would be refused: the edited row is not a valid adjust" in page
    assert page.count("<td>refused</td>") == 2
    page = await shown(browser, "edit", where=UNKNOWN, field="delta", value="2")
    assert "would be refused" not in page
    page = await shown(browser, "edit", where=UNKNOWN, field="sku", value="LAMP-2")
    assert page.count("<td>unchanged</td>") == 2


async def test_no_change_is_shown_for_a_row_that_stays(office: Office) -> None:
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "retry", where="id=1")
    assert (await confirm(browser, page)).status == 303
    every = "reason=unknown_sku state=any"
    page = await shown(browser, "edit", where=every, field="sku", value="LAMP-20")
    assert "1 row: unchanged: they are no longer open" in page
    assert page.count("LAMP-2 → LAMP-20") == 1


async def test_the_fields_of_the_first_record_are_offered(office: Office) -> None:
    await lamps(office, 1)
    browser = await office.browser("otto")
    page = await browser.read("/quarantine")
    offered = re.findall(r'<option value="(sku|delta|reason)">([^<]+)<', page)
    assert offered == [("sku", "SKU"), ("delta", "delta"), ("reason", "reason")]
    assert '<option value="all">all 1 that match' in page
    page = await browser.read(f"/quarantine?where={UNKNOWN}")
    assert '<option value="all" selected>all 1 that match' in page


async def test_more_rows_than_were_shown_are_shown_again(office: Office) -> None:
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "retry", where=UNKNOWN)
    await lamps(office, 1, first=2)
    answer = await confirm(browser, page)
    assert answer.status == 303
    again = await browser.read(answer.headers["Location"])
    assert "Nothing was changed: 3 rows match now" in again
    assert states(office) == ["open"] * 3
    assert (await confirm(browser, again)).status == 303
    assert states(office) == ["retried"] * 3


async def test_the_action_itself_refuses_more_rows_than_were_shown(
    office: Office,
) -> None:
    """A row may come after the page counted; the last check is the daemon's."""
    await lamps(office, 2)
    browser = await office.browser("otto")
    page = await shown(browser, "retry", where=UNKNOWN)
    forged = json.dumps({"main": 1, "outlet": 5})
    answer = await confirm(browser, page, expected=forged)
    assert answer.status == 422
    assert "2 rows of store main match now, but 1 were" in await answer.text()
    assert states(office) == ["open"] * 2


async def test_a_time_is_fixed_when_the_preview_is_shown(office: Office) -> None:
    await lamps(office, 1)
    browser = await office.browser("otto")
    page = await shown(browser, "retry", where="since=10m")
    await office.clock.advance(1_200)
    assert (await confirm(browser, page)).status == 303
    assert states(office) == ["retried"]


async def test_events_are_processed_again(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    delete_rows(office.path, "orders")
    overwrite(office.path, "event_outcomes", {"state": "quarantined"})
    overwrite_quarantine = {"source": "event", "name": "main", "key": "1"}
    await fail(office, "k", "SKU", ReasonClass.VALUE)
    overwrite(office.path, "quarantine", overwrite_quarantine)
    browser = await office.browser("otto")
    page = await shown(browser, "retry")
    assert "1 row: processed again (these are events)" in page
    assert (await confirm(browser, page)).status == 303
    assert count(office.path, "orders") == 1
    assert states(office) == ["retried"]


async def test_without_a_selection_nothing_is_shown(office: Office) -> None:
    await lamps(office, 1)
    browser = await office.browser("otto")
    answer = await browser.get("/quarantine/preview?verb=retry&where=state%3Dopen")
    assert (answer.status, answer.headers["Location"]) == (
        303,
        "/quarantine?where=state%3Dopen",
    )
    assert "no row is selected" in await browser.read("/quarantine?where=state%3Dopen")
    page = await shown(browser, "retry", where="sku=nothing")
    assert "No row matches" in page
    assert "<button>Retry" not in page


async def test_only_an_operator_sees_the_actions(office: Office) -> None:
    await lamps(office, 1)
    for name, offered in (("vera", False), ("otto", True)):
        page = await (await office.browser(name)).read("/quarantine")
        assert bool(re.search(r'type="checkbox" name="row:1"', page)) is offered
