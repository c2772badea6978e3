"""Deletes what no device sends again: finished sessions, known scans, issued keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from backhaul_connectors.scanner.deduplication import RecentScans
from backhaul_connectors.scanner.session_store import (
    LAST_COMMAND,
    LAST_SESSION,
    Sessions,
    articles_of,
    command_key,
    scan_key,
    scans_of,
    session_key,
)

if TYPE_CHECKING:
    from backhaul_connectors.scanner.session_store import Session
    from backhaul_sdk import Documents, DocumentStore

KEPT = 2_000
"""Finished sessions, and numbered scans outside of sessions, that are remembered for
devices that send a scan again."""
AT_ONCE = 100
"""The documents of a kind that one transaction deletes, in a few milliseconds."""
FINISHED = frozenset({"done", "dropped", "refused"})


async def delete_old(store: DocumentStore, now: float) -> None:
    """Delete everything old, page by page; `now` are seconds since 1970."""
    for delete in (partial(_expired_keys, now=now), _old_commands, _old_sessions):
        after: str | None = ""
        while after is not None:
            after = await store.transact(partial(delete, after=after))


def _expired_keys(documents: Documents, *, after: str, now: float) -> str | None:
    """Delete expired keys of a page; return the last key, None at the end."""
    return RecentScans(documents, now).delete_expired(after, AT_ONCE)


def _old_commands(documents: Documents, *, after: str) -> str | None:
    """Delete the oldest numbered scans outside of sessions, as `_expired_keys` does."""
    kept = Sessions(documents).last_number(LAST_COMMAND) - KEPT
    page = documents.list("command/", after=after, limit=AT_ONCE)
    for key, scan in page:
        if key > command_key(kept):
            return None
        documents.delete(scan_key(scan.decode()))
        documents.delete(key)
    return page[-1][0] if page else None


def _old_sessions(documents: Documents, *, after: str) -> str | None:
    """Delete the oldest finished session; return where to go on, None at the end."""
    sessions = Sessions(documents)
    kept = sessions.last_number(LAST_SESSION) - KEPT
    page = sessions.page(after, AT_ONCE)
    for session in page:
        key = session_key(session.id)
        if session.id > kept:
            return None
        if session.state in FINISHED:
            return key if _delete(documents, session) else after
        after = key
    return after if page else None


def _delete(documents: Documents, session: Session) -> bool:
    """Delete a part of a session; return True if the session is gone."""
    scans = documents.list(scans_of(session.id), limit=AT_ONCE)
    for key, _ in scans:
        documents.delete(scan_key(key.removeprefix(scans_of(session.id))))
        documents.delete(key)
    articles = documents.list(articles_of(session.id), limit=AT_ONCE)
    for key, _ in articles:
        documents.delete(key)
    if AT_ONCE in (len(scans), len(articles)):
        return False
    Sessions(documents).delete(session)
    return True
