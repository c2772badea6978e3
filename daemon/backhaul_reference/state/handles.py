"""Handles: the readable names in addresses."""

import re
import unicodedata

from backhaul_reference.state.writer import Tx

LONGEST_STEM = 200


def free(tx: Tx, table: str, store_id: str, title: str) -> str:
    """A handle made from the title, with a number behind it when it is taken."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    stem = "-".join(re.findall(r"[a-z0-9]+", plain.lower()))
    stem = stem[:LONGEST_STEM].strip("-") or table
    taken = {
        row["handle"]
        for row in tx.all(
            f"SELECT handle FROM {table} WHERE store_id = ?"  # noqa: S608  - table is a literal of this package
            " AND (handle = ? OR handle GLOB ?)",
            (store_id, stem, f"{stem}-[0-9]*"),
        )
    }
    numbered = (f"{stem}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in (stem, *numbered) if name not in taken)
