"""`backhaul mappings`, and what `quarantine show` and `edit` say about near matches."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.connect.quarantine_fields import encode_read
from backhaul.store.records import NewRecord, ReasonClass, Unmatched
from backhaul_sdk import Bad, ReadValue
from scenes import payloads
from scenes.daemon import in_process, office_of
from scenes.databases import append_and_fold, started_store
from scenes.payloads import envelope
from scenes.stored import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.daemon import Office
    from scenes.reference_process import ReferenceProcess

BAD = Bad(
    key="bad",
    raw="SKU;Menge;Grund\nLAMP-02;3;BOGUS",
    reason="the reason 'BOGUS' is unknown; use DAMAGED, OTHER",
    kind="adjust",
    read={
        "sku": ReadValue("LAMP-02", "SKU"),
        "delta": ReadValue("3", "Menge"),
        "reason": ReadValue("BOGUS", "Grund"),
    },
)


async def fill(office: Office) -> None:
    """Sell a lamp; quarantine three rows with another name of it, and a bad row."""
    async with started_store(office.database) as store:
        variants = [payloads.variant("v_1", sku="LAMP-02")]
        product = payloads.product(title="Lamp", variants=variants)
        await append_and_fold(store, envelope("products/create", product))
        why = ReasonClass.UNKNOWN_SKU
        found = Unmatched("no", final=True, reason_class=why, subject="LAMP-2")
        records = [
            NewRecord(
                f"{n}",
                json.dumps(
                    {
                        "kind": "adjust",
                        "record": {"key": f"{n}", "sku": "LAMP-2", "delta": 1},
                    }
                ).encode(),
                f"sku,adjustment\nLAMP-2,{n}",
                "",
                f"stock.csv:{n}",
            )
            for n in range(3)
        ]
        bad = NewRecord("bad", None, BAD.raw, BAD.reason, "f:2", read=encode_read(BAD))
        await store.records.accept(
            "erp", "main", [*records, bad], None, lambda *_: found
        )


@pytest.fixture
def office(platform: ReferenceProcess) -> Iterator[Office]:
    with office_of(platform) as started:
        asyncio.run(fill(started))
        yield started


def run(office: Office, *arguments: object) -> Any:
    return in_process("mappings", *arguments, config=office.config)


def states(office: Office) -> list[str]:
    return values_of(office.database, "quarantine", "state")


def test_a_mapping_is_previewed_added_listed_and_removed(office: Office) -> None:
    done = run(office, "add", "sku", "LAMP-2", "LAMP-02", "--dry-run", "--json").json()
    assert done == {"added": 1, "retried": 3}
    assert states(office) == ["open"] * 4
    said = run(office, "add", "sku", "LAMP-2", "LAMP-02", "--reason", "renamed").out
    assert "1 mapping added" in said
    assert "3 quarantined rows retried" in said
    assert states(office) == ["retried"] * 3 + ["open"]
    (row,) = run(office, "list", "--json").json()
    assert (row["alias"], row["name"], row["connection"]) == ("LAMP-2", "LAMP-02", "")
    assert "was removed" in run(office, "remove", row["id"]).out
    assert run(office, "list", "--json").json() == []
    assert "there is no mapping 1" in run(office, "remove", row["id"]).err


def test_a_mapping_to_an_unknown_sku_names_near_ones(office: Office) -> None:
    for more in ((), ("--dry-run",)):
        said = run(office, "add", "sku", "LAMP-2", "LAMP-03", *more).err
        assert "store main has no SKU LAMP-03" in said
        assert "Near matches: LAMP-02 (Lamp / S, 12 in stock)" in said


def test_mappings_go_out_and_come_in_as_csv(office: Office, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_text(
        "alias,name,kind\nLAMP-2,LAMP-02,sku\nDHL Paket,DHL,carrier\n-@x,=y,carrier\n"
    )
    done = run(office, "import", file, "--json").json()
    assert done == {"added": 3, "retried": 3}
    out = tmp_path / "out.csv"
    assert "wrote 3 mappings" in run(office, "export", "--out", out).out
    assert "exists already" in run(office, "export", "--out", out).err
    assert "main,carrier,'-@x,'=y," in out.read_text()
    assert run(office, "import", out, "--json").json() == {"added": 0, "retried": 0}
    assert run(office, "export").out == out.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name\nX\n", "has no column alias"),
        ("alias,name\nA,\n", "line 2: the name of the mapping is empty"),
        ("alias,name,kind\nA,B,colour\n", "line 2: 'colour' is not a valid"),
        ("alias,name,store\nA,B,moon\n", "line 2: no store is called 'moon'"),
        ("alias,name\nLAMP-2,LAMP-02\nA,B\n", "store main has no SKU B"),
        ("alias,name\n", "contains no mapping"),
    ],
)
def test_a_wrong_file_adds_nothing(
    content: str, said: str, office: Office, tmp_path: Path
) -> None:
    file = tmp_path / "in.csv"
    file.write_text(content)
    assert said in run(office, "import", file).err
    assert run(office, "list", "--json").json() == []


def test_a_row_shows_its_fields_and_what_to_type(office: Office) -> None:
    def show(row: int, *more: str) -> Any:
        return in_process("quarantine", "show", row, *more, config=office.config)

    said = show(1).out
    assert "backhaul quarantine edit 1 --set sku=LAMP-02" in said
    assert "edit all 3 rows with this reason" in said
    assert "backhaul mappings add sku LAMP-2 LAMP-02" in said
    found = show(1, "--json").json()
    assert found["kind"] == "adjust"
    (invalid,) = (each for each in found["fields"] if each["invalid"])
    assert (invalid["field"], invalid["value"]) == ("sku", "LAMP-2")
    assert invalid["column"] == "sku"
    assert [each["name"] for each in found["near_matches"]] == ["LAMP-02"]
    bad = show(4, "--json").json()
    marked = {f["field"]: (f["column"], f["invalid"]) for f in bad["fields"]}
    assert marked["reason"] == ("Grund", True)
    assert marked["delta"] == ("Menge", False)


def test_a_shipment_shows_what_its_order_has_to_ship(office: Office) -> None:
    async def ship() -> None:
        async with started_store(office.database) as store:
            items = [payloads.item(f"li_{n}", sku="MUG", quantity=n) for n in (1, 2)]
            order = payloads.order(items=items)
            await append_and_fold(store, envelope("orders/create", order))
            lines = [{"sku": "LAMP-2", "quantity": 1}]
            record = {"key": "k", "order": "1001", "lines": lines}
            payload = json.dumps({"kind": "fulfill", "record": record}).encode()
            why = ReasonClass.UNKNOWN_SKU
            found = Unmatched("no", final=True, reason_class=why, subject="LAMP-2")
            new = NewRecord("k", payload, "raw", "", "f.csv:2")
            await store.records.accept("erp", "main", [new], None, lambda *_: found)

    asyncio.run(ship())
    said = in_process("quarantine", "show", 5, config=office.config).out
    assert "to ship in this order:" in said
    assert "3 to ship" in said
    assert "mappings add sku LAMP-2 LAMP-02" in said  # the near match, not the mug
    found = in_process("quarantine", "show", 5, "--json", config=office.config).json()
    assert [each["name"] for each in found["to_ship"]] == ["MUG"]


def test_an_edit_to_an_unknown_name_offers_near_ones(office: Office) -> None:
    def edit(*arguments: object) -> Any:
        return in_process("quarantine", "edit", *arguments, config=office.config)

    said = "store main has no SKU LAMP-03. Near matches: LAMP-02"
    assert said in edit(1, "--set", "sku=LAMP-03").err
    where = ("--where", "subject=LAMP-2", "--yes")
    assert said in edit(*where, "--set", "sku=LAMP-03").err
    assert states(office) == ["open"] * 4
    assert "waits to be matched" in edit(4, "--set", "reason=damaged").out
    assert "3 are tried again now" in edit(*where, "--set", "sku=LAMP-02").out
