"""The page of a quarantined row: its fields, near matches, and similar rows."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from backhaul.connect.quarantine_fields import encode_read
from backhaul.store.records import NewRecord, ReasonClass, Unmatched
from backhaul_sdk import Bad, ReadValue
from dashboard.test_decisions import fields
from dashboard.test_quarantine_filter import fail, links
from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.databases import append_and_fold
from scenes.payloads import envelope
from scenes.stored import rows_of, value_of, values_of

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office

BOGUS = Bad(
    key="bad",
    raw="SKU;Menge;Grund\nLAMP-02;3;BOGUS",
    reason="the reason 'BOGUS' is unknown; use DAMAGED, OTHER",
    locator="f.csv:2",
    kind="adjust",
    read={
        "sku": ReadValue("LAMP-02", "SKU"),
        "delta": ReadValue("3", "Menge"),
        "reason": ReadValue("BOGUS", "Grund"),
    },
)


async def sell(office: Office, *skus: str) -> None:
    variants = [payloads.variant(f"v{n}", sku=sku) for n, sku in enumerate(skus)]
    product = payloads.product("prod_9", title="Lamp", variants=variants)
    await append_and_fold(office.store, envelope("products/create", product))


async def add(
    office: Office, payload: dict[str, Any] | None, why: Unmatched, **more: Any
) -> int:
    """Quarantine a record; return its row."""
    body = None if payload is None else msgspec.json.encode(payload)
    record = NewRecord(
        more.pop("key", "k"),
        body,
        more.pop("raw", "raw"),
        why.reason,
        "f.csv:2",
        **more,
    )
    await office.store.records.accept("erp", "main", [record], None, lambda *_: why)
    return int(max(values_of(office.path, "quarantine", "id")))


async def unread(office: Office, bad: Bad = BOGUS) -> int:
    why = Unmatched(bad.reason, final=True)
    read = encode_read(bad)
    return await add(office, None, why, key=bad.key, raw=bad.raw, read=read)


def inputs(page: str) -> dict[str, str]:
    """Return the markup of each input and select of the form by its field."""
    found = re.findall(r'<(?:input|select) name="field:([^"]+)"([^>]*)>', page)
    return dict(found)


async def edit(browser: Browser, row: int, **values: str) -> int:
    page = await browser.read(f"/quarantine/{row}")
    hidden = {n: v for n, v in fields(page).items() if n == "kind"}
    given = {f"field:{name}": value for name, value in values.items()}
    answer = await browser.post(f"/quarantine/{row}/edit", **hidden, **given)
    return answer.status


def record(office: Office) -> Any:
    return msgspec.json.decode(value_of(office.path, "records", "payload"))["record"]


async def test_the_invalid_field_is_marked_with_the_reason(office: Office) -> None:
    await fail(office, "lamp", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    page = await (await office.browser("otto")).read("/quarantine/1")
    found = inputs(page)
    assert 'value="LAMP-2"' in found["sku"]
    assert 'aria-invalid="true" aria-describedby="problem" autofocus' in found["sku"]
    assert 'id="problem">about LAMP-2</p>' in page
    assert 'type="number"' in found["delta"]
    assert "aria-invalid" not in found["delta"]
    assert [name for name, marks in found.items() if "autofocus" in marks] == ["sku"]


async def test_a_row_that_never_became_a_record_shows_its_raw_text(
    office: Office,
) -> None:
    row = await unread(office)
    page = html.unescape(
        await (await office.browser("otto")).read(f"/quarantine/{row}")
    )
    found = inputs(page)
    assert 'value="LAMP-02"' in found["sku"]
    assert "(Menge in the source)" in page
    assert "BOGUS (not valid)" in page
    assert "aria-invalid" in found["reason"]
    assert '<td>Grund</td><td class="wrap">BOGUS</td>' in page


async def test_such_a_row_is_edited_with_the_values_that_were_read(
    office: Office,
) -> None:
    row = await unread(office)
    browser = await office.browser("otto")
    assert await edit(browser, row, delta="0") == 422
    assert await edit(browser, row, reason="BOGUS") == 422
    assert await edit(browser, row, reason="damaged") == 303
    found = record(office)
    assert (found["sku"], found["delta"], found["reason"]) == ("LAMP-02", 3, "DAMAGED")


async def test_rows_with_the_same_wrong_value_are_edited_at_once(
    office: Office,
) -> None:
    for number in range(3):
        bad = replace(BOGUS, key=f"bad {number}")
        await unread(office, bad)
    other = replace(BOGUS, key="other", reason="the reason 'X' is unknown; use OTHER")
    await unread(office, other)
    browser = await office.browser("otto")
    assert "Apply to all 3 rows with this reason" in await browser.read("/quarantine/1")
    sent = {"kind": "adjust", "field:sku": "LAMP-02", "field:delta": "3"}
    answer = await browser.post(
        "/quarantine/1/alike", **sent, **{"field:reason": "DAMAGED"}
    )
    page = await browser.read(answer.headers["Location"])
    assert "3 rows: edited and retried; rows that match become commands" in page
    assert page.count("<td>BOGUS → DAMAGED</td>") == 3
    form = fields(page) | {"field": "reason", "value": "DAMAGED"}
    assert (await browser.post("/quarantine/change", **form)).status == 303
    assert sorted(values_of(office.path, "quarantine", "state")) == [
        "open",
        *["retried"] * 3,
    ]
    found = values_of(office.path, "records", "payload")
    records = [msgspec.json.decode(each).get("record") for each in found]
    assert [each and each["reason"] for each in records] == ["DAMAGED"] * 3 + [None]


async def test_a_retried_row_leads_to_its_command(office: Office) -> None:
    await sell(office, "TEA")
    await fail(office, "tea", "TEA", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    assert "Its record" not in await browser.read("/quarantine/1")
    assert (await browser.post("/quarantine/1/retry")).status == 303
    waiting = await browser.read("/quarantine/1")
    assert "Its record is" in waiting
    assert ">waiting<" in waiting
    overwrite(office.path, "records", {"command_id": "ab" * 16})
    page = await browser.read("/quarantine/1")
    assert f'Its record became command <a href="/commands/{"ab" * 16}">' in page


async def test_near_matches_fill_the_field(office: Office) -> None:
    await sell(office, "LAMP-02", "TEA")
    await fail(office, "lamp", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    page = await browser.read("/quarantine/1")
    assert "Lamp / S, 12 in stock" in page
    filled = await browser.read("/quarantine/1" + links(page)["LAMP-02"])
    assert 'value="LAMP-02"' in inputs(filled)["sku"]
    assert await edit(browser, 1, sku="LAMP-02", delta="1") == 303
    assert record(office)["sku"] == "LAMP-02"


async def test_near_orders_are_offered_for_an_unknown_order(office: Office) -> None:
    await append_and_fold(office.store, envelope("orders/create", payloads.order()))
    payload = {"kind": "fulfill", "record": {"key": "k", "order": "10o1", "lines": []}}
    unknown = ReasonClass.UNKNOWN_ORDER
    why = Unmatched("no", final=True, reason_class=unknown, subject="10o1")
    row = await add(office, payload, why)
    page = await (await office.browser("otto")).read(f"/quarantine/{row}")
    assert "#1001" in links(page)
    assert "2 units to ship" in page
    assert "aria-invalid" in inputs(page)["order"]


async def test_open_articles_of_the_order_are_offered_for_a_shipment(
    office: Office,
) -> None:
    await sell(office, "KURTA-LARGF")
    items = [payloads.item(f"li_{n}", sku="KURTA-L", quantity=n) for n in (1, 2)]
    items += [payloads.item("li_3", sku="TEA", quantity=2, fulfilledQuantity=2)]
    ordered = payloads.order(items=items)
    await append_and_fold(office.store, envelope("orders/create", ordered))
    lines = [{"sku": "KURTA-LARGE", "quantity": 1}]
    shipment = {"key": "k", "order": "1001", "lines": lines, "everything": False}
    sku = ReasonClass.UNKNOWN_SKU
    why = Unmatched("no", final=True, reason_class=sku, subject="KURTA-LARGE")
    row = await add(office, {"kind": "fulfill", "record": shipment}, why)
    page = await (await office.browser("otto")).read(f"/quarantine/{row}")
    assert "3 to ship" in page
    offered = [
        name for name in links(page) if name in {"KURTA-L", "TEA", "KURTA-LARGF"}
    ]
    assert offered == ["KURTA-L", "KURTA-LARGF"]


async def test_an_error_leads_back_to_the_form(office: Office) -> None:
    await fail(office, "a", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    same = {"field:sku": "LAMP-2", "field:delta": "1"}
    for sent_by, back in (
        ("http://x/quarantine/1?kind=adjust", '"/quarantine/1?kind=adjust">Open the'),
        ("http://x/quarantine", '"/quarantine">Open the form again'),
        ("http://x/quarantine/1/edit", None),
        ("http://x//evil.example", None),
        ("", None),
    ):
        headers = browser.form_headers() | {"Referer": sent_by}
        form = {"csrf": browser.csrf} | same
        answer = await browser.send("/quarantine/1/edit", form, headers)
        page = await answer.text()
        assert answer.status == 422
        assert "no field was changed" in page
        assert back in page if back else "Open the form" not in page, sent_by
    listed = {"Referer": "http://x/quarantine"}
    page = await (await browser.get("/quarantine/99", headers=listed)).text()
    assert "No row in the quarantine" in page
    assert "Open the form" not in page


async def test_lines_of_a_shipment_are_edited_one_by_one(office: Office) -> None:
    lines = [{"sku": "A", "quantity": 1}, {"sku": "LAMP-2", "quantity": 3}]
    shipment = {"key": "k", "order": "1", "lines": lines, "everything": False}
    sku = ReasonClass.UNKNOWN_SKU
    why = Unmatched("no", final=True, reason_class=sku, subject="LAMP-2")
    row = await add(office, {"kind": "fulfill", "record": shipment}, why)
    browser = await office.browser("otto")
    found = inputs(await browser.read(f"/quarantine/{row}"))
    assert "aria-invalid" in found["lines.2.sku"]
    assert {"lines.1.quantity", "lines.3.sku"} <= {*found}
    changes = {"lines.1.sku": "", "lines.1.quantity": "", "lines.2.sku": "LAMP-02"}
    assert await edit(browser, row, **changes) == 303
    assert record(office)["lines"] == [{"sku": "LAMP-02", "quantity": 3}]


async def test_a_single_edit_is_applied_to_all_rows_alike(office: Office) -> None:
    for number in range(3):
        await fail(office, f"lamp{number}", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    await fail(office, "mug", "MUG", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    assert "Apply to all 3 rows with this reason" in await browser.read("/quarantine/1")
    assert "rows with this reason" not in await browser.read("/quarantine/4")
    changes = {"field:sku": "LAMP-02", "field:delta": "1"}
    answer = await browser.post("/quarantine/1/alike", **changes)
    page = await browser.read(answer.headers["Location"])
    assert "3 rows: edited and retried" in page
    sent = fields(page) | {"field": "sku", "value": "LAMP-02"}
    assert (await browser.post("/quarantine/change", **sent)).status == 303
    states = rows_of(office.path, "quarantine", "subject", "state")
    assert sorted(states) == [("LAMP-2", "retried")] * 3 + [("MUG", "open")]


async def test_only_one_field_is_changed_in_rows_alike(office: Office) -> None:
    await fail(office, "a", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("otto")
    changes = {"field:sku": "LAMP-02", "field:delta": "2"}
    answer = await browser.post("/quarantine/1/alike", **changes)
    assert (answer.status, "changed 2 fields" in await answer.text()) == (422, True)


async def test_a_row_of_an_unknown_kind_needs_a_kind_first(office: Office) -> None:
    row = await unread(office, Bad(key="k", raw="??", reason="no row"))
    browser = await office.browser("otto")
    assert inputs(await browser.read(f"/quarantine/{row}")) == {}
    page = await browser.read(f"/quarantine/{row}?kind=cancel")
    assert {*inputs(page)} == {"order", "restock", "reason"}
    sent = {"kind": "cancel", "field:order": "1001", "field:restock": "true"}
    answer = await browser.post(f"/quarantine/{row}/edit", **sent)
    assert answer.status == 303
    assert (record(office)["order"], record(office)["restock"]) == ("1001", True)


async def test_an_event_is_processed_again(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    await fail(office, "k", "SKU", ReasonClass.VALUE)
    event = {"source": "event", "name": "main", "key": "1"}
    overwrite(office.path, "quarantine", event)
    browser = await office.browser("otto")
    page = await browser.read("/quarantine/1")
    assert "/events/1" in page
    assert inputs(page) == {}
    assert (await browser.post("/quarantine/1/reprocess")).status == 303
    assert ("otto", "events reprocess") in {entry[:2] for entry in office.audit()}


async def test_a_viewer_reads_the_fields_and_changes_nothing(office: Office) -> None:
    await fail(office, "lamp", "LAMP-2", ReasonClass.UNKNOWN_SKU)
    browser = await office.browser("vera")
    page = await browser.read("/quarantine/1")
    assert (inputs(page), "<dd>LAMP-2</dd>" in page) == ({}, True)
    assert (await browser.post("/quarantine/1/alike")).status == 403
