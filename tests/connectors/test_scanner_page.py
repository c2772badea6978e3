"""The shop-floor page in a real browser, with nothing but what a scanner types."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from backhaul.connect import http_routes
from backhaul_sdk import Fulfillment, HttpRequest, Line, StockAdjustment
from connectors.scanning import TOKEN, Dock
from scenes.browser import open_visit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from scenes.browser import Visit

PATH = "/connect/dock/"


@dataclass(slots=True)
class Hall:
    """The page and its server."""

    dock: Dock
    visit: Visit
    url: str

    @property
    def page(self) -> Page:
        return self.visit.page

    async def scan(self, code: str) -> None:
        await self.page.keyboard.type(code)
        await self.page.keyboard.press("Enter")

    async def shows(self, kind: str, what: str) -> None:
        await expect(self.page.locator("#result")).to_have_class(kind)
        await expect(self.page.locator("#what")).to_contain_text(what)

    async def choose(self, mode: str) -> None:
        await self.page.get_by_text(mode, exact=True).click()


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    dock = Dock({"folder": tmp_path / "floor"})
    scanner = await dock.open()
    app = web.Application()
    app.add_routes(http_routes.routes("dock", await scanner.listen(dock.host.emit)))
    async with TestServer(app) as server:
        origin = str(server.make_url("/")).rstrip("/")
        async with open_visit(origin) as visit:
            visit.watch.refusals |= {401, 422}
            yield Hall(dock, visit, origin + PATH)
    await dock.close()


@pytest.fixture
async def entered(hall: Hall) -> Hall:
    await hall.page.goto(f"{hall.url}#token={TOKEN}")
    return hall


@pytest.mark.programs
async def test_the_token_is_entered_once_and_leaves_the_address(hall: Hall) -> None:
    await hall.page.goto(hall.url)
    await expect(hall.page.get_by_label("Token of this device")).to_be_focused()
    await hall.scan(TOKEN)
    await hall.page.reload()
    await expect(hall.page.locator("#code")).to_be_focused()
    await hall.page.goto(f"{hall.url}#token={TOKEN}")
    await expect(hall.page.locator("#code")).to_be_focused()
    assert hall.page.url == hall.url
    assert [url for url in hall.visit.watch.asked if TOKEN in url.split("#")[0]] == []


@pytest.mark.programs
async def test_an_order_is_picked_without_touching_anything(entered: Hall) -> None:
    await entered.scan("1001")
    await entered.shows("good", "order 1001 begun")
    await expect(entered.page.get_by_label("Order 1001")).to_be_focused()
    for code in ("A", "B", "A"):
        await entered.scan(code)
    await entered.shows("good", "1 x A for order 1001, 2 so far")
    await entered.page.reload()
    await entered.scan("1001")
    await entered.shows("good", "order 1001 finished with 3 units")
    (record,) = entered.dock.records()
    assert isinstance(record, Fulfillment)
    assert record.lines == (Line(sku="A", quantity=2), Line(sku="B", quantity=1))


@pytest.mark.programs
async def test_a_refusal_is_red_says_why_and_the_next_scan_goes_on(
    entered: Hall,
) -> None:
    await entered.choose("Receive")
    await entered.scan("4006381333932")
    await entered.shows("bad", "check digit of 4006381333932 is wrong")
    await entered.page.get_by_label("Units").fill("12")
    await entered.page.keyboard.press("Enter")
    await entered.scan("4006381333931")
    await entered.shows("good", "12 x 4006381333931 received")
    await expect(entered.page.locator("#code")).to_be_focused()
    (record,) = entered.dock.records()
    assert isinstance(record, StockAdjustment)
    assert record.delta == 12


@pytest.mark.programs
async def test_scans_without_network_are_kept_and_sent_once(entered: Hall) -> None:
    await entered.choose("Receive")
    entered.visit.watch.context.on("requestfailed", lambda _: None)
    await entered.page.route("**/scan", lambda route: route.abort())
    for code in ("A", "A", "B"):
        await entered.scan(code)
    await entered.shows("kept", "Not sent yet")
    await expect(entered.page.locator("#line")).to_have_text("3 not sent yet")
    await entered.page.reload()
    await expect(entered.page.locator("#line")).to_have_text("3 not sent yet")
    entered.visit.watch.complaints.clear()
    await entered.page.unroute("**/scan")
    await entered.page.evaluate("dispatchEvent(new Event('online'))")
    await expect(entered.page.locator("#line")).to_have_text("Ready")
    skus = [r.sku for r in entered.dock.records() if isinstance(r, StockAdjustment)]
    assert skus == ["A", "A", "B"]


@pytest.mark.programs
async def test_scans_are_sent_in_their_order_though_the_clock_was_set_back(
    entered: Hall,
) -> None:
    """A device without network has its clock set when it comes back."""
    await entered.page.route("**/scan", lambda route: route.abort())
    await entered.scan("1001")
    await entered.scan("A")
    await entered.shows("kept", "Not sent yet")
    await entered.page.clock.set_fixed_time("2020-01-01T00:00:00Z")
    await entered.scan("BH-CLOSE")
    await expect(entered.page.locator("#line")).to_have_text("3 not sent yet")
    entered.visit.watch.complaints.clear()
    await entered.page.unroute("**/scan")
    await entered.page.evaluate("dispatchEvent(new Event('online'))")
    await entered.shows("good", "order 1001 finished with 1 units")


@pytest.mark.programs
@pytest.mark.parametrize("units", ["0", "1.5", ""])
async def test_no_scan_goes_without_a_word(entered: Hall, units: str) -> None:
    """What was entered where it is not seen any more stops nothing."""
    await entered.choose("Receive")
    await entered.page.get_by_label("Units").fill(units)
    await entered.page.keyboard.press("Enter")
    await entered.scan("A")
    await entered.shows("bad", "A is not taken: Units must be a whole number")
    await expect(entered.page.locator("#past")).to_contain_text("NO A: not taken")
    await entered.choose("Pack")
    await entered.scan("1001")
    await entered.shows("good", "order 1001 packed")
    assert len(entered.dock.records()) == 1


@pytest.mark.programs
async def test_a_code_that_was_scanned_into_the_units_is_told(entered: Hall) -> None:
    await entered.choose("Receive")
    await entered.page.get_by_label("Units").focus()
    await entered.scan("4006381333931")
    await entered.shows("bad", "Nothing is sent: Units must be a whole number")


@pytest.mark.programs
async def test_units_count_for_an_article_that_is_called_like_a_code_to_print(
    entered: Hall,
) -> None:
    await entered.choose("Receive")
    await entered.page.get_by_label("Units").fill("5")
    await entered.page.keyboard.press("Enter")
    await entered.scan("BH-TEAPOT")
    await entered.shows("good", "5 x BH-TEAPOT received")


@pytest.mark.programs
async def test_a_code_on_paper_sets_what_the_page_does(entered: Hall) -> None:
    await entered.choose("Receive")
    await entered.scan("bh-pick")
    await entered.shows("good", "dock is set to pick now")
    await entered.scan("1001")
    await entered.shows("good", "order 1001 begun")
    assert entered.dock.records() == []


@pytest.mark.programs
async def test_a_scan_whose_answer_was_lost_counts_once(entered: Hall) -> None:
    await entered.choose("Receive")
    await entered.page.evaluate(
        """() => {
          const send = window.fetch;
          let lost = false;
          window.fetch = async (...request) => {
            const answer = await send(...request);
            if (lost) return answer;
            lost = true;
            throw new TypeError("the network went away");
          };
        }"""
    )
    await entered.scan("A")
    await entered.shows("kept", "Not sent yet")
    await entered.page.evaluate("dispatchEvent(new Event('online'))")
    await entered.shows("good", "scanned before")
    assert len(entered.dock.records()) == 1


@pytest.mark.programs
async def test_a_wrong_token_is_asked_for_again_and_the_scan_waits(
    hall: Hall,
) -> None:
    await hall.page.goto(f"{hall.url}#token=wrong-token-0123456789")
    await hall.choose("Receive")
    await hall.scan("A")
    await hall.shows("bad", "Unknown device")
    await expect(hall.page.get_by_label("Token of this device")).to_be_focused()
    await hall.scan(TOKEN)
    await hall.shows("good", "1 x A received")


@pytest.mark.programs
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_read_and_use_it(entered: Hall, scheme: str) -> None:
    await entered.page.emulate_media(
        color_scheme="dark" if scheme == "dark" else "light"
    )
    for code, kind in (("1001", "good"), ("4006381333932", "bad")):
        await entered.scan(code)
        await expect(entered.page.locator("#result")).to_have_class(kind)
        found = await Axe().run(entered.page)
        assert found.response["violations"] == [], json.dumps(
            found.response["violations"], indent=1
        )


def _asked(path: str) -> HttpRequest:
    return HttpRequest("GET", path, {}, b"")


async def test_the_page_allows_nothing_but_itself() -> None:
    scanner = Dock().scanner()
    pages = {route.path: route for route in await scanner.listen(Dock().host.emit)}
    for path in ("/", "/page.css", "/page.js"):
        answer = await pages[path].handler(_asked(path))
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        content = (answer.content or b"").decode()
        assert "http:" not in content
        assert "https:" not in content
        assert " style=" not in content
        assert "onclick" not in content


async def test_only_modes_that_work_here_are_offered(tmp_path: Path) -> None:
    for options, offered in (
        ({}, 'data-modes="pack receive"'),
        ({"folder": tmp_path}, 'data-modes="count pack pick receive"'),
    ):
        routes = await Dock(options).scanner().listen(Dock().host.emit)
        (start,) = [route for route in routes if route.path == "/"]
        answer = await start.handler(_asked("/"))
        assert offered in (answer.content or b"").decode()
