"""The shop-floor page without a network, in a killed browser, and over TLS."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from backhaul.connect.record_matching import decode
from backhaul_sdk import StockAdjustment
from scenes.certificates import of_an_authority
from scenes.daemon import DaemonProcess
from scenes.device_browser import HOST, DeviceBrowser, device_browser, trusting
from scenes.silent_platform import office_with_known_store
from scenes.stored import count, values_of
from scenes.tcp_relay import Relay
from scenes.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from playwright.async_api import Page

    from scenes.daemon import Office

pytestmark = pytest.mark.programs

CODES = [f"LS-{number:05}" for number in range(200)]
FEWER = CODES[:40]
SOME = 12
"""So many scans are sent before something is killed."""
SCANNER = 'type = "scanner"'
OTHER_TOKEN = "another-token-0123456789abcdef"


@dataclass(slots=True)
class Floor:
    """A daemon behind a proxy that ends TLS, and a device with the page."""

    office: Office
    proxy: Relay
    device: DeviceBrowser
    daemon: DaemonProcess | None = None

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.proxy.port}/connect/bench/"

    async def start_daemon(self) -> None:
        self.daemon = DaemonProcess(self.office)
        live = await asyncio.to_thread(self.daemon.await_ready, 120)
        self.proxy.upstream = int(live["public_url"].rpartition(":")[2])

    async def restart_daemon(self, **changes: str) -> None:
        """Restart the daemon with changes of its configuration."""
        assert self.daemon is not None
        self.daemon.kill()
        self.office.write(**changes)
        await self.start_daemon()

    async def entered(self) -> Page:
        """Open the page with its token, until it can start without network."""
        page = await self.device.start()
        await page.goto(f"{self.url}#token={self.office.device_token}")
        await is_ready(page)
        await page.get_by_text("Receive", exact=True).click()
        await page.evaluate("navigator.serviceWorker.ready")
        return page

    async def opened_again(self) -> Page:
        """Start a browser, and open the page."""
        page = await self.device.start()
        await page.goto(self.url)
        await is_ready(page)
        return page

    def received(self) -> list[str]:
        """Return the codes of the stored records, in the order of their storage."""
        payloads = values_of(self.office.place, "records", "payload", instance="bench")
        records = [decode(payload.encode())[1] for payload in payloads]
        assert count(self.office.place, "quarantine") == 0
        return [each.sku for each in records if isinstance(each, StockAdjustment)]


@pytest.fixture
async def floor(tmp_path: Path) -> AsyncIterator[Floor]:
    _, certificate, key = of_an_authority(tmp_path, f"DNS:{HOST}")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    profile = tmp_path / "profile"
    async with (
        office_with_known_store() as office,
        device_browser(profile, *trusting(certificate)) as device,
    ):
        made = Floor(office, Relay(0, tls=tls), device)
        try:
            await made.start_daemon()
            await made.proxy.up()
            yield made
        finally:
            await device.kill()
            if made.daemon is not None:
                made.daemon.kill()
            await made.proxy.down()


async def is_ready(page: Page) -> None:
    """Wait until a scanner can type into the page."""
    await expect(page.locator("#code")).to_be_focused()


async def scan(page: Page, codes: list[str]) -> None:
    for code in codes:
        await page.keyboard.type(code)
        await page.keyboard.press("Enter")


async def waits(page: Page, number: int) -> None:
    await expect(page.locator("#line")).to_have_text(f"{number} not sent yet")


async def has_sent_all(page: Page) -> None:
    await expect(page.locator("#line")).to_have_text("Ready")


async def test_scans_of_a_killed_browser_arrive_once_and_in_order(floor: Floor) -> None:
    page = await floor.entered()
    await floor.proxy.down()
    await scan(page, CODES)
    await waits(page, len(CODES))
    await floor.device.kill()
    page = await floor.opened_again()
    await waits(page, len(CODES))
    assert floor.received() == []
    await floor.proxy.up()
    await has_sent_all(page)
    assert floor.received() == CODES


async def test_a_browser_that_is_killed_amid_sending_sends_the_rest(
    floor: Floor,
) -> None:
    page = await floor.entered()
    await floor.proxy.down()
    await scan(page, FEWER)
    await waits(page, len(FEWER))
    floor.proxy.counted = b"POST "
    await floor.proxy.up()
    await until(lambda: floor.proxy.seen >= SOME, "some scans are sent")
    await floor.device.kill()
    assert 0 < len(floor.received()) < len(FEWER)
    await has_sent_all(await floor.opened_again())
    assert floor.received() == FEWER


async def test_a_scan_whose_answer_is_lost_with_the_daemon_counts_once(
    floor: Floor,
) -> None:
    page = await floor.entered()
    await floor.proxy.down()
    await scan(page, FEWER)
    await waits(page, len(FEWER))
    floor.proxy.cut_after = f'"code":"{CODES[SOME]}"'.encode()
    assert floor.daemon is not None
    process = floor.daemon.process
    floor.proxy.when_cut = process.kill
    await floor.proxy.up()
    await until(lambda: process.poll() is not None, "the daemon is dead")
    assert floor.received() == CODES[: SOME + 1]
    floor.proxy.cut_after = None
    await floor.start_daemon()
    await has_sent_all(page)
    assert floor.received() == FEWER


async def test_scans_wait_while_the_token_is_refused(floor: Floor) -> None:
    page = await floor.entered()
    await floor.proxy.down()
    await scan(page, FEWER[:3])
    await waits(page, 3)
    await floor.restart_daemon(**{floor.office.device_token: OTHER_TOKEN})
    await floor.proxy.up()
    await expect(page.locator("#what")).to_contain_text("Unknown device")
    await expect(page.locator("#token")).to_be_focused()
    await waits(page, 3)
    assert floor.received() == []
    await scan(page, [OTHER_TOKEN])
    await has_sent_all(page)
    assert floor.received() == FEWER[:3]


async def test_a_lost_device_deletes_its_token_and_its_scans(floor: Floor) -> None:
    page = await floor.entered()
    await floor.proxy.down()
    await scan(page, FEWER[:3])
    await waits(page, 3)
    lost = f'{SCANNER}\nlost_devices = ["gun"]'
    await floor.restart_daemon(**{SCANNER: lost})
    await floor.proxy.up()
    await expect(page.locator("#what")).to_contain_text("was reported lost")
    await has_sent_all(page)
    await page.reload()
    await expect(page.locator("#token")).to_be_focused()
    await has_sent_all(page)
    assert floor.received() == []


async def test_two_tabs_send_each_scan_once(floor: Floor) -> None:
    page = await floor.entered()
    other = await floor.device.another()
    await other.goto(floor.url)
    await is_ready(other)
    await floor.proxy.down()
    for number, code in enumerate(FEWER):
        await scan((page, other)[number % 2], [code])
        await waits(page, number + 1)
    floor.proxy.counted = b"POST "
    await floor.proxy.up()
    for tab in (page, other):
        await tab.evaluate("dispatchEvent(new Event('online'))")
    await has_sent_all(page)
    await has_sent_all(other)
    assert floor.received() == FEWER
    assert floor.proxy.seen == len(FEWER)
    # Each tab shows the answers to its own scans.
    await expect(page.locator("#past")).to_contain_text(f"OK {FEWER[-2]}")
    await expect(other.locator("#past")).to_contain_text(f"OK {FEWER[-1]}")


async def test_without_tls_the_page_says_so_and_still_stores_scans(
    floor: Floor,
) -> None:
    page = await floor.device.start()
    plain = f"http://{HOST}:{floor.proxy.upstream}/connect/bench/"
    await page.goto(f"{plain}#token={floor.office.device_token}")
    await is_ready(page)
    await page.get_by_text("Receive", exact=True).click()
    await expect(page.locator("#needs-network")).to_contain_text("only with network")
    await page.route("**/scan", lambda route: route.abort())
    await scan(page, FEWER[:3])
    await waits(page, 3)
    await floor.device.kill()
    page = await floor.device.start()
    await page.goto(plain)
    await has_sent_all(page)
    assert floor.received() == FEWER[:3]


async def test_a_new_version_is_used_on_request(floor: Floor) -> None:
    page = await floor.entered()
    await expect(page.get_by_text("Count", exact=True)).to_have_count(0)
    folder = f'{SCANNER}\nfolder = "{floor.office.folder}/floor"'
    await floor.restart_daemon(**{SCANNER: folder})
    await page.reload()
    await expect(page.get_by_role("button", name="Use the new version")).to_be_visible()
    await expect(page.get_by_text("Count", exact=True)).to_have_count(0)
    await page.get_by_role("button", name="Use the new version").click()
    await expect(page.get_by_text("Count", exact=True)).to_be_visible()


async def test_a_second_tab_reloads_on_request(floor: Floor) -> None:
    """The first tab has put the new version to use; no tab reloads by itself."""
    page = await floor.entered()
    other = await floor.device.another()
    await other.goto(floor.url)
    await is_ready(other)
    folder = f'{SCANNER}\nfolder = "{floor.office.folder}/floor"'
    await floor.restart_daemon(**{SCANNER: folder})
    await page.reload()
    await expect(page.get_by_role("button", name="Use the new version")).to_be_visible()
    await page.get_by_role("button", name="Use the new version").click()
    await expect(page.get_by_text("Count", exact=True)).to_be_visible()
    await expect(other.get_by_text("Count", exact=True)).to_have_count(0)
    await other.get_by_role("button", name="Use the new version").click()
    await expect(other.get_by_text("Count", exact=True)).to_be_visible()
