"""Decisions of operators in the dashboard: what they see, and who is recorded."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import msgspec
import pytest

from backhaul.store.records import NewRecord, Unmatched
from scenes import payloads
from scenes.damaged_rows import overwrite
from scenes.databases import append_and_fold
from scenes.stored import commands, rows_of, value_of

if TYPE_CHECKING:
    from scenes.dashboard import Browser, Office

HOSTILE = """"><script>alert('x')</script><img src=x onerror="alert(1)">"""
RECORD = {"key": "k1", "order": "#9", "tracking_company": "DHL", "tracking_number": "T"}


def state(office: Office, command: str) -> str:
    return str(value_of(office.path, "commands", "state", id=command))


def fields(page: str) -> dict[str, str]:
    """Return the hidden fields of a page, as a browser would send them."""
    found = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page)
    return {name: html.unescape(value) for name, value in found}


async def resend(browser: Browser, command: str) -> dict[str, str]:
    path = f"/commands/{command}/resend"
    return fields(await browser.read(path)) | {"reason": "the parcel is there"}


@pytest.mark.parametrize(
    ("before", "verb", "after"),
    [
        ("planned", "park", "parked"),
        ("parked", "discard", "rejected"),
        ("parked", "resolve-applied", "applied"),
    ],
)
async def test_an_operator_decides_under_the_own_name(
    office: Office, before: str, verb: str, after: str
) -> None:
    command = await office.plan(state=before)
    browser = await office.browser("otto")
    await browser.post(f"/commands/{command}/{verb}", reason="because", shown=before)
    assert state(office, command) == after
    said = verb.replace("-", " --")
    assert office.audit() == [("otto", f"commands {said}", "because")]
    assert f"was {before} and is {after}" in await browser.read(f"/commands/{command}")


@pytest.mark.parametrize("reason", [" ", "why " * 200], ids=["none", "too long"])
async def test_a_decision_without_a_readable_reason_is_refused(
    reason: str, office: Office
) -> None:
    command = await office.plan()
    browser = await office.browser("otto")
    answer = await browser.post(f"/commands/{command}/park", reason=reason)
    assert (answer.status, state(office, command)) == (422, "planned")


async def test_a_decision_on_a_changed_command_is_refused(office: Office) -> None:
    command = await office.plan(state="parked")
    browser = await office.browser("otto")
    answer = await browser.post(
        f"/commands/{command}/discard", reason="late", shown="uncertain"
    )
    assert (answer.status, state(office, command)) == (422, "parked")


async def test_a_resend_is_shown_byte_by_byte(office: Office) -> None:
    command = await office.plan(state="parked")
    browser = await office.browser("otto")
    page = html.unescape(await browser.read(f"/commands/{command}/resend"))
    assert "POST /orders/ord_1/fulfill" in page
    form = await resend(browser, command)
    assert msgspec.json.decode(form["body"])["trackingNumber"] == "T1"
    assert f'<pre tabindex="0">{form["body"]}</pre>' in page
    await browser.post(f"/commands/{command}/resend", **form)
    assert state(office, command) == "planned"
    assert office.audit() == [("otto", "commands resend", "the parcel is there")]


async def test_a_resend_that_changed_since_it_was_shown_is_refused(
    office: Office,
) -> None:
    command = await office.plan(state="parked")
    browser = await office.browser("otto")
    form = await resend(browser, command)
    payload = value_of(office.path, "commands", "payload", id=command)
    corrected = {"payload": payload.replace("T1", "T2")}
    overwrite(office.path, "commands", corrected, id=command)
    answer = await browser.post(f"/commands/{command}/resend", **form)
    assert (answer.status, state(office, command)) == (422, "parked")
    assert "check it and try again" in await answer.text()


async def set_aside(office: Office, raw: str = "9,DHL,T") -> int:
    """Bring a record whose order is not there, and let its time run out."""
    payload = msgspec.json.encode({"kind": "fulfill", "record": RECORD})
    record = NewRecord("k1", payload, raw, "no order is called #9", "f.csv:2")
    unknown = Unmatched("no order is called #9", final=True)
    await office.store.records.accept(
        "courier", "main", [record], None, lambda *_: unknown
    )
    return int(value_of(office.path, "quarantine", "id"))


async def test_a_quarantined_row_is_edited_field_by_field(office: Office) -> None:
    row = await set_aside(office)
    browser = await office.browser("otto")
    assert 'name="field:order" value="#9"' in await browser.read(f"/quarantine/{row}")
    sent = {"field:order": "#1001", "field:tracking_number": "T", "reason": "typing"}
    assert (await browser.post(f"/quarantine/{row}/edit", **sent)).status == 303
    ((kept, where),) = rows_of(office.path, "records", "payload", "state")
    assert (msgspec.json.decode(kept)["record"]["order"], where) == ("#1001", "waiting")
    assert "The quarantine is empty" in await browser.read("/quarantine")
    (who, action, detail) = office.audit()[0]
    assert (who, action) == ("otto", "quarantine edit")
    assert "typing" in str(detail)


async def test_a_number_is_sent_alone_where_the_order_is_shipped_whole(
    office: Office,
) -> None:
    row = await set_aside(office)
    browser = await office.browser("otto")
    await office.store.quarantine.retry(row, None, "otto", "it is order 9 after all")
    whole = payloads.order(
        "ord_9",
        number=9,
        items=[payloads.item(fulfilledQuantity=2)],
        shipments=[payloads.shipment("shp_9", trackingNumber="T0")],
    )
    assert "Send only the tracking number" not in await browser.read(
        f"/quarantine/{row}"
    )
    await append_and_fold(office.store, payloads.envelope("orders/create", whole))
    overwrite(office.path, "quarantine", {"state": "open"})
    assert "Send only the tracking number" in await browser.read(f"/quarantine/{row}")
    assert (await browser.post(f"/quarantine/{row}/correct")).status == 303
    planned = [(c.target, c.wanted.get("number_only")) for c in commands(office.path)]
    assert ("ord_9", True) in planned
    assert office.audit()[-1][:2] == ("otto", "quarantine correct")


async def test_a_row_is_discarded_with_a_reason_only(office: Office) -> None:
    row = await set_aside(office)
    browser = await office.browser("otto")
    assert (await browser.post(f"/quarantine/{row}/discard")).status == 422
    answer = await browser.post(f"/quarantine/{row}/discard", reason="a test order")
    assert answer.status == 303
    assert value_of(office.path, "quarantine", "state") == "dropped"


async def test_a_held_file_is_applied_or_discarded_as_a_whole(office: Office) -> None:
    reason = "b.csv was moved to held/: its content equals that of a.csv"
    record = NewRecord("same-content:1", None, "b.csv", reason, "b.csv", can_apply=True)
    await office.store.records.accept(
        "courier", "main", [record], None, lambda *_: Unmatched("", final=True)
    )
    row = value_of(office.path, "quarantine", "id")
    browser = await office.browser("otto")
    page = await browser.read(f"/quarantine/{row}")
    assert ("Apply</" in page, "Discard</" in page) == (True, True)
    assert "Edit and retry" not in page
    assert (await browser.post(f"/quarantine/{row}/retry")).status == 303
    assert value_of(office.path, "records", "state") == "approved"
    assert office.audit()[0][:2] == ("otto", "quarantine retry")


async def test_no_user_text_is_rendered_as_html(office: Office) -> None:
    order = payloads.order("ord_1", name=HOSTILE, note=HOSTILE)
    product = payloads.product("prod_1", title=HOSTILE)
    bodies = [
        payloads.envelope("orders/create", order),
        payloads.envelope("products/create", product),
    ]
    await append_and_fold(office.store, *bodies)
    command = await office.plan()
    overwrite(office.path, "commands", {"reason": HOSTILE, "evidence": HOSTILE})
    row = await set_aside(office, HOSTILE)
    browser = await office.browser("ada")
    await browser.post(f"/commands/{command}/park", reason=HOSTILE)
    paths = ["/", "/events", "/events/1", "/commands", f"/commands/{command}"]
    paths += ["/mirror", "/mirror/order/main/ord_1", "/mirror/product/main/prod_1"]
    paths += ["/quarantine", f"/quarantine/{row}", "/audit"]
    seen = 0
    for path in [*paths, f"/events?topic={HOSTILE}", f"/mirror?q={HOSTILE}"]:
        page = await browser.read(path)
        seen += "alert(" in page
        assert "<script>" not in page, path
        assert "<img" not in page, path
    assert seen > len(paths) // 2
