"""Stock levels and deleted variants as a slice of events reads and leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from backhaul.store.sql.dialect import is_damaged
from backhaul.store.sql.mirror.rows import (
    KEYS,
    VERSION,
    SliceRows,
    Values,
    key_is,
    part_of_key,
    read_by_keys,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.store.sql.family import Connection
    from backhaul.store.sql.mirror.rows import Key

_LEVELS = table(
    "inventory_levels", f"product_id, stock, {VERSION}", "store, variant_id"
)
_OF_PRODUCTS = f"""
    SELECT {", ".join(f"t.{column}" for column in _LEVELS.key + _LEVELS.columns)}
    FROM {KEYS} inventory_levels t ON {key_is("t", ("store", "product_id"))}
"""  # noqa: S608 - constants
_DELETE_OF_PRODUCT = """
    DELETE FROM inventory_levels WHERE store = :store AND product_id = :product
"""
_HEADS = f"""
    SELECT p.store, p.id, {part_of_key(2)}, p.updated_at, p.deleted_at,
           EXISTS (SELECT 1 FROM variants v WHERE v.store = p.store
                   AND v.product_id = p.id AND v.id = {part_of_key(2)})
    FROM {KEYS} products p ON {key_is("p", ("store", "id"))}
"""  # noqa: S608 - constants


class SliceLevels(SliceRows):
    """The stock levels that a slice has read or changed, by store and variant."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, _LEVELS)
        self._products: dict[Key, dict[Key, None]] = {}
        self._whole: set[Key] = set()

    def load_products(self, products: Iterable[Key]) -> None:
        """Read all levels of these products."""
        missing = dict.fromkeys(one for one in products if one not in self._whole)
        if not missing:
            return
        self._whole.update(missing)
        for store, variant, *row in read_by_keys(
            self._connection, _OF_PRODUCTS, missing
        ):
            if (store, variant) not in self._stored:
                self._keep((store, variant), tuple(row))

    def _keep(self, key: Key, row: Values) -> None:
        super()._keep(key, row)
        self._products.setdefault((key[0], row[0]), {})[key] = None

    def put(self, key: Key, row: Values | None) -> None:
        super().put(key, row)
        if row is not None:
            self._products.setdefault((key[0], row[0]), {})[key] = None

    def of_product(self, product: Key) -> Iterator[tuple[Key, Values]]:
        """Yield the levels of a product, with their keys."""
        self.load_products((product,))
        for key in [*self._products.get(product, ())]:
            row = self.get(key)
            if row is not None and row[0] == product[1]:
                yield key, row

    def flush(self) -> None:
        for key, row in [*self._changed.items()]:
            if row is None and any(map(is_damaged, key)):
                self._delete_damaged(key)
        super().flush()

    def _delete_damaged(self, damaged: Key) -> None:
        """Delete a level that no statement finds by its variant's id.

        It is deleted with all levels of its product; the others are written again.
        """
        old = self._stored[damaged]
        if old is None:
            return
        product = old[0]
        values = {"store": damaged[0], "product": product}
        self._connection.execute(_DELETE_OF_PRODUCT, values)
        for key, row in self._stored.items():
            if row is not None and key[0] == damaged[0] and row[0] == product:
                self._stored[key] = None
                self._changed.setdefault(key, row)


Head: TypeAlias = "tuple[str, str | None, bool]"
"""A product's `updated_at` and `deleted_at`, and whether it has a variant."""


class ProductHeads:
    """What a stock level's event needs of its product, without the product's document.

    The key is the store, the product's id and the variant's id.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[Key, Head | None] = {}

    def load(self, keys: Iterable[Key]) -> None:
        """Read what was not read yet."""
        missing = dict.fromkeys(key for key in keys if key not in self._stored)
        if not missing:
            return
        self._stored |= missing
        for (
            store,
            product,
            variant,
            updated_at,
            deleted_at,
            has_variant,
        ) in read_by_keys(self._connection, _HEADS, missing):
            head = updated_at, deleted_at, bool(has_variant)
            self._stored[store, product, variant] = head

    def get(self, key: Key) -> Head | None:
        """Return the stored state of a product, None if there is no such product."""
        self.load((key,))
        return self._stored[key]
