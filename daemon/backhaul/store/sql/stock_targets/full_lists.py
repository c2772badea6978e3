"""Sets the stock of articles that a full stock list leaves out to 0, or asks for it.

The table `listed_articles` has, for each connection, the articles that its full lists
named, and when the last such list was written. A list covers only these articles: an
article that no list ever named is never set to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backhaul.core.clock import normalize
from backhaul.core.identity import command_id
from backhaul.core.sku_matching import near_text
from backhaul.store.matching import NewTarget
from backhaul.store.records import ReasonClass, Unmatched
from backhaul.store.sql.dialect import document_of, greatest, member
from backhaul.store.sql.mirror.lookup import MirrorReader
from backhaul.store.sql.stock_targets.count_coalescing import is_decided
from backhaul.store.sql.stock_targets.repository import plan_target
from backhaul.store.sql.stock_targets.rows import KIND

if TYPE_CHECKING:
    from backhaul.core.stock import ListEnd
    from backhaul.store.matching import WaitingRecord
    from backhaul.store.sql.family import Connection

MOST_SHOWN = 1_000
_NOTE = f"""
    INSERT INTO listed_articles
      (store, instance, variant_id, product_id, sku, listed_at)
    VALUES (:store, :instance, :variant, :product, :sku, :listed_at)
    ON CONFLICT (store, instance, variant_id) DO UPDATE SET
      product_id = excluded.product_id,
      sku = CASE WHEN excluded.listed_at >= listed_articles.listed_at
                 THEN excluded.sku ELSE listed_articles.sku END,
      listed_at = {greatest("listed_articles.listed_at", "excluded.listed_at")}
"""  # noqa: S608 - constants
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
      AND {member("payload", "$.record.listed_at")} = :as_written
"""  # noqa: S608 - constants
LATER = """
    SELECT 1 FROM stock_targets
    WHERE store = :store AND variant_id = :variant AND as_of > :counted_at LIMIT 1
"""
_COVERED = """
    SELECT count(*) FROM listed_articles WHERE store = :store AND instance = :instance
"""


class _Absent(NamedTuple):
    variant: str
    product: str
    sku: str
    stock: int


def note_listed(connection: Connection, record: WaitingRecord) -> None:
    """Record that a full list names the article of a record, if it is part of one."""
    if b'"full_list":true' not in record.payload:
        return
    level = document_of(record.payload).get("record", {})
    reader = MirrorReader(connection, record)
    found = reader.variants_with_sku(record.store, level["sku"])
    if len(found) == 1:
        ((product, variant),) = found
        values = {
            "store": record.store,
            "instance": record.instance,
            "variant": variant,
            "product": product,
            "sku": level["sku"],
            "listed_at": normalize(level["listed_at"]),
        }
        connection.execute(_NOTE, values)


def conclude_list(
    connection: Connection, record: WaitingRecord, end: ListEnd, now: str
) -> str | Unmatched:
    """Set the articles that a full list leaves out to 0; return what was done.

    Returns Unmatched if an operator is to decide: the list is empty, leaves out more
    than its limit, or may be old, because an article that it leaves out was counted
    later. The articles are then stored as the raw text of the record.
    """
    own = {"store": record.store, "instance": record.instance}
    absent = _absent(connection, record, end, own)
    if not absent:
        return "it leaves out no SKU that is in stock"
    (covered,) = connection.execute(_COVERED, own).fetchone()
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
    return f"{len(absent)} SKUs that it leaves out are set to 0"


def _absent(
    connection: Connection, record: WaitingRecord, end: ListEnd, own: dict[str, str]
) -> list[_Absent]:
    """Return the articles in stock that a list covers and leaves out.

    An article is not absent if a row of the list that matched no article has its SKU in
    another spelling.
    """
    as_written = document_of(record.payload)["record"]["listed_at"]
    values = own | {"listed_at": end.listed_at, "as_written": as_written}
    absent = [_Absent(*row) for row in connection.execute(ABSENT, values)]
    rows = connection.execute(UNMATCHED, values) if absent else ()
    unmatched = {near_text(sku) for (sku,) in rows if sku}
    return [each for each in absent if near_text(each.sku) not in unmatched]


def _is_counted_later(
    connection: Connection, record: WaitingRecord, end: ListEnd, each: _Absent
) -> bool:
    if not end.counted_at:
        return False
    values = {
        "store": record.store,
        "variant": each.variant,
        "counted_at": end.counted_at,
    }
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
        f"the full stock list {record.locator} {has} and leaves out {len(absent)}"
        f" of the {covered} SKUs that it covers, {why}: {named}{more}. They keep"
        " their stock. backhaul quarantine show lists them, quarantine retry sets"
        " them to 0, quarantine discard keeps their stock"
    )
    return Unmatched(reason, final=True, reason_class=ReasonClass.NEEDS_DECISION)


def _keep_preview(
    connection: Connection, record: WaitingRecord, absent: list[_Absent]
) -> None:
    lines = [f"{each.sku},{each.stock},0" for each in absent[:MOST_SHOWN]]
    if len(absent) > MOST_SHOWN:
        lines.append(f"and {len(absent) - MOST_SHOWN} more")
    text = "\n".join(("sku,stock,new stock", *lines))
    connection.execute(
        "UPDATE records SET raw = :raw WHERE id = :id", {"raw": text, "id": record.id}
    )


def _plan_zero(
    connection: Connection,
    record: WaitingRecord,
    end: ListEnd,
    absent: _Absent,
    now: str,
) -> None:
    store, instance = record.store, record.instance
    identity = command_id(store, instance, f"{record.key}:{absent.variant}", KIND)
    at = end.listed_at
    new = NewTarget(identity, absent.product, absent.variant, 0, at, at)
    cause = f"record {instance} {record.locator or record.key}, which leaves it out"
    plan_target(connection, store, instance, new, cause, now)
