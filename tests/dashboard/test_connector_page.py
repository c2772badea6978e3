"""The page of a connection: its runs, records, settings and check."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from backhaul.admin.pages.connectors import MASK, effective_settings, in_words
from backhaul.settings import Connector
from backhaul.store.matching import NewCommand
from backhaul.store.read_records import ListedRecord
from backhaul.store.records import Matched, NewRecord, Unmatched
from scenes.damaged_rows import overwrite

if TYPE_CHECKING:
    from scenes.dashboard import Office


@pytest.mark.parametrize(
    ("kind", "record", "said"),
    [
        ("adjust", {"sku": "FC", "delta": 7}, "FC +7"),
        ("adjust", {"sku": "FC", "delta": -2}, "FC -2"),
        ("level", {"sku": "FC", "quantity": 0}, "FC = 0"),
        ("cancel", {"order": "1001"}, "cancel order 1001"),
        (
            "fulfill",
            {"order": "1001", "tracking_company": "DHL", "tracking_number": "T1"},
            "order 1001 shipped DHL T1",
        ),
        ("fulfill", {"order": "1001"}, "order 1001 shipped"),
        ("track", {"tracking_number": "T1", "status": "lost"}, "parcel T1: lost"),
        ("kept", {}, "key-1"),
        ("adjust", {"sku": "FC"}, "key-1"),
        (None, None, "key-1"),
    ],
)
def test_a_record_is_shown_with_its_kind(
    kind: str | None, record: dict[str, Any] | None, said: str
) -> None:
    payload = json.dumps({"kind": kind, "record": record} if kind else None)
    row = ListedRecord("", "key-1", "accepted", "", None, "stock-2.csv:17", payload)
    assert in_words(row) == f"{said}, row 17 of stock-2.csv"


def test_secrets_are_hidden_in_settings() -> None:
    own = Connector.model_validate(
        {
            "type": "sql",
            "store": "main",
            "url": "postgresql://erp:hunter2@db/erp",
            "password": SecretStr("hunter2"),
            "queries": {"stock": {"token": SecretStr("hunter2"), "limit": 5}},
        }
    )
    shown = dict(effective_settings(own))
    assert "hunter2" not in str(shown)
    assert MASK in shown["password"]
    assert (shown["store"], shown["enabled"]) == ("main", "yes")


async def submit(office: Office, file: str, *states: str) -> None:
    """Submit a row of a file for each state of its command; `bad` is quarantined."""
    for number, state in enumerate(states):
        id_ = f"{hash((file, number)) % 2**64:032x}"
        payload = json.dumps({"kind": "adjust", "record": {"sku": "FC", "delta": 7}})
        record = NewRecord(
            f"{file}{number}", payload.encode(), "", "", f"{file}:{number}"
        )
        members: dict[str, Any] = {"variant_id": "v", "delta": 7}
        command = NewCommand(id_, "adjust", "p", "product:p", members)
        found = (
            Unmatched("no such SKU", final=True) if state == "bad" else Matched(command)
        )
        await office.store.records.accept(
            "courier", "main", [record], None, lambda *_, said=found: said
        )
        if state not in {"bad", "planned"}:
            overwrite(office.path, "commands", {"state": state}, id=id_)


async def test_files_are_counted_by_the_outcome_of_their_rows(office: Office) -> None:
    await submit(office, "old.csv", "applied", "applied", "bad", "rejected", "planned")
    await office.clock.advance(7_200)
    await submit(office, "new.csv", "planned")
    runs = await office.store.read(lambda reader: reader.source_runs("courier"))
    counted = [(r.source, r.submitted, r.applied, r.failed, r.open) for r in runs]
    assert counted == [("new.csv", 1, 0, 0, 1), ("old.csv", 5, 2, 2, 1)]
    browser = await office.browser("vera")
    page = html.unescape(await browser.read("/connectors/courier"))
    assert "FC +7, row 4 of old.csv" in page
    assert "Records, last hour</dt><dd>1<" in page
    assert "Records, last day</dt><dd>6<" in page
    assert "FC +7, row 0 of new.csv" in html.unescape(await browser.read("/connectors"))
    assert (await browser.get("/connectors/none")).status == 404


async def test_a_connection_is_checked(office: Office) -> None:
    browser = await office.browser("otto")
    answer = await browser.post("/connectors/check", name="courier")
    assert answer.status == 303
    page = await browser.read(answer.headers["Location"])
    assert "courier: ready. one file is not read" in page
    assert office.requests == ["check courier"]
    assert office.audit() == [("otto", "connectors check", "courier")]
