"""How long the scanner keeps finished sessions and scans."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
import pytest

from backhaul.connect.own_documents import OwnDocuments
from backhaul_connectors.scanner.deduplication import (
    PREFIX,
    UNANSWERED_SECONDS,
    IssuedKey,
    RecentScans,
)
from backhaul_connectors.scanner.order_validation import StoreLookup
from backhaul_connectors.scanner.scan import Scan
from backhaul_connectors.scanner.session_store import (
    AT_ONCE,
    KEPT,
    Sessions,
    delete_old,
)
from backhaul_connectors.scanner.sessions import (
    ScanCollector,
    SessionComplete,
    SessionRules,
)
from scenes.databases import started_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from backhaul_sdk import Documents, DocumentStore

T = TypeVar("T")
RULES = SessionRules("", 10.0, numeric_skus=False)
OLD = 3
"""So many more sessions, or scans, than are kept."""


@pytest.fixture
async def documents(tmp_path: Path) -> AsyncIterator[DocumentStore]:
    async with started_store(tmp_path / "backhaul.db") as store:
        yield OwnDocuments(store.documents, "dock", lambda: None)


def scanned(code: str, mode: str = "", number: int | str | None = None) -> Scan:
    sequence = None if number is None else str(number)
    return Scan("dock", sequence, mode, code, None, None, None, None, None)


def finish_orders(documents: Documents, *, first: int, number: int) -> None:
    """Pick orders of one article each with numbered scans, and submit them."""
    for order in range(first, first + number):
        for step, code in enumerate((f"{order}", "A", "BH-CLOSE")):
            scan = scanned(code, "pick", f"{order}-{step}")
            found = ScanCollector(documents, RULES, 0.0, StoreLookup()).take(scan)
        assert isinstance(found, SessionComplete)
        Sessions(documents).end(found.session, "done", "")


async def keys(documents: DocumentStore) -> list[str]:
    found: list[str] = []
    page: list[str] = [""]
    while page:
        read = partial(_page, after=page[-1])
        page = await documents.transact(read)
        found += page
    return found


def _page(documents: Documents, *, after: str) -> list[str]:
    return [key for key, _ in documents.list("", after=after)]


async def test_the_newest_finished_sessions_are_kept_and_all_open_ones(
    documents: DocumentStore,
) -> None:
    def leave_open(each: Documents) -> None:
        for code in ("7", "A"):
            ScanCollector(each, RULES, 0.0, StoreLookup()).take(scanned(code, "pick"))
        ScanCollector(each, RULES, 0.0, StoreLookup()).take(scanned("BH-PICK"))

    await documents.transact(leave_open)
    work = partial(finish_orders, first=1_000, number=KEPT + OLD)
    await documents.transact(work)
    await delete_old(documents, float)
    left = await keys(documents)
    sessions = [key for key in left if key.startswith("session/")]
    newest = [f"session/{OLD + 2 + number:010}" for number in range(KEPT)]
    assert sessions == ["session/0000000001", *newest]
    # The session, its article, three scans that are known and listed, and its order.
    documents_of_one = 1 + 1 + 3 + 3 + 1
    of_open, sequences = 3, 1
    devices = 1
    assert len(left) == KEPT * documents_of_one + of_open + sequences + devices
    await delete_old(documents, float)
    assert await keys(documents) == left


async def test_a_session_with_many_scans_is_deleted_whole(
    documents: DocumentStore,
) -> None:
    def count(each: Documents) -> None:
        for number in range(2 * AT_ONCE + 1):
            scan = scanned(f"SKU-{number}", "count", number)
            ScanCollector(each, RULES, 0.0, StoreLookup()).take(scan)
        scan = scanned("BH-CLOSE", "count", "end")
        found = ScanCollector(each, RULES, 0.0, StoreLookup()).take(scan)
        assert isinstance(found, SessionComplete)
        Sessions(each).end(found.session, "done", "")

    await documents.transact(count)
    await documents.transact(partial(finish_orders, first=1_000, number=KEPT))
    before = len(await keys(documents))
    await delete_old(documents, float)
    left = await keys(documents)
    assert [key for key in left if "0000000001" in key or "SKU-" in key] == []
    scans, articles = 2 * (2 * AT_ONCE + 2), 2 * AT_ONCE + 1
    assert before - len(left) == scans + articles + 2


async def test_the_newest_numbered_commands_are_kept(documents: DocumentStore) -> None:
    def set_modes(each: Documents) -> None:
        for number in range(KEPT + OLD):
            scan = scanned("BH-PICK", number=number)
            ScanCollector(each, RULES, 0.0, StoreLookup()).take(scan)

    await documents.transact(set_modes)
    await delete_old(documents, float)
    left = await keys(documents)
    for prefix in ("command/", "scan/"):
        assert len([key for key in left if key.startswith(prefix)]) == KEPT
    gone = [scanned("BH-PICK", number=number).key for number in range(OLD)]
    assert not {f"scan/{key}" for key in gone} & {*left}


@pytest.mark.parametrize(
    ("seconds", "kept"), [(UNANSWERED_SECONDS - 1, True), (UNANSWERED_SECONDS, False)]
)
async def test_an_issued_key_is_kept_until_it_expires(
    documents: DocumentStore, seconds: float, kept: bool
) -> None:
    def issue(each: Documents) -> None:
        for number in range(AT_ONCE + 1):
            RecentScans(each, 1e9).key_of(scanned(f"SKU-{number}", "receive"))

    await documents.transact(issue)
    await delete_old(documents, lambda: 1e9 + seconds)
    assert len(await keys(documents)) == (AT_ONCE + 1 if kept else 0)


async def test_a_key_that_is_issued_during_the_deletion_is_kept(
    documents: DocumentStore,
) -> None:
    moment = [1e9]
    scan = scanned("SKU-1", "receive")

    def key_now(each: Documents) -> str:
        return RecentScans(each, moment[0]).key_of(scan)

    class ScansBetween:
        """Takes a scan before each transaction of the deletion."""

        async def transact(self, work: Callable[[Documents], T]) -> T:
            moment[0] += 1.0
            await documents.transact(key_now)
            return await documents.transact(work)

    await delete_old(ScansBetween(), lambda: moment[0])
    (issued,) = await documents.transact(lambda each: each.list(PREFIX))
    first = 1e9 + 1.0
    kept = msgspec.json.decode(issued[1], type=IssuedKey)
    assert kept.until == first + UNANSWERED_SECONDS
