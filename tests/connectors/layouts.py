"""Files of many layouts in seven languages, and the settings that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from connectors.spreadsheets import workbook

CASES = Path(__file__).parent / "cases"


class FileLayout(NamedTuple):
    """A file, its kind, and its settings without the pattern of its name."""

    name: str
    content: bytes
    kind: str
    settings: dict[str, Any]


def text(*lines: str, encoding: str = "utf-8", end: str = "\r\n") -> bytes:
    """Return the lines as a program writes them."""
    return "".join(f"{line}{end}" for line in lines).encode(encoding)


OWN = (
    FileLayout(
        "Versand_20260331.csv",
        text(
            "Versandliste März 2026;;;;;",
            "Erstellt: 31.03.2026 07:00;;;;;",
            "",
            "Bestell-Nr.;Sendungsnummer;Paketdienst;Artikel-Nr.;Menge;Versanddatum",
            "1001;JJD0099000000001;DHL;LS-S;2,00;31.03.2026",
            "1002;JJD0099000000002;DHL;LS-M;1,00;31.03.2026",
            ";;Summe:;;3,00;",
            encoding="cp1252",
        ),
        "fulfillments",
        {
            "header_row": "find",
            "delimiter": ";",
            "encoding": "cp1252",
            "decimal": ",",
            "date_format": "%d.%m.%Y",
            "fulfillment_columns": {
                "order": "Bestell-Nr.",
                "tracking_number": "Sendungsnummer",
                "tracking_company": "Paketdienst",
                "sku": "Artikel-Nr.",
                "quantity": "Menge",
                "shipped_at": "Versanddatum",
            },
        },
    ),
    FileLayout(
        "manifest.csv",
        text(
            '"Order #","Tracking #","Carrier","Ship Date"',
            '"1001","9400111899223197428490","USPS","03/31/2026"',
            '"1002","9400111899223197428491","USPS","04/01/2026"',
        ),
        "fulfillments",
        {
            "delimiter": ",",
            "date_format": "%m/%d/%Y",
            "fulfillment_columns": {
                "order": "Order #",
                "tracking_number": "Tracking #",
                "tracking_company": "Carrier",
                "shipped_at": "Ship Date",
            },
        },
    ),
    FileLayout(
        "etat-des-stocks.csv",
        text(
            "Référence article;Désignation;Quantité en stock;Prix",
            "LS-S;Chemise S;1.200;19,90",
            "LS-M;Chemise M;40;19,90",
        ),
        "stock_levels",
        {
            "delimiter": ";",
            "decimal": ",",
            "stock_level_columns": {
                "sku": "Référence article",
                "quantity": "Quantité en stock",
            },
        },
    ),
    FileLayout(
        "envios.csv",
        text(
            "Nº pedido;Nº de seguimiento;Transportista;Fecha de envío",
            "1001;SE123456789;SEUR;31/03/2026",
            "1002;SE123456790;SEUR;01/04/2026",
            encoding="cp1252",
        ),
        "fulfillments",
        {
            "delimiter": ";",
            "encoding": "cp1252",
            "date_format": "%d/%m/%Y",
            "fulfillment_columns": {
                "order": "Nº pedido",
                "tracking_number": "Nº de seguimiento",
                "tracking_company": "Transportista",
                "shipped_at": "Fecha de envío",
            },
        },
    ),
    FileLayout(
        "voorraadlijst.txt",
        text(
            "Artikelnummer\tOmschrijving\tVoorraad\tPeildatum",
            "LS-S\tHemd S\t12\t31-03-2026",
            "LS-M\tHemd M\t0\t31-03-2026",
        ),
        "stock_levels",
        {
            "delimiter": "\t",
            "date_format": "%d-%m-%Y",
            "stock_level_columns": {
                "sku": "Artikelnummer",
                "quantity": "Voorraad",
                "as_of": "Peildatum",
            },
        },
    ),
    FileLayout(
        "giacenze.csv",
        text(
            "Codice articolo;Descrizione;Giacenza;Data inventario",
            "LS-S;Camicia S;1.250;31/03/2026 08:30",
            "LS-M;Camicia M;1.040,00;31/03/2026 08:30",
        ),
        "stock_levels",
        {
            "delimiter": ";",
            "decimal": ",",
            "date_format": "%d/%m/%Y %H:%M",
            "stock_level_columns": {
                "sku": "Codice articolo",
                "quantity": "Giacenza",
                "as_of": "Data inventario",
            },
        },
    ),
    FileLayout(
        "Stornos.csv",
        text(
            "Auftragsnummer;Stornogrund;Einlagern",
            "1001;CUSTOMER;1",
            "1002;FRAUD;0",
        ),
        "cancellations",
        {
            "delimiter": ";",
            "cancellation_columns": {
                "order": "Auftragsnummer",
                "restock": "Einlagern",
                "reason": "Stornogrund",
            },
        },
    ),
    FileLayout(
        "cancelled-orders.csv",
        text("Order Number,Cancel Reason", "1001,CUSTOMER", "1002,OTHER"),
        "cancellations",
        {
            "delimiter": ",",
            "cancellation_columns": {
                "order": "Order Number",
                "reason": "Cancel Reason",
                "restock": "",
            },
            "cancellation_values": {"restock": "no"},
        },
    ),
    FileLayout(
        "Lagerbewegungen-0331.csv",
        text(
            "Belegnr;Pos;Artikelnummer;Menge;Grund",
            "4711;1;LS-S;+5;RECEIVED",
            "4711;2;LS-M;-2;DAMAGED",
            "4712;1;LS-S;+1;RETURN",
        ),
        "stock_deltas",
        {
            "delimiter": ";",
            "key_columns": ["Belegnr", "Pos"],
            "stock_delta_columns": {
                "sku": "Artikelnummer",
                "adjustment": "Menge",
                "reason": "Grund",
            },
        },
    ),
    FileLayout(
        "mouvements.csv",
        text(
            "N° mouvement;Code article;Écart;Motif",
            "M-1;LS-S;-1;DAMAGED",
            "M-2;LS-M;3;RECEIVED",
        ),
        "stock_deltas",
        {
            "delimiter": ";",
            "key_columns": ["N° mouvement"],
            "stock_delta_columns": {
                "sku": "Code article",
                "adjustment": "Écart",
                "reason": "Motif",
            },
        },
    ),
    FileLayout(
        "Bestand.xlsx",
        workbook(
            ["Lagerbestand Hauptlager"],
            ["Stand 31.03.2026"],
            [],
            ["EAN", "Bezeichnung", "Verfügbar"],
            ["4006381333931", "Hemd S", 12],
            ["4006381333948", "Hemd M", 3],
            [None, "Gesamt", 15],
        ),
        "stock_levels",
        {
            "header_row": "find",
            "stock_level_columns": {"sku": "EAN", "quantity": "Verfügbar"},
        },
    ),
    FileLayout(
        "inventory.json",
        b'[{"itemCode": "LS-S", "onHand": 12}, {"itemCode": "LS-M", "onHand": 3}]',
        "stock_levels",
        {"stock_level_columns": {"sku": "itemCode", "quantity": "onHand"}},
    ),
    FileLayout(
        "parcels.jsonl",
        b'{"orderNumber": "1001", "trackingNumber": "T1", "carrierName": "DHL"}\n'
        b'{"orderNumber": "1002", "trackingNumber": "T2", "carrierName": "DHL"}\n',
        "fulfillments",
        {
            "fulfillment_columns": {
                "order": "orderNumber",
                "tracking_number": "trackingNumber",
                "tracking_company": "carrierName",
            }
        },
    ),
    FileLayout(
        "Unicodetext.txt",
        text("Art.-Nr.\tBestand", "LS-S\t12", "Übergröße\t3", encoding="utf-16"),
        "stock_levels",
        {
            "delimiter": "\t",
            "encoding": "utf-16",
            "stock_level_columns": {"sku": "Art.-Nr.", "quantity": "Bestand"},
        },
    ),
    FileLayout(
        "excel-list.csv",
        text("sep=;", "SKU;Qty on hand", "LS-S;12", "LS-M;3"),
        "stock_levels",
        {"delimiter": ";", "stock_level_columns": {"quantity": "Qty on hand"}},
    ),
    FileLayout(
        "racks.tsv",
        text(
            "SKU\tTitle\tStock",
            'R-19\t"Slim" rack 19"\t4',
            'R-42\t"Deep" rack 19"\t1',
        ),
        "stock_levels",
        {
            "delimiter": "\t",
            "quote": "",
            "stock_level_columns": {"quantity": "Stock"},
        },
    ),
    FileLayout(
        "quoted.csv",
        text(
            "'sku','title','quantity'",
            "'LS-S','Shirt, small','12'",
            "'LS-M','Shirt, medium','3'",
        ),
        "stock_levels",
        {"delimiter": ",", "quote": "'"},
    ),
    FileLayout(
        "scanned.csv",
        text("LS-S;12", "LS-M;3", "LS-L;0"),
        "stock_levels",
        {"header": ["sku", "quantity"], "delimiter": ";"},
    ),
    FileLayout(
        "ups-labels.csv",
        text(
            "Reference 1,Package Tracking Number,Voided",
            "1001,1Z999AA10000000001,N",
            "1002,1Z999AA10000000002,Y",
        ),
        "fulfillments",
        {
            "delimiter": ",",
            "fulfillment_values": {"tracking_company": "UPS"},
            "fulfillment_columns": {
                "order": "Reference 1",
                "tracking_number": "Package Tracking Number",
                "tracking_company": "",
            },
            "fulfillment_rows": {"skip": {"Voided": ["Y"]}},
        },
    ),
    FileLayout(
        "Bestandsliste.csv",
        text("Artikelnummer;Bestand", "LS-S;12", "LS-M;3", "Summe;15"),
        "stock_levels",
        {
            "delimiter": ";",
            "stock_level_columns": {"sku": "Artikelnummer", "quantity": "Bestand"},
            "stock_level_rows": {"skip": {"Artikelnummer": ["Summe"]}},
        },
    ),
    FileLayout(
        "stock.psv",
        text(
            "Item Code|Warehouse|Quantity on hand",
            "LS-S|North|1,200.00",
            "LS-S|South|3.00",
            "LS-M|North|40.00",
        ),
        "stock_levels",
        {
            "delimiter": "|",
            "decimal": ".",
            "same_sku": "sum",
            "stock_level_columns": {"sku": "Item Code", "quantity": "Quantity on hand"},
        },
    ),
    FileLayout(
        "verzendingen.csv",
        text(
            "Ordernummer;Track & Trace;Vervoerder;Verzenddatum",
            "1001;3SABCD0000001;PostNL;2026-03-31 14:05",
            "1002;3SABCD0000002;PostNL;2026-03-31 14:06",
        ),
        "fulfillments",
        {
            "delimiter": ";",
            "fulfillment_columns": {
                "order": "Ordernummer",
                "tracking_number": "Track & Trace",
                "tracking_company": "Vervoerder",
                "shipped_at": "Verzenddatum",
            },
        },
    ),
    FileLayout(
        "lagerliste.csv",
        text(
            *(f"Hinweis {number};;" for number in range(25)),
            "Material;Bestand (Stück);Lagerort",
            "LS-S;12;A",
            "LS-M;3;A",
        ),
        "stock_levels",
        {
            "header_row": 26,
            "delimiter": ";",
            "stock_level_columns": {"sku": "Material", "quantity": "Bestand (Stück)"},
        },
    ),
    FileLayout(
        "spedizioni.csv",
        text(
            "N. ordine,Corriere,Numero di spedizione,Data spedizione",
            "1001,GLS,IT0001,31/03/2026",
            "1002,GLS,IT0002,01/04/2026",
        ),
        "fulfillments",
        {
            "delimiter": ",",
            "date_format": "%d/%m/%Y",
            "fulfillment_columns": {
                "order": "N. ordine",
                "tracking_number": "Numero di spedizione",
                "tracking_company": "Corriere",
                "shipped_at": "Data spedizione",
            },
        },
    ),
)


def case(name: str, kind: str, settings: dict[str, Any]) -> FileLayout:
    """Return one of the files that connectors once read in another way."""
    return FileLayout(name, (CASES / name).read_bytes(), kind, settings)


KNOWN = (
    case("02-corrected-first.csv", "fulfillments", {"delimiter": ","}),
    case("02-corrected-second.csv", "fulfillments", {"delimiter": ","}),
    case("04-comment-line.csv", "fulfillments", {"delimiter": ";"}),
    case("05-two-locations.csv", "stock_levels", {"delimiter": ",", "same_sku": "sum"}),
    case("06-tracking-numbers.csv", "fulfillments", {"delimiter": ","}),
    case(
        "07-fraction.jsonl",
        "stock_levels",
        {"stock_level_columns": {"sku": "Artikelnummer", "quantity": "Bestand"}},
    ),
    case("08-serial-rows.csv", "fulfillments", {"delimiter": ","}),
    case(
        "09-voided.csv",
        "fulfillments",
        {
            "delimiter": ",",
            "fulfillment_values": {"tracking_company": "UPS"},
            "fulfillment_columns": {
                "order": "ShipmentReference1",
                "tracking_number": "PackageTrackingNumber",
                "tracking_company": "",
            },
            "fulfillment_rows": {"skip": {"VoidIndicator": ["Y"]}},
        },
    ),
    case(
        "10-no-carrier.csv",
        "fulfillments",
        {
            "delimiter": ";",
            "date_format": "%d.%m.%Y",
            "fulfillment_values": {"tracking_company": "DHL"},
            "fulfillment_columns": {
                "order": "Referenznummer",
                "tracking_number": "Sendungsnummer",
                "shipped_at": "Versanddatum",
                "tracking_company": "",
            },
        },
    ),
    case("12-negative.csv", "stock_levels", {"delimiter": ","}),
    FileLayout(
        "13-shift-jis.csv",
        text(
            "order,tracking_company,tracking_number",
            "1001,ヤマト運輸,X3",
            encoding="cp932",
            end="\n",
        ),
        "fulfillments",
        {"delimiter": ",", "encoding": "cp932"},
    ),
    case("17-one-parcel-three-rows.csv", "fulfillments", {"delimiter": ","}),
    case("18-array.json", "fulfillments", {}),
    # It cannot be read, so there is nothing to propose.
    case("18-html.xls", "", {}),
    case("18-sep.csv", "fulfillments", {"delimiter": ","}),
    case("18-versand-0331.csv", "fulfillments", {"delimiter": ","}),
    case("19-absent-article.csv", "stock_levels", {"delimiter": ","}),
    case("20-two-parcels.csv", "fulfillments", {"delimiter": ","}),
    case("21-day-1.csv", "stock_levels", {"delimiter": ","}),
    case("21-day-2.csv", "stock_levels", {"delimiter": ","}),
    case("21-day-3.csv", "stock_levels", {"delimiter": ","}),
)
"""Files of `cases`; the right settings follow from the cases' own tests."""
