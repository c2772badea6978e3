"""The records of an Odoo double: models, links and domains, as Odoo has them.

Fields by version: the models of Odoo 16, 17 and 18, as their source declares them.
"""

from __future__ import annotations

import operator
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Row = dict[str, Any]

EVERY = ("id", "write_date")
FIELDS: Mapping[str, Sequence[str]] = {
    "stock.picking": ("name", "state", "picking_type_id", "origin", "date_done"),
    "stock.picking.type": ("code",),
    "stock.move.line": ("picking_id", "product_id", "product_uom_id", "state"),
    "stock.quant": ("product_id", "location_id", "quantity", "reserved_quantity"),
    "stock.location": ("name", "usage", "location_id"),
    "stock.warehouse": ("name", "code", "view_location_id"),
    "product.product": (
        *("display_name", "default_code", "barcode", "uom_id", "type"),
    ),
    "product.pricelist": ("name", "currency_id"),
    "sale.order": (
        *("name", "state", "client_order_ref", "origin", "partner_id", "order_line"),
        *("partner_shipping_id", "pricelist_id", "team_id"),
    ),
    "sale.order.line": (
        *("order_id", "product_id", "product_uom_qty", "price_unit", "discount"),
    ),
    "res.partner": (
        *("name", "ref", "email", "phone", "parent_id", "type", "street", "street2"),
        *("city", "zip", "country_id", "state_id"),
    ),
    "res.country": ("name", "code"),
    "res.country.state": ("name", "code", "country_id"),
    "res.company": ("name", "currency_id"),
    "res.currency": ("name",),
    "uom.uom": ("name",),
    "crm.team": ("name",),
    "delivery.carrier": ("name",),
}
LINKS: Mapping[str, str] = {
    "picking_type_id": "stock.picking.type",
    "sale_id": "sale.order",
    "carrier_id": "delivery.carrier",
    "picking_id": "stock.picking",
    "product_id": "product.product",
    "product_uom_id": "uom.uom",
    "uom_id": "uom.uom",
    "location_id": "stock.location",
    "view_location_id": "stock.location",
    "currency_id": "res.currency",
    "partner_id": "res.partner",
    "partner_shipping_id": "res.partner",
    "parent_id": "res.partner",
    "pricelist_id": "product.pricelist",
    "team_id": "crm.team",
    "order_id": "sale.order",
    "country_id": "res.country",
    "state_id": "res.country.state",
}
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, members: value in set(members),
}


class OdooFault(Exception):
    """An exception in the double; `name` is the class in Odoo."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class Records:
    """All records of a database. `version` is the first number of Odoo's version."""

    def __init__(self, version: int, modules: Sequence[str]) -> None:
        self.fields = {model: {*EVERY, *names} for model, names in FIELDS.items()}
        self.rows: dict[str, dict[int, Row]] = {model: {} for model in FIELDS}
        self._ids = {model: count(1) for model in FIELDS}
        newer = "quantity_product_uom" if version >= 17 else "qty_done"
        self.fields["stock.move.line"].add(newer)
        if version >= 18:
            self.fields["product.product"].add("is_storable")
        if "sale_stock" in modules:
            self.fields["stock.picking"].add("sale_id")
        if "delivery" in modules:
            self.fields["stock.picking"] |= {"carrier_id", "carrier_tracking_ref"}

    def add(self, model: str, /, **values: Any) -> int:
        """Add a record, and return its id; empty fields are False."""
        id_ = values.pop("id", None) or next(self._ids[model])
        empty = dict.fromkeys(self.fields[model], False)
        now = datetime.now(UTC)
        self.rows[model][id_] = {**empty, "write_date": now, **values, "id": id_}
        return int(id_)

    def only(self, model: str) -> Row:
        """Return the one record of a model."""
        (row,) = self.rows[model].values()
        return row

    def search(self, model: str, domain: Sequence[Any]) -> Iterator[Row]:
        """Yield the records of a domain in the order of their ids."""
        matches = self._compiled(model, domain)
        for _, row in sorted(self.rows[self._known(model)].items()):
            if matches(row):
                yield row

    def shown(self, model: str, row: Row, fields: Sequence[str]) -> Row:
        """Return a record as Odoo writes it into JSON."""
        for name in fields:
            self._require(model, name)
        return {name: self._value(name, row[name]) for name in {"id", *fields}}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, datetime):
            # Odoo stores microseconds, and never shows them.
            return value.strftime("%Y-%m-%d %H:%M:%S")
        if name in LINKS and value:
            linked = self.rows[LINKS[name]][value]
            return [value, linked.get("display_name") or linked.get("name") or "?"]
        return value

    def _known(self, model: str) -> str:
        if model not in self.rows:
            raise OdooFault("builtins.KeyError", f"'{model}'")
        return model

    def _require(self, model: str, field: str) -> None:
        if field not in self.fields[self._known(model)]:
            raise OdooFault(
                "builtins.ValueError", f"Invalid field '{field}' on model '{model}'"
            )

    def _compiled(self, model: str, domain: Sequence[Any]) -> Callable[[Row], bool]:
        """Return a test for a domain: terms joined by "and", `|` before two of them."""
        left = list(domain)
        terms = []
        while left:
            terms.append(self._next_term(model, left))
        return lambda row: all(term(row) for term in terms)

    def _next_term(self, model: str, left: list[Any]) -> Callable[[Row], bool]:
        term = left.pop(0)
        if term == "|":
            one, other = self._next_term(model, left), self._next_term(model, left)
            return lambda row: one(row) or other(row)
        path, sign, wanted = term
        first, *rest = path.split(".")
        self._require(model, first)
        if rest:
            target = LINKS[first]
            inner = self._next_term(target, [[".".join(rest), sign, wanted]])
            linked = self.rows[target]
            return lambda row: bool(row[first]) and inner(linked[row[first]])
        if sign == "child_of":
            return lambda row: wanted in self._ancestors(row[first])
        if sign == "in":
            members = set(wanted)
            return lambda row: row[first] in members
        compare = COMPARISONS[sign]
        if first in ("write_date", "date_done"):
            wanted = datetime.fromisoformat(wanted).replace(tzinfo=UTC)
        return lambda row: compare(row[first], wanted)

    def _ancestors(self, location: int) -> set[int]:
        found: set[int] = set()
        while location:
            found.add(location)
            location = self.rows["stock.location"][location]["location_id"]
        return found
