"""Values that only one row may have: refusals of taken ones, and free handles."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backhaul_reference.platform.problems import Problem
from backhaul_reference.platform.state.database import Rows


@dataclass(frozen=True, slots=True)
class Taken:
    """How a value is refused that another row has; `shown` is a column of that row."""

    code: str
    detail: str
    shown: str | None = "id"


TAKEN = {
    "store.subdomain": Taken("SUBDOMAIN_TAKEN", "another store has it", None),
    "product.handle": Taken("HANDLE_TAKEN", "another product has it"),
    "product.external_id": Taken("DUPLICATE_EXTERNAL_ID", "another product has it"),
    "variant.sku": Taken("SKU_TAKEN", "another variant has it", "product_id"),
    "collection.handle": Taken("HANDLE_TAKEN", "another collection has it"),
    "discount.code_key": Taken("CODE_TAKEN", "another discount has it", None),
    "customer.email_key": Taken("EMAIL_TAKEN", "another customer has it"),
    "customer.external_id": Taken("DUPLICATE_EXTERNAL_ID", "another customer has it"),
    "orders.external_id": Taken(
        "DUPLICATE_EXTERNAL_ID", "another order has this externalId"
    ),
}
"""The unique columns that clients may set, as SQLite names them in its errors."""
LONGEST_STEM = 200


def refusal_of(
    rows: Rows, error: str, values: Mapping[str, Any], row_id: str
) -> Problem | None:
    """Return the problem of a taken value, or None if clients do not set the column.

    `error` is SQLite's text about the values that were to be written: a new row, or
    changes of the row `row_id`.
    """
    name = next((one for one in TAKEN if one in error), None)
    if name is None:
        return None
    taken, (table, column) = TAKEN[name], name.split(".")
    if taken.shown is None:
        return Problem(409, taken.code, taken.detail)
    store_id = values.get("store_id") or rows.value(
        f"SELECT store_id FROM {table} WHERE id = ?",  # noqa: S608  - a table of TAKEN
        (row_id,),
    )
    existing = rows.value(
        f"SELECT {taken.shown} FROM {table} WHERE store_id = ? AND {column} = ?",  # noqa: S608  - names of TAKEN
        (store_id, values[column]),
    )
    return Problem(409, taken.code, taken.detail, existingId=existing)


def free_handle(rows: Rows, table: str, store_id: str, title: str) -> str:
    """Return a free handle made from the title, with a number if it is taken."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    stem = "-".join(re.findall(r"[a-z0-9]+", plain.lower()))
    stem = stem[:LONGEST_STEM].strip("-") or table
    taken = {
        row["handle"]
        for row in rows.all(
            f"SELECT handle FROM {table} WHERE store_id = ?"  # noqa: S608  - table is a literal of this package
            " AND (handle = ? OR handle GLOB ?)",
            (store_id, stem, f"{stem}-[0-9]*"),
        )
    }
    numbered = (f"{stem}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in (stem, *numbered) if name not in taken)
