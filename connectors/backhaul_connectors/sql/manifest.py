"""What the SQL connector says about itself."""

from backhaul_connectors.sql.settings import TOPICS, Settings
from backhaul_sdk import Capability, Spec

KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")


def shared(one: Settings, other: Settings, is_one_store: bool) -> str:
    """Return which rows both instances would take for one store.

    Two stores may have the same stock, so a table may be read for each of them, unless
    a row is marked once it was taken.
    """
    if one.url != other.url:
        return ""
    for kind in KINDS:
        mine, theirs = getattr(one, kind), getattr(other, kind)
        if mine is None or theirs is None:
            continue
        applies = is_one_store or mine.processed_at or theirs.processed_at
        if applies and (mine.table, mine.query) == (theirs.table, theirs.query):
            return f"the rows of {mine.table or 'one query'} ({kind})"
    return ""


SPEC = Spec(
    name="sql",
    version="1.0",
    summary="Reads and writes tables: PostgreSQL, MariaDB, MySQL, SQLite.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"url", "password"}),
    topics=TOPICS,
    shared=shared,
)
