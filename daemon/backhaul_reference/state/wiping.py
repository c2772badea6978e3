"""Emptying one store: all that it holds, not its identity and not its keys."""

from backhaul_reference.state.schema import TABLES
from backhaul_reference.state.writer import Tx

KEPT = {"store", "api_key", "counter"}


def wipe(tx: Tx, store_id: str) -> None:
    """Empty the store; its instants go on from where they were."""
    for table in TABLES:
        if table not in KEPT:
            where = _of_store(tx, table)
            tx.run(f"DELETE FROM {table} WHERE {where}", {"store": store_id})  # noqa: S608  - names come from the schema
    tx.run(
        "UPDATE counter SET sequence = 0, order_number = 1000 WHERE store_id = ?",
        (store_id,),
    )


def _of_store(tx: Tx, table: str) -> str:
    """The condition for rows of one store, reached through parents if need be."""
    columns = {row["name"] for row in tx.all(f"PRAGMA table_xinfo({table})")}
    if "store_id" in columns:
        return "store_id = :store"
    key = tx.all(f"PRAGMA foreign_key_list({table})")[0]
    parent = _of_store(tx, key["table"])
    return f"{key['from']} IN (SELECT {key['to']} FROM {key['table']} WHERE {parent})"  # noqa: S608  - as above
