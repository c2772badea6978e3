"""What a full stock list leaves out: set to 0, or put to an operator.

`listed_articles` has, for each instance, the articles that one of its full lists named,
and when the last of them was written. A list covers these articles and no others: what
no list ever named is never set to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul.core.clock import normalize
from backhaul.core.identity import command_id
from backhaul.core.sku_matching import near_text
from backhaul.store.matching import NewCommand
from backhaul.store.records import Unmatched
from backhaul.store.sql.commands.planning import plan
from backhaul.store.sql.dialect import member
from backhaul.store.sql.documents import document_of
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.stock_targets.adjustments import KIND
from backhaul.store.sql.stock_targets.count_coalescing import is_decided
from backhaul.store.sql.stock_targets.repository import plan_target

if TYPE_CHECKING:
    import sqlite3

    from backhaul.core.stock import ListEnd
    from backhaul.store.matching import WaitingRecord

MOST_SHOWN = 1_000
_NOTE = """
    INSERT INTO listed_articles
      (store, instance, variant_id, product_id, sku, listed_at)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (store, instance, variant_id) DO UPDATE SET
      product_id = excluded.product_id,
      sku = iif(excluded.listed_at >= listed_at, excluded.sku, sku),
      listed_at = max(listed_at, excluded.listed_at)
"""
ABSENT = """
    SELECT a.variant_id, l.product_id, a.sku, l.stock
    FROM listed_articles a JOIN inventory_levels l
      ON l.variant_id = a.variant_id AND l.store = a.store
    WHERE a.store = :store AND a.instance = :instance AND a.listed_at < :listed_at
      AND l.stock > 0
    ORDER BY a.sku, a.variant_id
"""
UNMATCHED = f"""
    SELECT {member("payload", "$.record.sku")} FROM records
    WHERE instance = :instance AND state IN ('waiting', 'quarantined')
      AND {member("payload", "$.record.listed_at")} = :as_told
"""  # noqa: S608 - constants
LATER = """
    SELECT 1 FROM stock_targets
    WHERE store = :store AND variant_id = :variant AND as_of > :counted_at LIMIT 1
"""
_COVERED = "SELECT count(*) FROM listed_articles WHERE store = ? AND instance = ?"


class _Absent(NamedTuple):
    variant: str
    product: str
    sku: str
    stock: int


def note_listed(connection: sqlite3.Connection, record: WaitingRecord) -> None:
    """Remember that a full list names the article of a record, if it is part of one."""
    if b'"full_list":true' not in record.payload:
        return
    level = document_of(record.payload).get("record", {})
    reader = MirrorReader(connection, record)
    found = reader.variants_with_sku(record.store, level["sku"])
    if len(found) == 1:
        ((product, variant),) = found
        listed_at = normalize(level["listed_at"])
        values = (variant, product, level["sku"], listed_at)
        connection.execute(_NOTE, (record.store, record.instance, *values))


def conclude_list(
    connection: sqlite3.Connection, record: WaitingRecord, end: ListEnd, now: str
) -> str | Unmatched:
    """Set what a full list leaves out to 0; return what was done.

    Returns Unmatched where an operator is to decide: the list is empty, leaves out more
    than its limit, or may be an old one, as an article that it leaves out was counted
    later. The articles are then kept as the record's raw text.
    """
    own = {"store": record.store, "instance": record.instance}
    told = document_of(record.payload)["record"]["listed_at"]
    times = {"listed_at": end.listed_at, "as_told": told}
    values = own | times
    absent = [_Absent(*row) for row in connection.execute(ABSENT, values)]
    # A row that found no article may be the one that is missing, under its earlier SKU
    # or in another spelling.
    found = connection.execute(UNMATCHED, values) if absent else ()
    unmatched = {near_text(sku) for (sku,) in found if sku}
    absent = [each for each in absent if near_text(each.sku) not in unmatched]
    if not absent:
        return "it leaves out no article that is in stock"
    (covered,) = connection.execute(_COVERED, tuple(own.values())).fetchone()
    later = [
        each for each in absent if _is_counted_later(connection, record, end, each)
    ]
    is_too_much = end.rows == 0 or len(absent) > end.absent_limit * covered
    if (is_too_much or later) and not is_decided(connection, record):
        _keep_preview(connection, record, absent)
        is_old = bool(later) and not is_too_much
        return _ask(record, end, absent, covered, is_old=is_old)
    for each in absent:
        _plan_zero(connection, record, end, each, now)
    return f"{len(absent)} articles that it leaves out are set to 0"


def _is_counted_later(
    connection: sqlite3.Connection, record: WaitingRecord, end: ListEnd, each: _Absent
) -> bool:
    if not end.counted_at:
        return False
    values = {"store": record.store, "variant": each.variant}
    values["counted_at"] = end.counted_at
    return connection.execute(LATER, values).fetchone() is not None


def _ask(
    record: WaitingRecord,
    end: ListEnd,
    absent: list[_Absent],
    covered: int,
    *,
    is_old: bool,
) -> Unmatched:
    has = "is empty" if end.rows == 0 else f"has {end.rows} rows"
    named = ", ".join(f"{each.sku} ({each.stock})" for each in absent[:5])
    more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
    old = f"and the list was counted before some of these, at {end.counted_at}"
    why = old if is_old else "above absent_limit"
    reason = (
        f"the full stock list {record.locator} {has} and leaves out {len(absent)} of"
        f" the {covered} articles that it covers, {why}: {named}{more}."
        " They keep their stock. backhaul quarantine show lists them, quarantine retry"
        " sets them to 0, quarantine drop keeps their stock"
    )
    return Unmatched(reason, final=True)


def _keep_preview(
    connection: sqlite3.Connection, record: WaitingRecord, absent: list[_Absent]
) -> None:
    lines = [f"{each.sku},{each.stock},0" for each in absent[:MOST_SHOWN]]
    if len(absent) > MOST_SHOWN:
        lines.append(f"and {len(absent) - MOST_SHOWN} more")
    text = "\n".join(("sku,stock,new stock", *lines))
    connection.execute("UPDATE records SET raw = ? WHERE id = ?", (text, record.id))


def _plan_zero(
    connection: sqlite3.Connection,
    record: WaitingRecord,
    end: ListEnd,
    absent: _Absent,
    now: str,
) -> None:
    store, instance = record.store, record.instance
    identity = command_id(store, instance, f"{record.key}:{absent.variant}", KIND)
    payload = {
        "variant_id": absent.variant,
        "quantity": 0,
        "as_of": end.listed_at,
        "listed_at": end.listed_at,
    }
    lane = f"product:{absent.product}"
    command = NewCommand(identity, KIND, absent.product, lane, payload)
    cause = f"record {instance} {record.locator or record.key}, which leaves it out"
    plan(connection, store, instance, command, cause, now)
    plan_target(connection, store, command, now)
