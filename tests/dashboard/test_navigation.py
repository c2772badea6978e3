"""Sections, search, theme and times are the same on every page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from loguru import logger

from backhaul.admin.navigation import SECTIONS, place_of
from backhaul.admin.rendering import THEME_COOKIE
from backhaul.store.operators import Role
from backhaul.store.records import NewRecord, Unmatched
from scenes import payloads
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from scenes.dashboard import Office

PAGES = [page for section in SECTIONS for page in section.pages]


async def test_every_page_is_in_one_of_five_sections(office: Office) -> None:
    assert len(SECTIONS) == 5
    browser = await office.browser("ada")
    for section in SECTIONS:
        for page in section.pages:
            html = await browser.read(page.path)
            shown = re.findall(r'href="(\S+)" aria-current="(\w+)"', html)
            if len(section.pages) == 1:
                assert shown == [("/", "page")]
            else:
                first = section.pages[0].path
                assert shown[:2] == [(first, "true"), (page.path, "page")]


async def test_a_section_shows_only_the_pages_a_role_may_read(office: Office) -> None:
    for name, role in (
        ("vera", Role.VIEWER),
        ("otto", Role.OPERATOR),
        ("ada", Role.ADMIN),
    ):
        html = await (await office.browser(name)).read("/events")
        for page in PAGES:
            if place_of(page.path)[0] == "Activity":
                listed = f'<li><a href="{page.path}"' in html
                assert listed is (page.needs <= role), (name, page.path)


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/mirror/order/main/ord_1", "/orders"),
        ("/mirror/sku/main/var_1", "/stock"),
        ("/mirror/product/main/prod_1", "/products"),
        ("/mirror", "/mirror"),
        ("/commands/0000/resend", "/commands"),
        ("/account", ""),
        ("/", "/"),
    ],
)
def test_a_page_below_belongs_to_its_list(path: str, page: str) -> None:
    assert place_of(path)[1] == page


async def test_the_theme_is_kept_in_the_browser(office: Office) -> None:
    browser = await office.browser("vera")
    assert 'data-theme="system"' in await browser.read("/jobs")
    answer = await browser.post("/theme", theme="dark", next="/jobs?a=b")
    assert (answer.status, answer.headers["Location"]) == (303, "/jobs?a=b")
    cookie = answer.cookies[THEME_COOKIE]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")
    page = await browser.read("/jobs")
    assert 'data-theme="dark"' in page
    assert '<meta name="color-scheme" content="dark">' in page
    await browser.post("/logout")
    assert 'data-theme="dark"' in await browser.read("/login")


@pytest.mark.parametrize("path", ["//elsewhere.example", "https://elsewhere.example"])
async def test_the_theme_leads_nowhere_else(office: Office, path: str) -> None:
    browser = await office.browser("vera")
    answer = await browser.post("/theme", theme="light", next=path)
    assert answer.headers["Location"] == "/"
    assert (await browser.post("/theme", theme="pink")).status == 422


async def test_a_forged_theme_is_the_systems(office: Office) -> None:
    browser = await office.browser("vera")
    page = await browser.get("/jobs", cookies={THEME_COOKIE: '"><script>'})
    assert 'data-theme="system"' in await page.text()


async def test_search_finds_a_command_and_an_event_by_their_ids(
    office: Office,
) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    command = await office.plan()
    browser = await office.browser("vera")
    page = await browser.read(f"/mirror?q={command}")
    assert f'href="/commands/{command}">fulfill #1001</a>' in page
    assert 'href="/events/1">Event 1 orders/create</a>' in await browser.read(
        "/mirror?q=1"
    )


async def test_the_only_result_of_the_field_in_the_header_is_opened(
    office: Office,
) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    await office.index()
    browser = await office.browser("vera")
    answer = await browser.get("/mirror?jump=yes&q=%231001")
    assert answer.headers["Location"] == "/mirror/order/main/ord_1"
    assert (await browser.get("/mirror?q=%231001")).status == 200
    assert (await browser.get("/mirror?jump=yes&q=nothing")).status == 200
    assert (await browser.get("/mirror?jump=yes")).status == 200


async def test_the_number_of_an_order_opens_it_before_an_event_of_that_number(
    office: Office,
) -> None:
    one = payloads.order() | {"number": 1, "name": "#1"}
    await append_and_fold(office.store, payloads.envelope("orders/create", one))
    await office.index()
    browser = await office.browser("vera")
    for text in ("1", "%231"):
        answer = await browser.get(f"/mirror?jump=yes&q={text}")
        assert answer.headers["Location"] == "/mirror/order/main/ord_1"
    page = await browser.read("/mirror?q=1")
    assert page.index('href="/mirror/order/main/ord_1"') < page.index(
        'href="/events/1"'
    )


async def test_a_page_that_fails_says_where_the_details_are(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    sink = logger.add(lambda line: told.append(line.record["extra"]), level="ERROR")
    browser = await office.browser("otto")
    monkeypatch.setattr("backhaul.admin.pages.overview.duration_text", None)
    answer = await browser.get("/records")
    page = await answer.text()
    logger.remove(sink)
    [said] = [each for each in told if each["action"] == "page.failed"]
    assert answer.status == 500
    assert f"under error {said['error']}" in page
    assert 'href="/">Overview</a>' in page


async def test_records_that_wait_are_listed_with_what_they_wait_for(
    office: Office,
) -> None:
    row = NewRecord("parcel", b"null", "{}", "", "parcels.csv:2")
    await office.store.records.accept(
        "courier",
        "main",
        [row],
        None,
        lambda *_: Unmatched("unknown order #9001", final=False),
    )
    page = await (await office.browser("vera")).read("/records")
    assert "parcels.csv:2" in page
    assert "10m after it was received" in page


async def test_a_time_is_shown_in_utc_without_a_script(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    page = await (await office.browser("vera")).read("/events/1")
    shown = re.findall(r'<time datetime="(\S+)" title="([^"]+)">([^<]+)</time>', page)
    assert len(shown) == 2  # received, and applied to the mirror
    for exact, title, text in shown:
        assert exact.startswith("2026-03-01T12:00:")
        assert title == text
        assert re.fullmatch(r"1 Mar 2026, 12:00:\d\d UTC", text)
