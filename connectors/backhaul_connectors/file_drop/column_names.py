"""Finds columns by name: set names, defaults and common synonyms."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

_NOT_LETTERS = re.compile(r"[\W_]+")


def folded(name: str) -> str:
    """Return only letters and digits: `Order No.` and `order_no` are `orderno`."""
    # The Turkish dotless i is a letter of its own, not an accented one.
    plain = unicodedata.normalize("NFKD", name.casefold().replace("\u0131", "i"))
    return _NOT_LETTERS.sub("", "".join(c for c in plain if not is_accent(c)))


def is_accent(letter: str) -> bool:
    """Return True if this is the accent of the letter before it."""
    return unicodedata.combining(letter) != 0


def column_name(cell: str) -> str:
    """Return the name used to compare columns: `Tracking No` is `tracking_no`."""
    plain = cell if cell.isascii() else unicodedata.normalize("NFKC", cell)
    return re.sub(r"[\s_-]+", "_", plain.strip().casefold())


class Ambiguous(ValueError):
    """Several columns fit one meaning; the text names them."""


class Column(Struct, frozen=True):
    """A column that a file may have.

    Its name is one of `names`, compared as `column_name` does. Otherwise the first
    group of `synonyms` with a matching name counts, compared as `folded` does.
    """

    names: tuple[str, ...]
    synonyms: tuple[frozenset[str], ...] = ()

    @property
    def shown(self) -> str:
        return " or ".join(self.names)


def column_of(
    written: str | Sequence[str], synonyms: Sequence[Sequence[str]]
) -> Column:
    """Return a column from its setting, with its synonyms."""
    names = (written,) if isinstance(written, str) else tuple(written)
    return Column(names, tuple(frozenset(map(folded, group)) for group in synonyms))


def known_names(columns: Iterable[Column]) -> frozenset[str]:
    """Return every possible name of the columns, as `folded` does."""
    names = {folded(name) for column in columns for name in column.names}
    groups = (group for column in columns for group in column.synonyms)
    return frozenset(names.union(*groups))


def may_name_article(name: str) -> bool:
    """Return True if a column of that name could contain articles."""
    return _ARTICLE.search(folded(name)) is not None


def places_of(columns: Mapping[str, Column], header: Sequence[str]) -> dict[str, int]:
    """Return the place of each column. Raises Ambiguous if there are two.

    A name of the settings comes before the synonyms of another column.
    """
    names = [column_name(cell) for cell in header]
    places = dict[str, int]()
    for meaning, column in columns.items():
        wanted = {column_name(name) for name in column.names}
        found = [place for place, name in enumerate(names) if name in wanted]
        _take(places, meaning, found, header)
    for meaning, column in columns.items():
        if meaning not in places and column.synonyms:
            free = set(range(len(header))) - set(places.values())
            _take(places, meaning, _by_synonym(column, header, free), header)
    return places


def _by_synonym(
    column: Column, header: Sequence[str], free: Collection[int]
) -> list[int]:
    names = {place: folded(header[place]) for place in sorted(free)}
    for group in column.synonyms:
        if found := [place for place, name in names.items() if name in group]:
            return found
    return []


def _take(
    places: dict[str, int], meaning: str, found: Sequence[int], header: Sequence[str]
) -> None:
    if len(found) > 1:
        names = ", ".join(header[place].strip() for place in found)
        raise Ambiguous(
            f"more than one column could be the {meaning.replace('_', ' ')}: {names}; "
            "name the right one in the settings"
        )
    if found:
        places[meaning] = found[0]


_ORDER = (
    (
        *("order no", "order nr", "order number", "order id", "order name"),
        *("order ref", "order reference", "sales order", "sales order no"),
        *("sales order number", "web order", "web order number", "shop order number"),
        *("Bestellnummer", "Bestellnr", "Bestell-Nr.", "Bestell-ID", "Bestellung"),
        *("Auftragsnummer", "Auftragsnr", "Auftrags-Nr.", "Auftrag", "Shopauftrag"),
        *("numéro de commande", "n° de commande", "n° commande", "commande"),
        *("número de pedido", "zamówienie", "nr zamówienia", "sipariş no", "注文番号"),
        *("pedido", "numero ordine", "ordine", "bestelnummer", "ordernummer"),
    ),
    (
        *("reference", "reference no", "reference number", "customer reference"),
        *("your reference", "shipment reference", "shipment reference 1"),
        *("Referenz", "Referenznummer", "Referenznr", "Kundenreferenz"),
        *("Ihre Referenz", "Sendungsreferenz", "référence", "referencia"),
    ),
)
_COMPANY = (
    (
        *("carrier", "carrier name", "courier", "courier name", "shipping carrier"),
        *("shipping company", "shipping provider", "delivery company"),
        *("delivery service", "parcel service", "tracking provider", "Paketdienst"),
        *("Versanddienstleister", "Versandunternehmen", "Versanddienst", "Zusteller"),
        *(
            "Frachtführer",
            "Spediteur",
            "Spedition",
            "Transporteur",
            "Paketdienstleister",
        ),
        *("transportista", "corriere", "vervoerder", "przewoźnik", "kurier"),
        *("kargo firmasi", "配送業者"),
    ),
)
_NUMBER = (
    (
        *("tracking no", "tracking nr", "tracking id", "tracking code", "tracking"),
        *("tracking numbers", "package tracking number", "parcel number", "parcel no"),
        *("waybill", "waybill no", "waybill number", "awb", "awb no", "awb number"),
        *("consignment no", "consignment number", "shipment tracking number"),
        *("Sendungsnummer", "Sendungsnr", "Sendungs-Nr.", "Sendungs-ID", "Paketnummer"),
        *("Paketnr", "Paket-Nr.", "Trackingnummer", "Trackingnr", "Frachtbriefnummer"),
        *("Sendungsverfolgungsnummer", "Sendungscode", "numéro de suivi"),
        *("n° de suivi", "número de seguimiento", "numero di tracking"),
        *("numero di tracciamento", "numer przesyłki", "takip no", "追跡番号"),
        *("numero di spedizione", "track and trace", "track & trace"),
    ),
)
_SKU = (
    (
        *("article no", "article nr", "article number", "article code", "item no"),
        *("item nr", "item number", "item code", "item sku", "product sku"),
        *("product code", "product no", "product number", "part no", "part number"),
        *("variant sku", "seller sku", "merchant sku", "stock code", "SKU code"),
        *(
            "Artikelnummer",
            "Artikelnr",
            "Artikel-Nr.",
            "Art.-Nr.",
            "Artnr",
            "Art-Nummer",
        ),
        *("Artikelcode", "Materialnummer", "Material-Nr.", "Produktnummer"),
        *("Teilenummer", "Sachnummer", "référence article", "code article"),
        *("référence produit", "código de artículo", "código de producto"),
        *("codice articolo", "codice prodotto", "código do produto", "lineitem sku"),
        *("artikelnummer", "artikkelnummer", "varenummer", "indeks", "kod produktu"),
        *("stok kodu", "商品コード", "артикул"),
    ),
    ("EAN", "EAN code", "EAN-Code", "GTIN", "UPC", "barcode", "Barcode", "Strichcode"),
)
_ARTICLE = re.compile(
    "sku|artic|artikel|artikkel|item|product|produkt|produit|prodot|referen|material"
    "|code|kod|codig|codic|barcode|indeks|symbol|model|品|артик|товар|towar|zbozi"
)
"""Parts of column names that may mean an article, and parts that do not."""
_UNITS = (
    (
        *("qty", "qty shipped", "quantity shipped", "shipped quantity", "shipped qty"),
        *("units", "pieces", "pcs", "no of units", "Menge", "Anzahl", "Stück"),
        *("Stückzahl", "Liefermenge", "gelieferte Menge", "quantité", "qté"),
        *("cantidad", "quantità", "aantal", "quantidade", "ilość", "množství"),
        *("antal", "adet", "mennyiség", "数量", "количество", "кол-во"),
    ),
)
_STOCK = (
    (
        *("qty", "stock", "stock level", "stock quantity", "stock qty", "on hand"),
        *("quantity on hand", "qty on hand", "available", "available quantity"),
        *("available stock", "inventory", "inventory level", "inventory quantity"),
        *("in stock", "Bestand", "Lagerbestand", "Istbestand", "verfügbar"),
        *("verfügbarer Bestand", "Bestandsmenge", "Menge", "Lagermenge", "existencias"),
        *("quantité", "quantité en stock", "giacenza", "voorraad", "stan magazynowy"),
        *("在庫数", "остаток"),
    ),
)
_CHANGE = (
    (
        *("change", "delta", "difference", "quantity change", "qty change"),
        *("stock change", "quantity delta", "Differenz", "Änderung", "Veränderung"),
        *("Mengenänderung", "Bestandsänderung", "Bestandsveränderung", "Zu-/Abgang"),
    ),
)
_COUNTED = (
    (
        *("counted at", "count date", "stock date", "inventory date", "as of date"),
        *("Bestandsdatum", "Stichtag", "Zähldatum", "Inventurdatum", "gezählt am"),
    ),
)
_BACK = (
    (
        *("put back", "back to stock", "return to stock", "restock items"),
        *(
            "Wiedereinlagern",
            "einlagern",
            "zurücklegen",
            "Rücklagerung",
            "zurückbuchen",
        ),
    ),
)
_REASON = (
    (
        *("reason code", "cancel reason", "cancellation reason", "adjustment reason"),
        *("Grund", "Begründung", "Stornogrund", "Stornierungsgrund", "Buchungsgrund"),
        *("motif", "motivo", "reden"),
    ),
)
SYNONYMS: Mapping[str, Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "fulfillment": {
        "order": _ORDER,
        "tracking_company": _COMPANY,
        "tracking_number": _NUMBER,
        "sku": _SKU,
        "quantity": _UNITS,
    },
    "cancellation": {"order": _ORDER, "restock": _BACK, "reason": _REASON},
    "stock delta": {"sku": _SKU, "adjustment": _CHANGE, "reason": _REASON},
    "stock level": {"sku": _SKU, "quantity": _STOCK, "as_of": _COUNTED},
}
"""By kind of file and meaning: groups of names, of which the first matching group
counts. Words that often name a description (item, article, product) are left out, and
so are those of the shipping time, which the store does not receive."""
