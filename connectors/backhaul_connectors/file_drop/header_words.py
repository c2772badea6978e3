"""Column names in five languages and more, for proposing settings.

Reading files uses the fewer names of `columns.SYNONYMS`, because a name that is only
probable must not decide about a shipment. A proposal is read by an operator first, so
it may also use `article` for the SKU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.columns import SYNONYMS, folded

if TYPE_CHECKING:
    from collections.abc import Mapping


CERTAIN, LIKELY, POSSIBLE = 3, 2, 1
"""How sure a name is: one that files are read by, a longer list, and words that often
mean something else."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "fulfillment": (
        *("order", "tracking_number", "tracking_company", "sku", "quantity"),
        "shipped_at",
    ),
    "cancellation": ("order", "restock", "reason"),
    "stock delta": ("sku", "adjustment", "reason"),
    "stock level": ("sku", "quantity", "as_of"),
}
"""The columns of each kind of file."""

_ORDER = (
    # English
    "order, po number, customer order number, shop order, external order id,"
    " sales order id, order name, purchase order, order ref no, web order id,"
    # German
    " Auftrag Nr, Kundenauftrag, externe Bestellnummer, Onlinebestellnummer,"
    " Shop-Bestellnr, Bestell-Nummer, Auftrags-ID, externe Auftragsnummer,"
    # French
    " numéro commande, no commande, n commande, réf commande, référence commande,"
    " référence de commande, num commande, commande client, id commande,"
    # Spanish
    " nº pedido, nº de pedido, num pedido, numero pedido, n pedido, id pedido,"
    " referencia pedido, referencia del pedido, pedido cliente, pedido nº,"
    # Dutch, Italian
    " ordernr, bestelnr, bestelling, bestellingsnummer, orderreferentie, order-id,"
    " n. ordine, nr ordine, num ordine, numero d'ordine, riferimento ordine,"
    " id ordine, ordine n, ordine cliente",
    "ref, reference 1, referentie, riferimento, réf, Kundenreferenznummer,"
    " referentienummer, customer ref, shipper reference, package reference",
)
_NUMBER = (
    "shipment number, shipping number, label number, parcel id, package id,"
    " air waybill, hawb, con note, connote, tracking reference, tracking no.,"
    " package tracking, lead tracking number, master tracking number,"
    " Paketscheinnummer, Identcode, Tracking-ID, Sendung Nr, Paket-ID, Barcodenummer,"
    " n° suivi, no suivi, suivi, numéro de colis, n° colis, numéro colis, n° de colis,"
    " code suivi, code de suivi, numéro d'expédition, n° d'expédition, suivi colis,"
    " nº seguimiento, nº de seguimiento, numero seguimiento, código de seguimiento,"
    " seguimiento, número de guía, guía, localizador, nº expedición, número de envío,"
    " zendingnummer, zendingsnummer, trackingnummer, track en trace,"
    " track en trace code, pakketnummer, trackingcode, track&trace code,"
    " numero spedizione, n. spedizione, codice spedizione, lettera di vettura, ldv,"
    " numero tracking, codice di tracciamento, codice tracking",
    "shipment id, Sendung, Lieferung, colis, envío, zending, spedizione, parcel",
)
_COMPANY = (
    "carrier code, shipped via, ship via, shipping provider name, courier company,"
    " Transportunternehmen, Logistiker, Logistikdienstleister, Versender Dienst,"
    " livreur, prestataire, société de transport, nom du transporteur,"
    " empresa de transporte, agencia, agencia de transporte, mensajería,"
    " bezorgdienst, pakketdienst, transporteur, vettore, spedizioniere,"
    " trasportatore, nome corriere",
    "Versandart, shipping method, service, Dienstleister, mode de livraison,"
    " método de envío, verzendmethode, verzendwijze, metodo di spedizione",
)
_SKU = (
    "item, article, internal reference, default code, sku number, style code,"
    " stock keeping unit, product id, item id, sku id, lineitem sku, material,"
    " material number, model number, Artikel-ID, Artikel Nr, SKU-Nr, Materialnr,"
    " Artikelnummer SKU, réf article, référence sku, code produit, code-article,"
    " code référence, ref produit, código artículo, cod. artículo, código sku,"
    " referencia artículo, artikelnr, productcode, productnummer, artikel code,"
    " cod. articolo, cod articolo, codice sku, codice art, cod. art., cod. prodotto",
    "Artikel, product, Produkt, model, part, référence, réf, article, produit,"
    " referencia, artículo, código, producto, articolo, codice, prodotto, variant,"
    " code, Nummer, artikelomschrijving code, internal id",
)
_UNITS = (
    "qty., quantity, Anz, Stk, versendete Menge, Versandmenge, Anzahl Stück,"
    " nombre, quantité expédiée, qté expédiée, nb pièces, cant, cantidad enviada,"
    " unidades, uds, stuks, hoeveelheid, aantal verzonden, aantal stuks, qta, q.tà,"
    " pezzi, pz, quantità spedita, lineitem quantity",
    "count, number, Zahl, nb, numero",
)
_SHIPPED = (
    "shipped_at, shipped on, ship date, shipment date, shipping date, dispatch date,"
    " despatch date, date shipped, collection date, dispatched, despatched on,"
    " fulfilled at, dispatched at, Versanddatum, versendet am, Versandtag,"
    " Lieferdatum, Versandzeitpunkt, date d'expédition, expédié le, date expédition,"
    " date d'envoi, fecha de envío, fecha envío, fecha de expedición, enviado el,"
    " verzenddatum, verzonden op, datum verzonden, data spedizione,"
    " data di spedizione, spedito il",
    "date, Datum, fecha, data, shipped, created at, Erstelldatum, timestamp",
)
_STOCK = (
    "quantity, stock on hand, qoh, soh, free stock, unrestricted, physical stock,"
    " stock count, balance, qty available, quantity available, total stock,"
    " unrestricted stock, inventory on hand, freier Bestand, frei verwendbar,"
    " Lagerbestand gesamt, Gesamtbestand, Bestand gesamt, aktueller Bestand,"
    " verfügbare Menge, Istmenge, Bestand Stück, Lagermenge, stock disponible,"
    " stock physique, stock réel, quantité disponible, qté stock, qté en stock, qté,"
    " qté disponible, stock actuel, cantidad, stock actual, inventario, stock total,"
    " cantidad disponible, existencia, aantal, beschikbaar, voorraadaantal,"
    " vrije voorraad, actuele voorraad, beschikbare voorraad, aantal op voorraad,"
    " disponibilità, esistenza, quantità, qta, q.tà, disponibile, scorta,"
    " quantità disponibile, giacenza attuale",
    "count, Anzahl, Stück, Stk, Ist, Zahl, disponible, unidades, units, pieces, pcs,"
    " pezzi, stuks, amount, counted, gezählt",
)
_CHANGE = (
    "adjustment, movement qty, movement quantity, qty adjusted, adjusted quantity,"
    " variation, quantity adjusted, Korrektur, Bewegungsmenge, Bestandskorrektur,"
    " Korrekturmenge, Differenzmenge, écart, ajustement, différence,"
    " quantité mouvement, ajuste, diferencia, variación, cantidad ajustada,"
    " mutatie, verschil, correctie, aanpassing, wijziging, rettifica, differenza,"
    " variazione, quantità movimento",
    "movement, Bewegung, mouvement, movimiento, movimento, correction",
)
_COUNTED = (
    "as_of, counted on, inventory date, last counted, snapshot date, stock as of,"
    " Bestand per, Stand, Stand vom, date d'inventaire, date de comptage, date stock,"
    " date du stock, fecha de inventario, fecha de recuento, fecha stock, teldatum,"
    " peildatum, voorraaddatum, data inventario, data conteggio, data giacenza",
    "date, Datum, fecha, data, timestamp, updated at",
)
_BACK = (
    "restock, restocked, return to inventory, remise en stock, remettre en stock,"
    " retour en stock, restocker, reponer, devolver al stock, reponer stock,"
    " reposición, terugboeken, terug op voorraad, retour voorraad,"
    " rimettere a magazzino, reintegro, rientro a magazzino, ripristina scorte,"
    " zurück ins Lager, Rückbuchung",
    "returned, retour, zurück",
)
_REASON = (
    "reason, cause, raison, motif d'annulation, motivo de cancelación, razón, causa,"
    " oorzaak, reden annulering, causale, motivazione, Ursache, Anlass",
    "note, comment, Bemerkung, remarque, nota, opmerking",
)
_MORE: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "fulfillment": {
        "order": _ORDER,
        "tracking_number": _NUMBER,
        "tracking_company": _COMPANY,
        "sku": _SKU,
        "quantity": _UNITS,
        "shipped_at": _SHIPPED,
    },
    "cancellation": {"order": _ORDER, "restock": _BACK, "reason": _REASON},
    "stock delta": {"sku": _SKU, "adjustment": _CHANGE, "reason": _REASON},
    "stock level": {"sku": _SKU, "quantity": _STOCK, "as_of": _COUNTED},
}

KEYS = frozenset(
    map(
        folded,
        (
            *("document", "document no", "document number", "document id", "movement"),
            *("movement id", "movement number", "transaction id", "transaction"),
            *("line", "line no", "line number", "item no of document", "position"),
            *("Beleg", "Belegnummer", "Belegnr", "Buchungsnummer", "Bewegungsnummer"),
            *("Position", "Pos", "Zeile", "Vorgang", "Vorgangsnummer", "pièce"),
            *("numéro de pièce", "n° mouvement", "ligne", "documento", "línea"),
            *("nº documento", "nº movimiento", "boeking", "boekingsnummer", "regel"),
            *("mutatienummer", "numero documento", "numero movimento", "riga"),
        ),
    )
)
"""Names of columns that number stock movements."""
VOIDED = frozenset(
    map(
        folded,
        (
            *("void", "voided", "void indicator", "VoidIndicator", "cancelled"),
            *("canceled", "storniert", "Storno", "annulé", "anulado", "geannuleerd"),
            "annullato",
        ),
    )
)
"""Names of columns that mark labels which were printed and not used."""
PLACES = frozenset(
    map(
        folded,
        (
            *("location", "warehouse", "storage location", "bin", "site", "plant"),
            *("Lager", "Lagerort", "Lagerplatz", "Werk", "entrepôt", "dépôt"),
            *("emplacement", "almacén", "ubicación", "magazijn", "locatie"),
            *("magazzino", "ubicazione", "deposito", "stockroom"),
        ),
    )
)
"""Names of columns that say where stock is."""


@lru_cache(maxsize=1)
def meanings() -> Mapping[str, Mapping[str, Mapping[str, int]]]:
    """Return, by kind and meaning, how sure each folded name is."""
    return {
        kind: {meaning: _sure(kind, meaning) for meaning in columns}
        for kind, columns in KINDS.items()
    }


def _sure(kind: str, meaning: str) -> Mapping[str, int]:
    likely, possible = _MORE[kind][meaning]
    known = [name for group in SYNONYMS[kind].get(meaning, ()) for name in group]
    return {
        **_rated(possible.split(","), POSSIBLE),
        **_rated(likely.split(","), LIKELY),
        **_rated((meaning, *known), CERTAIN),
    }


def _rated(names: tuple[str, ...] | list[str], sure: int) -> dict[str, int]:
    return {folded(name): sure for name in names}
