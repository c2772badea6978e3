"""Pages in a real browser: their width, keyboard operation, and accessible names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from reference_dashboard.conftest import STORE, Browser
from reference_dashboard.pages import PAGES, filled, scene
from scenes.reference_shop import Shop
from scenes.requirements import require

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)
NAMELESS = """() => {
  const named = (one) => one.labels?.length || one.getAttribute("aria-label")
    || (/^(A|BUTTON|SUMMARY)$/.test(one.tagName) && one.textContent.trim());
  const kinds = "a, button, input:not([type=hidden]), select, textarea, summary";
  const nameless = [...document.querySelectorAll(kinds)].filter((one) => !named(one));
  return nameless.map((one) => one.outerHTML);
}"""
DOUBLED = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  return ids.filter((one, n) => ids.indexOf(one) !== n);
}"""
UNDERLINED = """() => {
  const style = getComputedStyle(document.activeElement);
  return document.activeElement.tagName + " " + style.outlineStyle;
}"""
WIDER = "document.documentElement.scrollWidth > window.innerWidth"


async def log_in(page: Page, shop: Shop) -> None:
    access = shop.running.access
    await page.goto(access.control_url + "/dashboard/login")
    await page.fill("[name=token]", access.control_token)
    await page.click("button.primary")
    await page.wait_for_url("**/orders")


@asynccontextmanager
async def opened(
    folder: Path, width: int, *, scripts: bool = True
) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        context = await playwright.chromium.launch_persistent_context(
            str(folder / "profile"),
            executable_path=require("chromium"),
            args=list(FLAGS),
            viewport={"width": width, "height": 850},
            java_script_enabled=scripts,
        )
        yield context.pages[0]
        await context.close()


@pytest.mark.parametrize("width", [1280, 400])
async def test_the_dashboard_in_a_browser(
    shop: Shop, tmp_path: Path, width: int
) -> None:
    """The policy lets the dashboard's own style and script run."""
    complaints: list[str] = []
    async with opened(tmp_path, width) as page:
        page.on("console", lambda told: complaints.append(told.type + told.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await log_in(page, shop)
        if width < 800:
            await page.click("label[for=menu]")
        await page.click(f'a[href="{STORE}/api"]')
        await page.wait_for_selector("text=API keys")
        await page.click("text=Create a key")
        await page.fill("[name=name]", "Till")
        await page.check("[value='orders:read']")
        await page.click("text=Create the key")
        assert len(await page.inner_text(".secret")) > 20
    assert [one for one in complaints if not one.startswith(("debug", "verbose"))] == []


@pytest.mark.parametrize("width", [1280, 900, 400])
async def test_every_page_fits_and_names_its_controls(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    ids = await scene(browser)
    async with opened(tmp_path, width) as page:
        await log_in(page, browser.shop)
        for path, kind in PAGES.items():
            url = browser.shop.running.access.control_url + filled(path, ids, kind)
            await page.goto(url, wait_until="domcontentloaded")
            assert not await page.evaluate(WIDER), path
            assert await page.evaluate(NAMELESS) == [], path
            assert await page.evaluate(DOUBLED) == [], path
            current = page.locator("nav [aria-current=page]")
            assert await current.count() == (0 if path == "/new-store" else 1), path


async def test_work_by_keyboard_alone(browser: Browser, tmp_path: Path) -> None:
    """Tab reaches what must be confirmed; where the focus is can be seen."""
    product = await browser.shop.product()
    async with opened(tmp_path, 1280) as page:
        await log_in(page, browser.shop)
        origin = browser.shop.running.access.control_url
        await page.goto(f"{origin}{STORE}/products/{product['id']}")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        await page.keyboard.press("Enter")
        for word in ("A solid", "A solid", "SUMMARY solid"):
            await page.keyboard.press("Tab")
            assert await page.evaluate(UNDERLINED) == word
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=The product is deleted")


async def test_pages_read_without_scripts(browser: Browser, tmp_path: Path) -> None:
    """A form that is refused says so where the mistake is, without any script."""
    async with opened(tmp_path, 400, scripts=False) as page:
        await log_in(page, browser.shop)
        await page.goto(f"{browser.shop.running.access.control_url}{STORE}/new-zone")
        await page.fill("[name=name]", "India")
        await page.fill("[name=countries]", "India")
        await page.fill("[name=rate0]", "Post")
        await page.fill("[name=price0]", "5")
        await page.click("text=Add the zone")
        flaw = page.locator("#field-countries-flaw")
        assert await flaw.inner_text() == "Each must be two letters, like IN"
        assert await page.input_value("[name=countries]") == "India"
        await page.fill("[name=countries]", "IN")
        await page.click("text=Add the zone")
        assert "The zone is added." in await page.inner_text("main")
