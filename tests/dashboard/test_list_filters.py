"""The filters of events and commands: what the box, the selects and links show."""

from __future__ import annotations

import csv
import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from dashboard.test_quarantine_filter import links
from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office


async def commands_of(browser: Browser, address: str) -> list[str]:
    return re.findall(r'id="command-(\w+)"', await browser.read(address))


async def where(browser: Browser, text: str) -> list[str]:
    return await commands_of(browser, f"/commands?where={quote(text)}")


async def test_terms_select_commands(office: Office) -> None:
    parked = await office.plan(state="parked")
    planned = await office.plan("ord_2")
    browser = await office.browser("vera")
    assert await where(browser, "") == [parked, planned]
    assert await where(browser, "state=planned") == [planned]
    assert await where(browser, f"id={parked[-4:]}") == []
    assert await where(browser, f"id={parked}") == [parked]
    assert await where(browser, "order=ord_2 since=1h") == [planned]
    assert await where(browser, "connector=erp") == []
    page = await browser.read("/commands?where=connector%3Derp")
    assert "No command matches this filter." in page


async def test_the_old_parameters_are_terms(office: Office) -> None:
    parked = await office.plan(state="parked")
    await office.plan("ord_2")
    browser = await office.browser("vera")
    page = await browser.read("/commands?state=parked&kind=&store=")
    assert re.findall(r'id="command-(\w+)"', page) == [parked]
    assert 'name="where" value="state=parked"' in page


async def test_a_changed_select_replaces_its_term(office: Office) -> None:
    browser = await office.browser("vera")
    for asked, expected in (
        ("was=&where=&kind=cancel", "kind=cancel"),
        ("was=kind%3Dcancel&where=kind%3Dcancel&kind=", ""),
        ("was=kind%3Dcancel&where=kind%3Dadjust&kind=cancel", "kind=adjust"),
        ("was=x&where=x+since%3D1h&kind=cancel&sort=oldest", "x since=1h kind=cancel"),
    ):
        answer = await browser.get(f"/commands?{asked}")
        assert answer.status == 303
        page = html.unescape(await browser.read(answer.headers["Location"]))
        assert f'name="where" value="{expected}"' in page
        assert ("sort=oldest" in asked) == ("sort=oldest" in answer.headers["Location"])


async def test_each_term_can_be_removed_and_each_state_chosen(office: Office) -> None:
    parked = await office.plan(state="parked")
    other = await office.plan("ord_2")
    browser = await office.browser("vera")
    page = await browser.read(f"/commands?where={quote('state=parked order=ord_1')}")
    found = links(page)
    assert await commands_of(browser, found["order=ord_1 \N{MULTIPLICATION SIGN}"]) == [
        parked
    ]
    assert await commands_of(browser, found["clear"]) == [parked, other]
    assert await commands_of(browser, found["Any"]) == [parked]
    assert await commands_of(browser, found["Planned"]) == []
    assert "Parked" in found  # the number of all parked ones would not be what it shows
    found = links(await browser.read(f"/commands?where={quote('state=parked')}"))
    assert {"Planned 1", "Parked 1", "Applied"} <= {*found}


async def test_commands_are_shown_in_each_order(office: Office) -> None:
    first = await office.plan("ord_1")
    parked = await office.plan("ord_2", state="parked")
    last = await office.plan("ord_3")
    browser = await office.browser("vera")
    page = await browser.read("/commands")
    found = links(page)
    assert await commands_of(browser, "/commands") == [parked, last, first]
    newest = found["newest first"]
    assert await commands_of(browser, newest) == [last, parked, first]
    oldest = found["oldest first"]
    assert await commands_of(browser, oldest) == [first, parked, last]


async def test_terms_select_events(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order("ord_1"))
    )
    await append_and_fold(office.store, b"not json")
    browser = await office.browser("vera")

    async def ids(text: str) -> list[str]:
        page = await browser.read(f"/events?where={quote(text)}")
        return re.findall(r'id="event-(\d+)"', page)

    assert await ids("") == ["2", "1"]
    assert await ids("order=ord_1") == ["1"]
    assert await ids("state=quarantined") == ["2"]
    assert await ids("not json") == ["2"]
    assert await ids("id=1") == ["1"]


@pytest.mark.parametrize("name", ["commands", "events"])
async def test_a_wrong_filter_is_explained(name: str, office: Office) -> None:
    browser = await office.browser("vera")
    answer = await browser.get(f"/{name}?where={quote('stat=parked')}")
    page = html.unescape(await answer.text())
    assert answer.status == 422
    assert 'name="where" value="stat=parked"' in page
    assert "there is no field 'stat', at character 1 (did you mean state?)" in page
    answer = await browser.get(f"/{name}.csv?where={quote('stat=parked')}")
    assert answer.status == 422


async def test_the_filtered_list_is_exported_without_formulas(office: Office) -> None:
    id_ = await office.plan(state="parked")
    await office.plan("ord_2")
    overwrite(office.path, "commands", {"reason": "=1+1"}, id=id_)
    browser = await office.browser("vera")
    query = f"where={quote('state=parked')}"
    (row,) = json.loads(await browser.read(f"/commands.json?{query}"))
    assert (row["id"], row["connection"], row["reason"]) == (id_, "courier", "=1+1")
    text = await browser.read(f"/commands.csv?{query}")
    (cells,) = csv.DictReader(text.splitlines())
    assert (cells["id"], cells["object_id"], cells["reason"]) == (id_, "ord_1", "'=1+1")
    assert json.loads(await browser.read("/events.json")) == []
    assert (await browser.read("/events.csv")).startswith("id,received_at,store")
