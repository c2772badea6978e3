"""The shop-floor page in a real browser, operated only with scans."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from backhaul_sdk import Fulfillment, HttpRequest, Line, StockAdjustment
from connectors.scanning import OTHER_TOKEN, TOKEN, Dock
from connectors.shop_floor import PATH, open_hall
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Route

    from connectors.shop_floor import Hall


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Hall]:
    async with open_hall(tmp_path) as opened:
        yield opened


@pytest.fixture
async def entered(hall: Hall) -> Hall:
    await hall.open()
    return hall


@pytest.mark.programs
async def test_the_token_is_entered_once_and_leaves_the_address(hall: Hall) -> None:
    await hall.page.goto(hall.url)
    await expect(hall.page.get_by_label("Token of this device")).to_be_focused()
    await hall.scan(TOKEN)
    await hall.reload()
    await hall.open()
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
    await entered.reload()
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
    await entered.page.route("**/scan", lambda route: route.abort())
    for code in ("A", "A", "B"):
        await entered.scan(code)
    await entered.shows("kept", "kept here: 3")
    await entered.reload()
    await entered.shows("kept", "kept here: 3")
    await entered.comes_back()
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
    await entered.shows("kept", "kept here: 3")
    await entered.comes_back()
    await entered.shows("good", "order 1001 finished with 1 unit")


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
async def test_a_code_that_was_scanned_into_the_units_is_reported(
    entered: Hall,
) -> None:
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
async def test_a_printed_code_sets_the_mode_of_the_page(entered: Hall) -> None:
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
async def test_a_wrong_token_is_prompted_for_again_and_the_scan_waits(
    hall: Hall,
) -> None:
    await hall.open("wrong-token-0123456789")
    await hall.choose("Receive")
    await hall.scan("A")
    await hall.shows("bad", "Unknown device")
    await expect(hall.page.get_by_label("Token of this device")).to_be_focused()
    await hall.scan(TOKEN)
    await hall.shows("good", "1 x A received")


@pytest.mark.programs
async def test_a_scan_that_waits_counts_once_though_its_device_has_a_new_name(
    entered: Hall,
) -> None:
    """The answer is lost, the token is replaced, and the scan is sent again."""
    await entered.choose("Receive")

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await entered.page.route("**/scan", lose)
    await entered.scan("A")
    await entered.shows("kept", "kept here: 1")
    await entered.page.get_by_role("button", name="Change the device").click()
    await entered.scan(OTHER_TOKEN)
    await entered.comes_back()
    await entered.shows("good", "scanned before")
    assert len(entered.dock.records()) == 1


@pytest.mark.programs
@pytest.mark.parametrize(
    ("status", "body"), [(200, "<p>Log in"), (400, '{"error": "no"}')]
)
async def test_an_answer_of_another_server_removes_no_scan(
    entered: Hall, status: int, body: str
) -> None:
    """A hotspot answers for every server, and a proxy may refuse."""
    await entered.choose("Receive")
    kind = "application/json"
    await entered.page.route(
        "**/scan",
        lambda route: route.fulfill(status=status, body=body, content_type=kind),
    )
    await entered.scan("A")
    await entered.shows("kept", "kept here: 1")
    await entered.comes_back()
    await entered.shows("good", "1 x A received")


@pytest.mark.programs
async def test_a_scan_that_is_refused_after_it_waited_stays_until_it_was_seen(
    entered: Hall,
) -> None:
    await entered.choose("Receive")
    await entered.page.route("**/scan", lambda route: route.abort())
    await entered.scan("4006381333932")
    await entered.scan("A")
    await entered.shows("kept", "kept here: 2")
    await entered.reload()
    await entered.shows("kept", "kept here: 2")
    await entered.comes_back()
    await entered.shows("good", "1 x A received")
    await entered.reload()
    late = entered.page.get_by_role("region", name="Refused after they had waited")
    await expect(late).to_contain_text("4006381333932: the check digit")
    await late.get_by_role("button", name="I have seen these").click()
    await expect(late).to_be_hidden()
    await entered.reload()
    await expect(late).to_be_hidden()


@pytest.mark.programs
async def test_scans_that_wait_are_deleted_when_their_number_is_typed(
    entered: Hall,
) -> None:
    await entered.choose("Receive")
    await entered.page.route("**/scan", lambda route: route.abort())
    for code in ("A", "B"):
        await entered.scan(code)
    await entered.shows("kept", "kept here: 2")
    delete = entered.page.get_by_role("button", name="Delete unsent scans")
    await delete.click()
    await expect(entered.page.get_by_label("type their number: 2")).to_be_focused()
    await entered.scan("4006381333931")
    await entered.shows("bad", "Nothing is deleted")
    await expect(entered.page.locator("#line")).to_have_text("2 not sent yet")
    await entered.scan("2")
    await entered.shows("idle", "2 scans are deleted")
    await entered.comes_back()
    await entered.scan("C")
    await entered.shows("good", "1 x C received")
    skus = [r.sku for r in entered.dock.records() if isinstance(r, StockAdjustment)]
    assert skus == ["C"]


@pytest.mark.programs
async def test_scans_that_an_earlier_version_kept_are_sent_first(hall: Hall) -> None:
    await hall.page.goto(hall.url)
    for number, code in enumerate("AB"):
        old = {"mode": "receive", "code": code, "sequence": f"b7-{number}"}
        await hall.page.evaluate(
            "([key, scan]) => localStorage.setItem(key, scan)",
            [f"backhaul:{PATH}:scan:{number:015}", json.dumps(old)],
        )
    await hall.open()
    await hall.reload()
    # Not by the page: what it sent before the reload is no longer listed.
    await until(lambda: len(hall.dock.records()) > 1, "both scans arrive")
    keys = [record.key for record in hall.dock.records()]
    assert [key.split(":")[:3] for key in keys] == [
        ["scan", "dock", "b7-0"],
        ["scan", "dock", "b7-1"],
    ]


HEARD = """
  window.heard = [];
  const tone = AudioContext.prototype.createOscillator;
  AudioContext.prototype.createOscillator = function () {
    const made = tone.call(this);
    const start = made.start;
    made.start = (...when) => {
      heard.push(made.frequency.value);
      start.apply(made, when);
    };
    return made;
  };
  const speak = speechSynthesis.speak;
  speechSynthesis.speak = (said) => {
    heard.push(`${said.lang} ${said.text}`);
    speak.call(speechSynthesis, said);
  };
"""
"""Notes the tones that the browser plays, and what it says."""


async def heard(hall: Hall) -> list[float | str]:
    found: list[float | str] = await hall.page.evaluate("heard.splice(0)")
    return found


@pytest.mark.programs
async def test_each_kind_of_answer_sounds_different(hall: Hall) -> None:
    await hall.page.add_init_script(HEARD)
    await hall.open()
    await hall.choose("Receive")
    await hall.scan("A")
    await hall.shows("good", "received")
    assert await heard(hall) == [880]
    await hall.scan("4006381333932")
    await hall.shows("bad", "check digit")
    assert await heard(hall) == [220, 165]
    await hall.page.route("**/scan", lambda route: route.abort())
    await hall.scan("B")
    await hall.shows("kept", "kept here: 1")
    assert (await heard(hall))[:1] == [440]
    await hall.comes_back()
    await hall.shows("good", "1 x B received")


@pytest.mark.programs
async def test_the_page_speaks_only_if_voice_is_on(
    hall: Hall,
) -> None:
    await hall.page.add_init_script(HEARD)
    await hall.open()
    await hall.choose("Receive")
    await hall.page.get_by_role("button", name="Voice").click()
    await hall.page.get_by_role("button", name="Sound").click()
    await hall.scan("A")
    await hall.shows("good", "1 x A received")
    assert await heard(hall) == ["en 1 x A received"]
    await hall.reload()
    await hall.scan("4006381333932")
    await hall.shows("bad", "check digit")
    (told,) = await heard(hall)
    assert str(told).startswith("en Refused: the check digit")


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
    assert len(pages) == 13
    for path in set(pages) - {"/scan"}:
        answer = await pages[path].handler(_asked(path))
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        if path.endswith(".png"):
            continue
        content = (answer.content or b"").decode()
        content = content.replace("http://www.w3.org/2000/svg", "")
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


async def test_the_worker_keeps_every_file_of_one_version() -> None:
    versions = set()
    for options in ({}, {"first_mode": "pack"}, {"folder": Path("/nowhere")}):
        routes = await Dock(options).scanner().listen(Dock().host.emit)
        pages = {route.path: route for route in routes if route.method == "GET"}
        answers = {path: await pages[path].handler(_asked(path)) for path in pages}
        found = {each.headers["Backhaul-Page-Version"] for each in answers.values()}
        (version,) = found
        worker = (answers["/worker.js"].content or b"").decode()
        assert f'VERSION = "{version}"' in worker
        for path in pages.keys() - {"/worker.js"}:
            assert f".{path} " in worker.replace('"', " ")
        versions.add(version)
    # The folder changes the page, and so its version.
    assert len(versions) == 2


async def test_the_manifest_names_icons_that_there_are() -> None:
    routes = await Dock().scanner().listen(Dock().host.emit)
    pages = {route.path: route for route in routes}
    manifest = await pages["/manifest.webmanifest"].handler(_asked("/"))
    for icon in json.loads(manifest.content or b"")["icons"]:
        answer = await pages[f"/{icon['src']}"].handler(_asked("/"))
        assert answer.headers["Content-Type"] == icon["type"]
        if icon["type"] == "image/png":
            size = struct.unpack(">II", (answer.content or b"")[16:24])
            assert icon["sizes"] == "x".join(map(str, size))
