"""A restored or copied database, or a replaced key, applies nothing twice."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.clock import SystemClock
from backhaul.core.identity import tagged
from backhaul.core.lifecycle import OPEN
from backhaul.store import database_at
from scenes.daemon import Office, connected_process, daemon_process, office_of
from scenes.damaged_rows import overwrite
from scenes.reference_process import reference
from scenes.shopper import buy, key_with, order_of
from scenes.stored import COMMANDS_AND_TARGETS, command_counts, count, values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scenes.reference_process import ReferenceProcess

pytestmark = [pytest.mark.faults]
AUDIT = """
[jobs.audit]
every = "1s"
"""
RETRIES = 'retry_base = "50ms"'
SOON = f"""{RETRIES}
check_after = ["0s", "1s", "3s"]
retry_cap = "3s"
"""
"""After a restore nothing is sent until the time of the last check has passed."""
DELTAS, PARCELS = 20, 3


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ReferenceProcess]:
    """Run a platform whose requests are counted."""
    with reference(tmp_path / "platform") as running:
        yield running


def moves(shop: ReferenceProcess) -> Counter[str]:
    """Return how often each reference tag is in the platform's history."""
    page = shop.v1("GET", "/inventory/history?limit=100").data()
    notes = [tagged(row["note"]) for row in page]
    return Counter(note for note in notes if note)


def sku(shop: ReferenceProcess) -> str:
    return str(shop.v1("GET", "/products?limit=1").data()[0]["variants"][0]["sku"])


def drop_deltas(office: Office, name: str, lines: int, article: str) -> None:
    office.put(
        f"stock-deltas-{name}.csv",
        "sku,adjustment,reason",
        *(
            f"{article},{int(name) * 100 + number},CORRECTION"
            for number in range(lines)
        ),
    )


def drop_parcels(office: Office, name: str, orders: list[dict[str, Any]]) -> None:
    """Put one parcel file for each order, with one unit left open."""
    office.put(
        f"fulfillments-{name}.csv",
        "order,tracking_company,tracking_number,sku,quantity",
        *(
            f"{order['number']},DHL,T{order['number']},{order['items'][0]['sku']},1"
            for order in orders
        ),
    )


def number_of(office: Office, state: str) -> int:
    return command_counts(office.database).get(state, 0)


def has_open(office: Office) -> bool:
    return not OPEN.isdisjoint(command_counts(office.database))


def reach(office: Office, number: int) -> None:
    await_true(
        lambda: number_of(office, "applied") == number, f"{number} are applied", 60
    )


def snapshot(database: Path, copy: Path) -> None:
    database_at(database).back_up(copy, SystemClock())


def restore(office: Office, copy: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        office.database.with_name(office.database.name + suffix).unlink(missing_ok=True)
    shutil.copy(copy, office.database)


def test_a_restored_database_sends_nothing_twice(
    shop: ReferenceProcess, tmp_path: Path
) -> None:
    """F27: one adjustment before the backup; adjustments and parcels after it."""
    article = sku(shop)
    orders = [buy(shop, 2) for _ in range(PARCELS)]
    copy = tmp_path / "backup.db"
    with connected_process(shop, AUDIT) as first:
        office = first.office
        drop_deltas(office, "1", 1, article)
        reach(office, 1)
        snapshot(office.database, copy)
        drop_deltas(office, "2", DELTAS, article)
        drop_parcels(office, "1", orders)
        reach(office, 1 + DELTAS + PARCELS)
        first.terminate()
        before = moves(shop)
        restore(office, copy)
        office.write(**{RETRIES: SOON})
        for name in ("stock-deltas-2.csv", "fulfillments-1.csv"):
            (done,) = (office.folder / "drop").glob(f"**/{name}")
            shutil.move(done, office.drop / name)
        with daemon_process(office) as second:
            reach(office, 1 + DELTAS + PARCELS)
            await_true(lambda: not has_open(office), "nothing is open", 60)
            assert "audit.restored" in second.log.read_text()
            drop_deltas(office, "3", 1, article)
            reach(office, 2 + DELTAS + PARCELS)
    after = moves(shop)
    assert set(after.values()) == {1}
    assert len(after) == len(before) + 1 == DELTAS + 2
    for order in orders:
        assert len(order_of(shop, order["id"])["shipments"]) == 1


def test_two_daemons_on_copies_find_each_other(
    shop: ReferenceProcess,
) -> None:
    """F28: the copy and the original both stop sending within one audit."""
    article = sku(shop)
    with connected_process(shop, AUDIT) as first, office_of(shop, AUDIT) as twin:
        office = first.office
        drop_deltas(office, "1", 1, article)
        reach(office, 1)
        twin.database.parent.mkdir()
        snapshot(office.database, twin.database)
        with daemon_process(twin) as second:
            await_true(lambda: _stopped(twin) == "", "the copy has read the history")
            drop_deltas(office, "2", 1, article)
            reach(office, 2)
            await_true(lambda: "another Backhaul" in _stopped(twin), "it stops", 30)
            drop_deltas(twin, "9", 2, article)
            await_true(lambda: number_of(twin, "planned") == 2, "they wait")
            assert "audit.foreign" in second.log.read_text()
        assert _stopped(office) == ""
    assert len(moves(shop)) == 2


def test_a_newer_epoch_ends_the_daemon(shop: ReferenceProcess) -> None:
    """F28: the same folder on a machine that does not see the lock."""
    with connected_process(shop, AUDIT) as first:
        office = first.office
        overwrite(office.database, "kv", {"value": "2"}, name="epoch")
        drop_deltas(office, "1", 1, sku(shop))
        assert first.process.wait(30) == 75
    assert moves(shop) == Counter()


def test_a_key_replaced_in_its_file_is_used_without_a_restart(
    shop: ReferenceProcess, tmp_path: Path
) -> None:
    """F26: the key is revoked; sending stops within a request, and resumes later."""
    file = tmp_path / "key"
    article = sku(shop)
    made = shop.control("POST", "/stores/demo/keys", {}).data()
    _write_key(file, made["key"])
    with office_of(shop, AUDIT) as office:
        office.write(**{f'api_key = "{office.api_key}"': f'api_key_file = "{file}"'})
        with daemon_process(office) as running:
            drop_deltas(office, "1", 1, article)
            reach(office, 1)
            shop.control("DELETE", f"/stores/demo/keys/{made['id']}")
            drop_deltas(office, "2", 5, article)
            await_true(lambda: "401" in _stopped(office), "it stops", 30)
            assert count(office.database, "attempts", status=401) <= 1
            _write_key(file, key_with(shop, *SCOPES))
            reach(office, 6)
            keys = values_of(office.database, COMMANDS_AND_TARGETS, "key_fingerprint")
            assert len(set(keys)) == 2
            told = running.log.read_text()
    assert told.count('"push.stopped"') == 1
    assert "store.key_replaced" in told
    assert set(moves(shop).values()) == {1}
    assert len(moves(shop)) == 6


SCOPES = (
    "orders:read",
    "orders:write",
    "products:read",
    "inventory:read",
    "inventory:write",
    "customers:read",
)


def _write_key(file: Path, key: str) -> None:
    file.touch(0o600)
    file.write_text(key + "\n")
    os.utime(file)


def _stopped(office: Office) -> str:
    live = office.read_status() or {"stores": {"main": {"stopped": {}}}}
    return " ".join(live["stores"]["main"]["stopped"].values())
