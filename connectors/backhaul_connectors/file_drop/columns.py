"""Columns of a file: their names, synonyms and settings, fixed values, row filters."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from backhaul_sdk.contract import STRICT
from backhaul_sdk.fields import Unusable, reason_of, yes_or_no
from backhaul_sdk.records import CANCEL_REASONS, STOCK_REASONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence


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
            f"more than one column could be the {meaning.replace('_', ' ')}:"
            f" {names}; name the right column in the configuration"
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


NO_COLUMN = '; "" if there is none'

Names: TypeAlias = str | tuple[str, ...]
"""The name of a column, or several names of which a file has one."""


class Columns(BaseModel):
    """The names of the columns of a kind of file.

    A name is a text, or a list of names of which a file has one.
    """

    model_config = STRICT
    needed: ClassVar[frozenset[str]] = frozenset()
    """Columns that every file must have."""

    @model_validator(mode="after")
    def _are_names(self) -> Columns:
        taken: dict[str, str] = {}
        for meaning, name in self._written():
            if not name.strip():
                if meaning in self.needed:
                    raise ValueError(
                        f"{meaning} has no column; write the column's name"
                    )
                if isinstance(getattr(self, meaning), tuple):
                    raise ValueError(
                        f"{meaning} has an empty name in its list of columns;"
                        " remove the empty name"
                    )
                continue
            other = taken.setdefault(column_name(name), meaning)
            if other != meaning:
                raise ValueError(
                    f"{other} and {meaning} have the same column {name!r}; give"
                    " each a column of its own"
                )
        return self

    def _written(self) -> Iterator[tuple[str, str]]:
        for meaning in type(self).model_fields:
            written = getattr(self, meaning)
            for name in (written,) if isinstance(written, str) else written or ("",):
                yield meaning, name


class FulfillmentColumns(Columns):
    """The names of the columns of a fulfillment file."""

    needed = frozenset({"order"})

    order: Names = Field(default="order", description="Column of the order's number.")
    tracking_company: Names = Field(
        default="tracking_company",
        description=f"Column of the carrier; its cells may be empty{NO_COLUMN}.",
    )
    tracking_number: Names = Field(
        default="tracking_number",
        description=f"Column of the tracking number; may be empty{NO_COLUMN}.",
    )
    sku: Names = Field(
        default="sku",
        description="Column of the SKU, for a part of an order; may be absent.",
    )
    quantity: Names = Field(
        default="quantity",
        description="Column of how many units of the SKU left; may be absent.",
    )
    shipped_at: Names = Field(
        default="shipped_at",
        description="Column of when the parcel left; may be absent.",
    )


class CancellationColumns(Columns):
    """The names of the columns of a cancellation file."""

    needed = frozenset({"order"})

    order: Names = Field(default="order", description="Column of the order's number.")
    restock: Names = Field(
        default="restock",
        description="Column that says yes or no: the goods go back on the shelf; "
        '"" where cancellation_values says it.',
    )
    reason: Names = Field(
        default="reason",
        description="Column of the reason; may be absent; empty means OTHER.",
    )


class StockDeltaColumns(Columns):
    """The names of the columns of a file of stock changes."""

    needed = frozenset({"sku", "adjustment"})

    sku: Names = Field(default="sku", description="Column of the SKU.")
    adjustment: Names = Field(
        default="adjustment",
        description="Column of the signed change, in units: 5 came, -5 went.",
    )
    reason: Names = Field(
        default="reason",
        description="Column of the reason; may be absent; empty means "
        "MANUAL_ADJUSTMENT.",
    )


class StockLevelColumns(Columns):
    """The names of the columns of a file of stock levels."""

    needed = frozenset({"sku", "quantity"})

    sku: Names = Field(default="sku", description="Column of the SKU.")
    quantity: Names = Field(
        default="quantity", description="Column of how many units there are."
    )
    as_of: Names = Field(
        default="as_of",
        description="Column of when they were counted; may be absent: when the file "
        "was written.",
    )


def _restock(text: str) -> str:
    try:
        yes_or_no(text or "no", "restock")
    except Unusable as error:
        raise ValueError(str(error)) from None
    return text


def _reason(words: frozenset[str], text: str) -> str:
    try:
        reason_of(text, words, "OTHER")
    except Unusable as error:
        raise ValueError(str(error)) from None
    return text


class FulfillmentValues(BaseModel):
    """The values of empty cells and absent columns of a fulfillment."""

    model_config = STRICT

    tracking_company: str = Field(
        default="", description="The carrier of files that do not name one."
    )


class CancellationValues(BaseModel):
    """The values of empty cells and absent columns of a cancellation."""

    model_config = STRICT

    restock: Annotated[str, AfterValidator(_restock)] = Field(
        default="", description="yes or no, where the files do not say it."
    )
    reason: Annotated[
        str, AfterValidator(lambda text: _reason(CANCEL_REASONS, text))
    ] = Field(default="", description="The reason, where the files do not name one.")


class StockDeltaValues(BaseModel):
    """The values of empty cells and absent columns of a stock change."""

    model_config = STRICT

    reason: Annotated[
        str, AfterValidator(lambda text: _reason(STOCK_REASONS, text))
    ] = Field(default="", description="The reason, where the files do not name one.")


def _list(values: object) -> object:
    return (values,) if isinstance(values, str) else values


Values: TypeAlias = dict[
    str,
    Annotated[
        tuple[str, ...],
        BeforeValidator(_list, json_schema_input_type=str | tuple[str, ...]),
    ],
]
"""By column: a value, or a list of values."""


class RowFilter(BaseModel):
    """Rows of a kind of file that are included, and rows that are excluded.

    Case and blanks make no difference. A row that matches both is excluded.
    """

    model_config = STRICT

    only: Values = Field(
        default={},
        description="By column: the values of rows that are taken; all other rows are "
        "left out.",
    )
    skip: Values = Field(
        default={}, description="By column: the values of rows that are left out."
    )

    @model_validator(mode="after")
    def _are_filled(self) -> RowFilter:
        for name, values in (*self.only.items(), *self.skip.items()):
            if not name.strip():
                raise ValueError(
                    "a column in this table has an empty name; write the column's name"
                )
            if not values:
                raise ValueError(
                    f"column {name} has an empty list of values; write at least one"
                    " value"
                )
        return self
