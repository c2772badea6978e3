"""Stores, their settings, and how each surface shows them."""

import re
from dataclasses import dataclass, fields
from typing import Any

from backhaul_reference.platform import formats, models, money, quirks
from backhaul_reference.platform.json_codec import Document, decode_stored, encode_text
from backhaul_reference.platform.quirks import Quirks
from backhaul_reference.platform.state.database import Row, Rows
from backhaul_reference.platform.state.writer import Tx

PICTURE = re.compile(r"^(?:https?://\S+|data:image/[a-z.+-]+[;,]\S+)$")
"""A picture's URL, or the picture as a data URL; a page contains nothing else."""
METHODS = {"COD": "cod", "CUSTOM_QR": "custom_qr"}
PAYMENT_OFF = {"enabled": False, "fee": 0, "instructions": None}
DEFAULTS: dict[str, Any] = {
    "currency": "INR",
    "timezone": "Asia/Kolkata",
    "locale": "en-IN",
    "country": "IN",
    "logo": None,
    "seo_title": None,
    "seo_description": None,
    "active": True,
    "cod_confirmation": False,
    "account_mode": "OPTIONAL",
    "cod": {**PAYMENT_OFF, "enabled": True},
    "custom_qr": {**PAYMENT_OFF, "qr": None},
    "vertical": {"type": "GENERAL", "settings": {}},
    "quirks": [],
}
LASTING = {"id", "subdomain", "name", "currency", "exponent", "created_ms"}
AS_JSON = ("cod", "custom_qr", "vertical")
WRITTEN_AS_JSON = (*AS_JSON, "quirks")


@dataclass(frozen=True, slots=True)
class Store:
    """One store as the surfaces need it."""

    id: str
    subdomain: str
    name: str
    currency: str
    exponent: int
    timezone: str
    locale: str
    country: str
    logo: str | None
    seo_title: str | None
    seo_description: str | None
    active: bool
    cod_confirmation: bool
    account_mode: models.AccountMode
    cod: Document
    custom_qr: Document
    vertical: models.Vertical
    created_ms: int
    quirks: Quirks
    fixture: str
    merchant_email: str | None
    tracking_page: str | None

    def accepted_methods(self) -> list[str]:
        on = [
            name for name, field in METHODS.items() if getattr(self, field)["enabled"]
        ]
        return on or ["COD"]

    def money(self, minor: int) -> str:
        return money.to_text(minor, self.exponent)


def by_subdomain(rows: Rows, subdomain: str) -> Store | None:
    return _store(rows.one("SELECT * FROM store WHERE subdomain = ?", (subdomain,)))


def by_id(rows: Rows, store_id: str) -> Store | None:
    return _store(rows.one("SELECT * FROM store WHERE id = ?", (store_id,)))


def every(rows: Rows) -> list[Store]:
    found = rows.all("SELECT * FROM store ORDER BY created_ms, id")
    return [store for row in found if (store := _store(row))]


def create(tx: Tx, values: dict[str, Any]) -> Store:
    """Add a store without contents."""
    merged = {**DEFAULTS, **values}
    merged.setdefault("id", tx.ids.new("sto"))
    tx.insert("store", _columns({**merged, "created_ms": tx.now_ms()}))
    tx.insert("counter", {"store_id": merged["id"]})
    created = by_id(tx, merged["id"])
    assert created is not None  # noqa: S101  - inserted just above
    return created


def restore(tx: Tx, store: Store, values: dict[str, Any]) -> Store:
    """Reset the settings to the defaults; identity, name and currency stay."""
    settings = {one.name for one in fields(Store)} - LASTING
    fresh = {name: DEFAULTS.get(name) for name in settings}
    change(tx, store.id, {**fresh, **values})
    return by_id(tx, store.id) or store


def change(tx: Tx, store_id: str, values: dict[str, Any]) -> None:
    if values:
        tx.update("store", store_id, _columns(values))


def change_all(tx: Tx, values: dict[str, Any]) -> None:
    for store in every(tx):
        change(tx, store.id, values)


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: encode_text(value) if name in WRITTEN_AS_JSON else value
        for name, value in values.items()
    }


def _store(row: Row | None) -> Store | None:
    if row is None:
        return None
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118  - a Row iterates over values
    for name in AS_JSON:
        values[name] = decode_stored(values[name])
    values["quirks"] = quirks.stored(values["quirks"])
    for name in ("active", "cod_confirmation"):
        values[name] = bool(values[name])
    return Store(**values, exponent=money.exponent_of(values["currency"]))


def _picture(address: str | None) -> str | None:
    """Return an address that a page can show; one kept from before is not checked."""
    return address if address and PICTURE.fullmatch(address) else None


def storefront_view(store: Store) -> models.Store:
    return {
        "id": store.id,
        "subdomain": store.subdomain,
        "storeName": store.name,
        "currency": store.currency,
        "locale": store.locale,
        "logo": _picture(store.logo),
        "seoTitle": store.seo_title,
        "seoDescription": store.seo_description,
        "paymentSettings": {
            "cod": _payment_view(store, store.cod),
            "customQr": _payment_view(store, store.custom_qr),
        },
        "customerAccounts": {"mode": store.account_mode},
    }


def _payment_view(store: Store, method: Document) -> models.PaymentMethodSettings:
    return {
        "enabled": method["enabled"],
        "fee": store.money(method["fee"]),
        "instructions": method["instructions"],
    }


def v1_view(store: Store) -> models.StoreDetails:
    return {
        "id": store.id,
        "name": store.name,
        "storeName": store.name,
        "subdomain": store.subdomain,
        "currency": store.currency,
        "currencyExponent": store.exponent,
        "timezone": store.timezone,
        "locale": store.locale,
        "country": store.country,
        "customerAccounts": {"mode": store.account_mode},
        "vertical": store.vertical,
        "apiVersion": "v1",
        "features": quirks.features(store.quirks),
        "createdAt": formats.to_text(store.created_ms),
    }


def control_view(store: Store) -> Document:
    shown: Document = {**storefront_view(store)}
    shown["paymentSettings"]["customQr"]["qr"] = store.custom_qr.get("qr")
    return {
        **shown,
        "active": store.active,
        "codConfirmation": store.cod_confirmation,
        "merchantEmail": store.merchant_email,
        "trackingPage": store.tracking_page,
        "quirks": list(store.quirks.texts),
        "fixture": store.fixture,
        "timezone": store.timezone,
        "country": store.country,
        "createdAt": formats.to_text(store.created_ms),
    }
