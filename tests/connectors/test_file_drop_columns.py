"""Column names and aliases, fixed values, and row filters."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from backhaul.connect import registry
from backhaul_connectors.file_drop.columns import SYNONYMS, folded
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Cancellation, Fulfillment, StockAdjustment, StockLevel
from backhaul_sdk.testing import MemoryHost
from connectors.dropping import Drop

if TYPE_CHECKING:
    from backhaul_sdk import Batch

CASES = Path(__file__).parent / "cases"


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    return Drop(tmp_path)


async def notes(drop: Drop) -> list[str]:
    """Take everything; return what is noted."""
    connector = drop.connector()
    await connector.open()
    found: list[Batch] = []
    async for batch in connector.pull(drop.host.cursor):
        drop.host.commit(batch)
        await batch.ack()
        found.append(batch)
    return [note for batch in found for note in batch.notes]


def shipped(drop: Drop) -> list[tuple[str, str | None, str | None]]:
    records = [r for r in drop.records() if isinstance(r, Fulfillment)]
    return [(r.order, r.tracking_company, r.tracking_number) for r in records]


async def test_a_voided_parcel_is_left_out_and_counted(drop: Drop) -> None:
    drop.options |= {
        "fulfillments": "09-*.csv",
        "fulfillment_columns": {
            "order": "ShipmentReference1",
            "tracking_number": "PackageTrackingNumber",
            "tracking_company": "",
        },
        "fulfillment_values": {"tracking_company": "UPS"},
        "fulfillment_rows": {"only": {"VoidIndicator": "N"}},
    }
    drop.put("09-voided.csv", (CASES / "09-voided.csv").read_bytes())
    assert await notes(drop) == [
        "09-voided.csv: 1 of 2 rows are left out by fulfillment_rows"
    ]
    assert shipped(drop) == [("1002", "UPS", "1Z999AA10000000002")]
    assert drop.reasons() == []


HEADER = "order,tracking_company,tracking_number,Status\n"
ROWS = "".join(f"{n},DHL,T{n},{s}\n" for n, s in enumerate(["", "OK", " ok", "void"]))


@pytest.mark.parametrize(
    ("filters", "orders"),
    [
        ({"only": {"Status": "ok"}}, "12"),
        ({"only": {"status": ["OK", ""]}}, "012"),
        ({"skip": {"STATUS": ["Void"]}}, "012"),
        ({"skip": {"Status": ""}}, "123"),
        ({"only": {"Status": ["ok", "void"]}, "skip": {"Status": "VOID"}}, "12"),
        ({"only": {"Status": "ok", "order": "1"}}, "1"),
        ({"only": {"Status": "none such"}}, ""),
        ({}, "0123"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 500])
async def test_rows_are_filtered_by_the_values_of_columns(
    drop: Drop, filters: dict[str, Any], orders: str, batch_rows: int
) -> None:
    drop.options |= {"fulfillment_rows": filters, "batch_rows": batch_rows}
    drop.put("fulfillments.csv", HEADER + ROWS)
    said = await notes(drop)
    assert "".join(order for order, *_ in shipped(drop)) == orders
    left = 4 - len(orders)
    assert [f"{left} of 4 rows" in note for note in said] == [True][: left > 0]
    assert drop.files() == {"archive/fulfillments.csv"}


async def test_json_rows_are_filtered_too(drop: Drop) -> None:
    drop.options["fulfillment_rows"] = {"skip": {"void": ["true"]}}
    line = '{{"order": "{}", "tracking_number": "T", "void": {}}}\n'
    drop.put("fulfillments.jsonl", line.format(1, "true") + line.format(2, "false"))
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["2"]


async def test_a_row_that_is_left_out_may_be_unusable(drop: Drop) -> None:
    drop.options["fulfillment_rows"] = {"only": {"Status": "ok"}}
    drop.put("fulfillments.csv", f"{HEADER},DHL,T,void\n1,DHL,T,ok\n,DHL,T,ok\n")
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1"]
    assert drop.reasons() == ["the order is empty"]


async def test_rows_left_out_do_not_dilute_the_share_of_bad_ones(drop: Drop) -> None:
    drop.options["fulfillment_rows"] = {"only": {"Status": "ok"}}
    good = "".join(f"{n},DHL,T{n},ok\n" for n in range(5))
    void = "".join(f"{n},DHL,T{n},void\n" for n in range(90))
    drop.put("fulfillments.csv", f"{HEADER}{good}{void}" + ",DHL,T,ok\n" * 2)
    await drop.pull()
    assert shipped(drop) == []
    assert "2 of 7 rows cannot be used" in drop.reasons()[0]


async def test_rows_left_out_of_a_stock_list_count_no_article_twice(drop: Drop) -> None:
    drop.options["stock_level_rows"] = {"only": {"Lager": "1"}}
    rows = "A,9,2\nA,1,1\nB,9,2\nB,2,1\nC,3,1\n"
    drop.put("stock-levels.csv", f"sku,quantity,Lager\n{rows}")
    await drop.pull()
    levels = [(r.sku, r.quantity) for r in drop.records() if isinstance(r, StockLevel)]
    assert levels == [("A", 1), ("B", 2), ("C", 3)]
    assert drop.reasons() == []


async def test_a_file_without_the_column_to_filter_by_is_held(drop: Drop) -> None:
    drop.options["fulfillment_rows"] = {"skip": {"VoidIndicator": "Y"}}
    drop.put("fulfillments.csv", HEADER + ROWS)
    await drop.pull()
    assert "column VoidIndicator is missing" in drop.reasons()[0]


async def test_a_manifest_that_names_no_carrier_is_usable(drop: Drop) -> None:
    case = tomllib.loads((CASES / "10-no-carrier.toml").read_text())
    options = case["connectors"]["dhl"]
    drop.options |= {k: v for k, v in options.items() if k not in ("type", "path")}
    content = (CASES / "10-no-carrier.csv").read_bytes()
    drop.put("10-1.csv", content)
    await drop.pull()
    assert shipped(drop) == [("1001", None, "00340434161094000001")]
    drop.options["fulfillment_values"] = {"tracking_company": "DHL"}
    drop.host = MemoryHost()
    drop.put("10-2.csv", content)
    await drop.pull()
    assert shipped(drop) == [("1001", "DHL", "00340434161094000001")]


async def test_a_fixed_value_replaces_empty_cells_only(drop: Drop) -> None:
    drop.options["fulfillment_values"] = {"tracking_company": "DHL"}
    drop.put(
        "fulfillments-1.csv", "order,tracking_company,tracking_number\n1,UPS,A\n2,,B\n"
    )
    drop.put("fulfillments-2.csv", "order,tracking_number\n3,C\n")
    drop.put("fulfillments-3.jsonl", '{"order": "4", "tracking_number": "D"}\n')
    await drop.pull()
    companies = {order: company for order, company, _ in shipped(drop)}
    assert companies == {"1": "UPS", "2": "DHL", "3": "DHL", "4": "DHL"}


async def test_a_missing_carrier_is_held_with_what_to_set(drop: Drop) -> None:
    drop.put("fulfillments.csv", "order,tracking_number\n3,C\n")
    await drop.pull()
    (reason,) = drop.reasons()
    assert "column tracking_company is missing" in reason
    assert "set tracking_company in fulfillment_values" in reason
    assert 'fulfillment_columns.tracking_company = ""' in reason


async def test_fixed_values_of_the_other_kinds(drop: Drop) -> None:
    drop.options |= {
        "cancellation_values": {"restock": "yes", "reason": "customer"},
        "stock_delta_values": {"reason": "Damaged"},
    }
    drop.put("cancellations.csv", "order\n1001\n")
    drop.put("stock-deltas.csv", "sku,adjustment\nA,-1\n")
    await drop.pull()
    cancelled, changed = drop.records()
    assert isinstance(cancelled, Cancellation)
    assert isinstance(changed, StockAdjustment)
    assert (cancelled.restock, cancelled.reason) == (True, "CUSTOMER")
    assert changed.reason == "DAMAGED"


async def test_a_reason_may_be_absent(drop: Drop) -> None:
    drop.put("cancellations.csv", "order,restock\n1001,no\n")
    drop.put("stock-deltas.csv", "sku,adjustment\nA,-1\n")
    await drop.pull()
    reasons = [r.reason for r in drop.records() if not isinstance(r, Fulfillment)]  # type: ignore[union-attr]
    assert reasons == ["OTHER", "MANUAL_ADJUSTMENT"]


@pytest.mark.parametrize(
    "header",
    [
        "Bestellnummer;Versanddienstleister;Sendungsnummer;Artikelnummer;Menge",
        "Auftrags-Nr.;Paketdienst;Sendungs-Nr.;Art.-Nr.;Stückzahl",
        "BESTELLNR ;Spediteur;Trackingnummer; Artikel-Nr ;Anzahl",
        "Order No.;Carrier;Tracking No.;Item No.;Qty",
        "order_number,Courier Name,Waybill,Product Code,Quantity Shipped",
        "OrderId\tShipping Carrier\tTracking-ID\tpart number\tUNITS",
        "Referenznummer;Frachtführer;Paketnummer;EAN;Menge",
        "n° de commande;transporteur;numéro de suivi;code article;quantité",
        "N° commande;Transporteur;N° de suivi;SKU;Qté",
        "Ordine;Corriere;Numero di tracciamento;Codice articolo;Quantità",
        "Zamówienie;Przewoźnik;Numer przesyłki;Indeks;Ilość",
        "SİPARİŞ NO;Kargo Firmas\u0131;Takip No;Stok Kodu;Adet",
        "注文番号;配送業者;追跡番号;商品コード;数量",
    ],
)
async def test_common_names_are_found_by_themselves(drop: Drop, header: str) -> None:
    delimiter = next(d for d in ";,\t" if d in header)
    row = delimiter.join(["1001", "DHL", "T1", "LS-S", "2"])
    drop.put("fulfillments.csv", f"{header}\n{row}\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert (record.order, record.tracking_number) == ("1001", "T1")
    assert record.tracking_company == "DHL"
    assert [(line.sku, line.quantity) for line in record.lines] == [("LS-S", 2)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("stock-levels.csv", "Artikelnummer;EAN;Bestand\nLS-S;4006381333931;7\n"),
        ("stock-levels.csv", "GTIN;Lagerbestand\nLS-S;7\n"),
        ("stock-levels.csv", "Item Code,On Hand\nLS-S,7\n"),
        ("stock-levels.json", '[{"Art-Nr": "LS-S", "verfügbar": 7}]'),
    ],
)
async def test_common_names_of_stock_are_found(
    drop: Drop, name: str, content: str
) -> None:
    drop.put(name, content)
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, StockLevel)
    assert (record.sku, record.quantity) == ("LS-S", 7)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("Bestellnummer;Auftragsnummer;Carrier;Tracking", "Bestellnummer, Auftrags"),
        ("order no;Order Number;Carrier;Tracking", "order no, Order Number"),
        ("order;Carrier;Courier;Tracking", "Carrier, Courier"),
        ("order;Carrier;Tracking;Artikelnummer;Item No", "Artikelnummer, Item No"),
    ],
)
async def test_an_ambiguous_file_is_held(drop: Drop, header: str, names: str) -> None:
    cells = ";".join(["1"] * (header.count(";") + 1))
    drop.put("fulfillments.csv", f"{header}\n{cells}\n")
    await drop.pull()
    assert drop.records() == []
    assert "more than one column could be the" in drop.reasons()[0]
    assert names in drop.reasons()[0]


async def test_the_default_name_comes_before_its_synonyms(drop: Drop) -> None:
    header = "order,order_id,Bestellnummer,tracking_company,carrier,tracking_number"
    drop.put("fulfillments.csv", f"{header}\n1,2,3,DHL,UPS,T\n")
    await drop.pull()
    assert shipped(drop) == [("1", "DHL", "T")]


async def test_a_number_of_parcels_is_no_quantity(drop: Drop) -> None:
    header = "order,tracking_company,tracking_number,Anzahl"
    drop.put("fulfillments.csv", f"{header}\n1,DHL,T,3\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert record.lines == ()


NAMED = "order;tracking_company;tracking_number"


@pytest.mark.parametrize(
    ("article", "units"),
    [
        ("Référence", "Quantité"),
        ("Referencia", "Cantidad"),
        ("Artikel", "Menge"),
        ("Item", "Qty"),
        ("Product", "Pieces"),
        ("Codice", "Quantità"),
        ("Symbol", "ilość"),
        ("品番", "数量"),
    ],
)
async def test_a_quantity_beside_an_article_that_is_not_read_ships_no_whole_order(
    drop: Drop, article: str, units: str
) -> None:
    content = f"{NAMED};{article};{units}\n1;DHL;T;A1;2\n"
    drop.put("fulfillments.csv", content)
    await drop.pull()
    assert drop.records() == []
    assert (
        f"column {units!r} holds a quantity, and column {article!r}"
        in (drop.reasons()[0])
    )
    drop.options["fulfillment_columns"] = {"sku": article}
    drop.put("fulfillments.csv", content)
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert [(line.sku, line.quantity) for line in record.lines] == [("A1", 2)]


async def test_the_settings_may_say_that_each_row_is_a_whole_order(drop: Drop) -> None:
    drop.options["fulfillment_columns"] = {"sku": ""}
    drop.put("fulfillments.csv", f"{NAMED};Artikel;Menge\n1;DHL;T;A1;2\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert record.everything


async def test_a_name_in_the_settings_wins_over_any_synonym(drop: Drop) -> None:
    drop.options["fulfillment_columns"] = {"order": "Tracking", "sku": ""}
    header = "Tracking;Carrier;Waybill;Artikelnummer;Bestellnummer"
    drop.put("fulfillments.csv", f"{header}\n1;DHL;T;A;9\n")
    await drop.pull()
    (record,) = drop.records()
    assert isinstance(record, Fulfillment)
    assert (record.order, record.tracking_number, record.lines) == ("1", "T", ())


async def test_a_column_has_several_names(drop: Drop) -> None:
    drop.options["fulfillment_columns"] = {"order": ["Order No", "Beleg"]}
    rest = "tracking_company,tracking_number"
    drop.put("fulfillments-1.csv", f"order no,{rest}\n1,DHL,A\n")
    drop.put("fulfillments-2.csv", f"BELEG,{rest}\n2,DHL,B\n")
    drop.put("fulfillments-3.csv", f"Beleg,Order_No,{rest}\n3,4,DHL,C\n")
    drop.put("fulfillments-4.csv", f"Bestellnummer,{rest}\n5,DHL,D\n")
    await drop.pull()
    assert [order for order, *_ in shipped(drop)] == ["1", "2"]
    ambiguous, missing = drop.reasons()
    assert "more than one column could be the order: Beleg, Order_No" in ambiguous
    assert "column Order No or Beleg is missing" in missing


async def test_json_objects_have_several_names_too(drop: Drop) -> None:
    drop.put(
        "fulfillments.jsonl",
        '{"Bestellnummer": "1", "Sendungsnummer": "A"}\n'
        '{"order": "2", "Waybill": "B"}\n'
        '{"Bestellnummer": "3", "Auftragsnummer": "4", "Waybill": "C"}\n',
    )
    await drop.pull()
    assert shipped(drop) == [("1", None, "A"), ("2", None, "B")]
    assert "more than one column could be the order" in drop.reasons()[0]


@pytest.mark.parametrize("kind", SYNONYMS)
def test_no_synonym_means_two_things(kind: str) -> None:
    names = [
        (folded(name), meaning)
        for meaning, groups in SYNONYMS[kind].items()
        for name in {folded(name) for group in groups for name in group}
    ]
    assert len({name for name, _ in names}) == len(names)
    assert not {folded(m) for m in SYNONYMS[kind]} & {
        name for name, meaning in names if folded(meaning) != name
    } - {"order"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"fulfillment_columns": {"tracking_company": ""}},
            "no carrier is read from fulfillment files",
        ),
        ({"fulfillment_columns": {"sku": ""}}, "each row is the whole order"),
        (
            {"fulfillment_values": {"tracking_company": "DHL"}},
            "the tracking company of fulfillments that name none is 'DHL'",
        ),
        (
            {"fulfillment_rows": {"only": {"Void": "N"}}},
            "only rows of fulfillments where Void is 'N' are taken",
        ),
        (
            {"stock_level_rows": {"skip": {"Lager": ["2", "3"], "Typ": "x"}}},
            "where Lager is '2' or '3' or Typ is 'x' are left out",
        ),
        ({"same_content": "apply"}, "is applied as a second event"),
        ({"quote": ""}, "quotation marks in CSV files are plain text"),
        ({"header": ["order", "sku"]}, "do not name their columns: order, sku"),
        ({"require_done_file": True}, "only when {name}.done lies beside it"),
    ],
)
def test_check_config_says_what_a_setting_means(
    options: dict[str, Any], said: str
) -> None:
    (found,) = registry.meanings("file_drop", {"path": "/nowhere", **options})
    assert said in found


def test_usual_settings_need_no_words() -> None:
    assert registry.meanings("file_drop", {"path": "/nowhere"}) == []
    named = {"order": "Order No", "tracking_company": ["Carrier", "Courier"]}
    options = {"path": "/nowhere", "fulfillment_columns": named}
    assert registry.meanings("file_drop", options) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fulfillment_columns": {"order": ""}}, "order has no column"),
        ({"fulfillment_columns": {"order": []}}, "order has no column"),
        ({"stock_level_columns": {"quantity": " "}}, "quantity has no column"),
        ({"fulfillment_columns": {"sku": ["A", ""]}}, "sku has an empty name"),
        (
            {"fulfillment_columns": {"order": "X", "sku": "x"}},
            "order and sku have the same column 'x'",
        ),
        ({"cancellation_values": {"restock": "maybe"}}, "restock must be yes or no"),
        ({"stock_delta_values": {"reason": "ROT"}}, "reason 'ROT' is unknown"),
        ({"fulfillment_values": {"order": "1"}}, "order"),
        (
            {"fulfillment_rows": {"only": {"Status": []}}},
            "column Status has an empty list of values",
        ),
        (
            {"fulfillment_rows": {"only": {"": "N"}}},
            "a column in this table has an empty name",
        ),
        ({"fulfillment_rows": {"exept": {"a": "b"}}}, "exept"),
        ({"encoding": "shift-jiss"}, "is not a text encoding"),
        ({"encoding": "base64"}, "is not a text encoding"),
        ({"done_file": "ok"}, "must contain {name} or {stem}"),
        ({"done_file": "{nam}.ok"}, "must contain {name} or {stem}"),
        ({"done_file": "{stem}.csv"}, "must contain {name} or {stem}"),
        ({"header_row": -1}, "header_row"),
        ({"same_content": "keep"}, "same_content"),
        ({"quote": "x"}, "quote"),
    ],
)
def test_settings_that_mean_nothing_are_refused(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as found:
        Settings.model_validate({"path": "/nowhere", **options})
    assert said in str(found.value)
