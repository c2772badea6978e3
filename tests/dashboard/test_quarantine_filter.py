"""The page of the quarantine: what a filter shows, counts, links to and exports."""

from __future__ import annotations

import csv
import html
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from backhaul.store.records import NewRecord, ReasonClass, Unmatched

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office

UNKNOWN = "/quarantine?where=" + quote("reason=unknown_sku")


async def fail(
    office: Office, key: str, sku: str, why: ReasonClass, raw: str = "raw"
) -> None:
    """Quarantine an adjustment of a SKU for a reason of a class."""
    payload = json.dumps(
        {"kind": "adjust", "record": {"key": key, "sku": sku, "delta": 1}}
    )
    record = NewRecord(key, payload.encode(), raw, "", f"{key}.csv")
    found = Unmatched(f"about {sku}", final=True, reason_class=why, subject=sku)
    await office.store.records.accept("erp", "main", [record], None, lambda *_: found)


async def three_lamps_and_a_mug(office: Office) -> None:
    for number in range(3):
        await fail(office, f"lamp{number}", "LAMP 2", ReasonClass.UNKNOWN_SKU)
    await fail(office, "mug", "MUG", ReasonClass.VALUE, '=cmd("x")')


def links(page: str) -> dict[str, str]:
    """Return the addresses of links by their text, without their markup."""
    found = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', page, re.DOTALL)
    return {
        " ".join(re.sub(r"<[^>]+>", "", text).split()): html.unescape(address)
        for address, text in found
    }


def shown(page: str) -> int:
    found = re.search(r"Rows that match: (\d+)", page)
    assert found is not None
    return int(found[1])


async def test_counts_and_groups_lead_to_their_rows(office: Office) -> None:
    await three_lamps_and_a_mug(office)
    browser = await office.browser("vera")
    page = await browser.read("/quarantine")
    assert shown(page) == 4
    found = links(page)
    for text, rows in (
        ("3 rows: unknown SKU LAMP 2", 3),
        ("1 row: invalid value MUG: about MUG", 1),
        ("unknown SKU 3", 3),
        ("Open 4", 4),
        ("Discarded 0", 0),
        ("Any 4", 4),
    ):
        assert shown(await browser.read(found[text])) == rows, text


async def test_rows_about_different_things_are_one_group(office: Office) -> None:
    browser = await office.browser("vera")
    for number in range(8):
        await fail(office, f"k{number}", f"{number}", ReasonClass.UNKNOWN_ORDER)
    found = links(await browser.read("/quarantine"))
    assert {f"1 row: unknown order {number}" for number in range(8)} <= {*found}
    for number in range(2):
        await fail(office, f"mug{number}", "MUG", ReasonClass.UNKNOWN_SKU)
    await fail(office, "lamp", "LAMP", ReasonClass.UNKNOWN_SKU)
    for sku in "ABC":  # a wrong value has a reason of its own, which a group shows
        await fail(office, sku, sku, ReasonClass.VALUE)
    found = links(await browser.read("/quarantine"))
    group = "8 rows: unknown order, a different one each"
    named = ("2 rows: unknown SKU MUG", "1 row: unknown SKU LAMP")
    assert {group, *named, "1 row: invalid value B: about B"} <= {*found}
    assert shown(await browser.read(found[group])) == 8


async def test_rows_with_a_wrong_value_are_grouped_by_their_cause(
    office: Office,
) -> None:
    """The reason says what is wrong; all of them have one class and no subject."""
    for key, reason in (
        ("a", 'no "EATEN"; use OTHER'),
        ("b", 'no "EATEN"; use OTHER'),
        ("c", "no 'LOST'"),
        ("d", 'The reason: no "EATEN"; use OTHER or DAMAGED'),
        ("e", "too many; at most 5"),
        ("f", "too many; at most 50"),
        ("g", "x" * 9_000),
    ):
        record = NewRecord(key, None, "raw", reason, f"{key}.csv")
        await office.store.records.accept(
            "erp",
            "main",
            [record],
            None,
            lambda *_: Unmatched("never asked", final=True),
        )
    browser = await office.browser("vera")
    found = links(html.unescape(await browser.read("/quarantine")))
    page = await browser.read(found['2 rows: invalid value: no "EATEN"'])
    assert shown(page) == 2
    again = links(html.unescape(page))['2 rows: invalid value: no "EATEN"']
    assert shown(await browser.read(again)) == 2
    for cause in ("no 'LOST'", "too many; at most 5", f"{'x' * 159}…"):
        page = await browser.read(found[f"1 row: invalid value: {cause}"])
        assert shown(page) == 1, cause


async def test_the_filter_that_is_typed_is_the_address(office: Office) -> None:
    await three_lamps_and_a_mug(office)
    browser = await office.browser("vera")
    text = 'sku="LAMP 2" since=1h'
    page = await browser.read(f"/quarantine?where={quote(text)}")
    assert html.escape(text) in page.replace("&#34;", "&quot;")
    assert shown(page) == 3
    assert "Open 3" in links(page)
    again = links(page)["Any"]
    assert "since%3D1h" in again
    await office.clock.advance(2 * 3_600 - 1)
    browser = await office.browser("vera")
    assert shown(await browser.read(again)) == 0


async def test_a_wrong_filter_is_explained_beside_the_box(office: Office) -> None:
    browser = await office.browser("vera")
    answer = await browser.get("/quarantine?where=" + quote("reasn=value"))
    page = html.unescape(await answer.text())
    assert answer.status == 422
    assert 'value="reasn=value"' in page
    assert "there is no field 'reasn', at character 1 (did you mean reason?)" in page


async def exported(browser: Browser, form: str, where: str = "") -> str:
    return await browser.read(f"/quarantine.{form}?where={quote(where)}")


async def test_the_filtered_rows_are_exported(office: Office) -> None:
    await three_lamps_and_a_mug(office)
    browser = await office.browser("vera")
    rows = json.loads(await exported(browser, "json", "reason=unknown_sku"))
    assert [row["subject"] for row in rows] == ["LAMP 2"] * 3
    text = await exported(browser, "csv", "reason=unknown_sku")
    table = list(csv.DictReader(text.splitlines()))
    assert [row["id"] for row in table] == [str(row["id"]) for row in rows]
    assert [row["reason"] for row in table] == ["about LAMP 2"] * 3
    assert json.loads(await exported(browser, "json", "sku=nothing")) == []
    answer = await browser.get("/quarantine.csv?where=" + quote("reasn=x"))
    assert answer.status == 422


async def test_no_cell_of_an_export_is_a_formula(office: Office) -> None:
    await fail(office, "k", "=1+1", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("vera")
    (row,) = csv.DictReader((await exported(browser, "csv")).splitlines())
    assert row["subject"] == "'=1+1"
