"""The main tasks of an operator in a real browser, without errors in its console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.async_playwright import Axe
from msgspec.structs import replace
from playwright.async_api import expect

from backhaul.store.records import ReasonClass
from dashboard.test_decisions import set_aside, state
from dashboard.test_operator_actions import secrets
from dashboard.test_quarantine_filter import fail
from dashboard.test_quarantined_row import BOGUS, unread
from scenes import payloads
from scenes.browser import Visit, open_visit
from scenes.dashboard import PASSWORD, Office, open_office
from scenes.databases import append_and_fold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from playwright.async_api import Page

pytestmark = pytest.mark.programs

PAGES = [
    *(
        "/",
        "/events",
        "/events/1",
        "/commands",
        "/quarantine",
        "/records",
        "/mirror?q=blue",
        "/incidents",
    ),
    *("/mirror/order/main/ord_1", "/connectors", "/jobs", "/drift", "/stores"),
    *("/orders", "/mirror/product/main/prod_1", "/mirror/customer/main/cus_1"),
    *("/products", "/stock", "/customers", "/mirror/sku/main/var_1"),
    *("/charts", "/audit", "/users", "/tokens", "/account", "/commands/nothing-at-all"),
    *("/targets", "/connectors/courier", "/deliveries", "/stores/main/sync"),
    "/stores/main/backfill?since=2026-02-01",
    "/commands?where=state%3Dparked",
    "/commands/preview?verb=discard&rows=all&where=",
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
BYTES = '{"trackingCompany":"DHL","trackingNumber":"T1"}'
SERIOUS = {"serious", "critical"}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with open_office(tmp_path) as opened:
        yield opened


@pytest.fixture
async def visit(office: Office) -> AsyncIterator[Visit]:
    """Fails the test where a page complains or asks anybody but the dashboard."""
    async with open_visit(str(office.server.make_url("")).rstrip("/")) as opened:
        yield opened


async def go(office: Office, page: Page, path: str) -> None:
    await page.goto(str(office.server.make_url(path)))


async def log_in(office: Office, page: Page, name: str) -> None:
    await go(office, page, "/login")
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()
    await arrives(page, "Overview")


async def arrives(page: Page, title: str) -> None:
    await expect(page.get_by_role("heading", level=1, name=title)).to_be_visible()


async def test_the_first_login(office: Office, visit: Visit) -> None:
    page = visit.page
    await go(office, page, "/")
    await arrives(page, "First login")
    file = office.settings.state_dir / "first-login-token"
    await page.get_by_label("Token").fill(file.read_text().strip())
    await page.get_by_label("Your name").fill("ann")
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_label("Password again").fill(PASSWORD)
    await page.get_by_role("button", name="Create admin").click()
    await arrives(page, "Overview")
    await page.get_by_role("button", name="Log out").click()
    await arrives(page, "Log in")


async def test_a_parked_command_is_resolved(office: Office, visit: Visit) -> None:
    await office.add_users()
    command = await office.plan(state="parked")
    page = visit.page
    await log_in(office, page, "otto")
    problem = page.locator("li", has_text="1 parcel is not reported to store main.")
    await problem.get_by_role("link", name="Decide").click()
    await page.get_by_role("link", name="Send again…").click()
    await arrives(page, "Send this command again?")
    await expect(page.locator("pre")).to_have_text(BYTES)
    await page.get_by_label("Reason").fill("the courier has no such parcel")
    await page.get_by_role("button", name="Send again").click()
    await expect(page.get_by_role("status")).to_have_text(
        "The command was parked and is planned now."
    )
    assert state(office, command) == "planned"


async def test_typed_text_is_restored_after_too_much_was_sent(
    office: Office, visit: Visit
) -> None:
    await office.add_users()
    row = await set_aside(office)
    page, visit.watch.refusals = visit.page, {413}
    await log_in(office, page, "otto")
    await go(office, page, f"/quarantine/{row}")
    await page.get_by_label("Your reason, for the audit log (optional)").fill(
        "the courier said so"
    )
    await page.get_by_label("order", exact=True).fill("#" * (1 << 20))
    await page.get_by_role("button", name="Save and retry").click()
    await expect(page.get_by_role("alert")).to_contain_text("larger than 1 MiB")
    await page.go_back()
    reason = page.get_by_label("Your reason, for the audit log (optional)")
    await expect(reason).to_have_value("the courier said so")


async def test_the_overview_updates_by_itself(office: Office, visit: Visit) -> None:
    await office.add_users()
    page = visit.page
    await log_in(office, page, "vera")
    await expect(page.get_by_role("link", name="Decide")).to_be_hidden()
    await office.plan(state="parked")
    await expect(page.get_by_role("link", name="Decide")).to_be_visible()


async def test_a_refresh_leaves_the_focus_where_it_was(
    office: Office, visit: Visit
) -> None:
    await office.add_users()
    command = await office.plan(state="planned")
    page = visit.page
    await log_in(office, page, "vera")
    link = page.locator(f"#command-{command}")
    await link.focus()
    later = await office.plan(target="ord_2", state="planned")
    await expect(page.locator(f"#command-{later}")).to_be_visible()
    await expect(link).to_be_focused()


async def test_a_quarantined_row_is_edited_and_retried(
    office: Office, visit: Visit
) -> None:
    await office.add_users()
    row = await set_aside(office)
    page = visit.page
    await log_in(office, page, "otto")
    await page.get_by_role("link", name="Work", exact=True).click()
    await page.get_by_role("link", name="Quarantine", exact=True).click()
    await page.get_by_role("link", name=str(row), exact=True).click()
    await page.get_by_label("order", exact=True).fill("#1001")
    await page.get_by_role("button", name="Save and retry").click()
    await expect(page.get_by_text("The quarantine is empty.")).to_be_visible()


async def test_many_quarantined_rows_are_retried(office: Office, visit: Visit) -> None:
    await office.add_users()
    for number in range(3):
        await fail(office, f"lamp{number}", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    await fail(office, "mug", "MUG", ReasonClass.VALUE)
    page = visit.page
    await log_in(office, page, "otto")
    await page.get_by_role("link", name="Work", exact=True).click()
    await page.get_by_role("link", name="Quarantine", exact=True).click()
    await page.get_by_role("link", name="3 rows: unknown SKU LAMP-2").click()
    await expect(page.get_by_role("heading", name="Rows that match: 3")).to_be_visible()
    await page.get_by_label("Select row 1", exact=True).check()
    await page.get_by_label("Select row 2", exact=True).check()
    await page.get_by_role("button", name="Discard…").click()
    await arrives(page, "Discard 2 rows?")
    await page.get_by_label("Reason").fill("a test file")
    await page.get_by_role("button", name="Discard 2 rows").click()
    await expect(page.get_by_role("status")).to_have_text("Rows: 2 were discarded.")
    await page.get_by_label("Apply to").select_option("all")
    await page.get_by_role("button", name="Retry…").click()
    await arrives(page, "Retry 2 rows?")
    await page.get_by_role("button", name="Retry 2 rows").click()
    await expect(page.get_by_text("The quarantine is empty.")).to_be_visible()


async def test_the_mirror_is_searched_while_one_types(
    office: Office, visit: Visit
) -> None:
    await office.add_users()
    await fill(office)
    page = visit.page
    await log_in(office, page, "vera")
    await go(office, page, "/mirror")
    await page.get_by_label("Search").press_sequentially("blue")
    await expect(page.get_by_role("heading", name="Results: 1")).to_be_visible()
    await page.get_by_role("link", name="Blue mug").click()
    await arrives(page, "product Blue mug")
    await expect(page.get_by_role("heading", name="History")).to_be_visible()


async def test_each_role_is_offered_its_actions(office: Office, visit: Visit) -> None:
    await office.add_users()
    command = await office.plan(state="parked")
    page = visit.page
    offered = {}
    for name in ("vera", "otto", "ada"):
        await log_in(office, page, name)
        await go(office, page, "/events")
        users = await page.get_by_role("link", name="Users").count()
        await go(office, page, f"/commands/{command}")
        discard = await page.get_by_role("button", name="Discard").count()
        offered[name] = (discard, users)
        await page.get_by_role("button", name="Log out").click()
    assert offered == {"vera": (0, 0), "otto": (1, 0), "ada": (1, 1)}


async def faults_of(
    office: Office, page: Page, paths: Iterable[str]
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return serious faults of accessibility, and the pages that are too wide."""
    faults, wide = [], []
    for path in paths:
        await go(office, page, path)
        found = await Axe().run(page)
        faults += [
            (path, each["id"], each["nodes"][0]["html"])
            for each in found.response["violations"]
            if each["impact"] in SERIOUS
        ]
        for size in (PHONE, DESK):
            await page.set_viewport_size(size)  # type: ignore[arg-type]  # it is one
            if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append(path)
    return faults, wide


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_page_has_a_serious_accessibility_fault(
    office: Office, visit: Visit, scheme: Any
) -> None:
    await office.add_users()
    await fill(office)
    command = await office.plan(state="parked")
    row = await set_aside(office)
    await unread(office, replace(BOGUS, reason=f"{BOGUS.reason}{', MORE' * 40}"))
    await secrets(office, used=None)
    await office.store.targets.stop("main", "a step moved what it did not name")
    visit.watch.refusals.add(404)
    page = visit.page
    await page.emulate_media(color_scheme=scheme)
    await log_in(office, page, "ada")
    paths = [*PAGES, f"/commands/{command}", f"/commands/{command}/resend"]
    paths += [f"/quarantine/{row}", "/quarantine/preview?verb=retry&rows=all"]
    assert await faults_of(office, page, paths) == ([], [])


async def fill(office: Office) -> None:
    """Mirror an order and a product, and index them."""
    product = payloads.product("prod_1", title="Blue mug")
    await append_and_fold(
        office.store,
        payloads.envelope("orders/create", payloads.order("ord_1")),
        payloads.envelope("products/create", product),
    )
    await office.index()
