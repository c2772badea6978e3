"""The overview: current problems, the worst first, and the rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dashboard.test_decisions import set_aside
from scenes.damaged_rows import overwrite
from scenes.dashboard import Office, open_office

if TYPE_CHECKING:
    from pathlib import Path

RATES = {"webhooks": 1.0, "sent": 2.0, "deliveries": 3.0, "records": 4.0}
NORMAL = "All systems normal"


async def overview(office: Office) -> str:
    return await (await office.browser("otto")).read("/")


def problems(page: str) -> list[tuple[str, str]]:
    """Return each problem on the page: how urgent it is, and its subject."""
    return re.findall(r'class="problem (\w+)">.*?<strong>([^<]+)<', page, re.DOTALL)


async def test_a_single_line_says_that_nothing_is_wrong(tmp_path: Path) -> None:
    async with open_office(tmp_path, {"connectors": {}}) as office:
        await office.add_users()
        page = await overview(office)
        assert (NORMAL in page, problems(page)) == (True, [])
        for empty in ("Open commands", "Latest events", "No command", "<table"):
            assert empty not in page
        await office.plan(state="parked")
        assert NORMAL not in await overview(office)


async def test_a_quarantined_row_is_not_as_red_as_a_parked_command(
    office: Office,
) -> None:
    await set_aside(office)
    parked = await office.plan(state="parked")
    why = "the platform answered 503 BUSY; the order does not show the parcel"
    overwrite(office.path, "commands", {"reason": why}, id=parked)
    page = await overview(office)
    shown = problems(page)
    assert shown[0] == ("urgent", "Parked")
    assert ("minor", "Quarantine") in shown
    assert f"fulfill of ord_1: {why}" in page
    assert "1 parcel is not reported to store main." in page
    assert f'<a class="button" href="/commands/{parked}">Decide</a>' in page
    assert f"<code>backhaul commands show {parked[:8]}</code>" in page


async def test_several_parked_commands_are_one_problem(office: Office) -> None:
    for number in range(4):
        await office.plan(f"ord_{number}", state="parked")
    page = await overview(office)
    assert [subject for kind, subject in problems(page) if kind == "urgent"] == [
        "Parked"
    ]
    assert "4 parcels are not reported to store main." in page
    assert 'href="/commands?state=parked">Show all 4</a>' in page
    assert page.count("fulfill of ord_") == 3


async def test_each_rate_is_on_its_arrow(tmp_path: Path) -> None:
    rates = dict.fromkeys(("folded", "applied"), 99.0) | RATES
    async with open_office(tmp_path, {"rates": rates}) as office:
        await office.add_users()
        page = await overview(office)
    found = re.findall(
        r'class="pipe (\w+)">\s*<p class="rate"><b>(\S+)</b> (\w+)', page
    )
    assert found == [
        ("in", "1", "webhooks"),
        ("out", "2", "commands"),
        ("in", "3", "deliveries"),
        ("out", "4", "records"),
    ]
    left, right = page.index("<h2>Platform"), page.index("<h2>Back office")
    middle = page.index("<h2>Mirror")
    assert left < page.index("webhooks/min") < middle < page.index("records") < right
