"""A PostgreSQL database is restored to an earlier time, and nothing is sent twice."""

from __future__ import annotations

import shutil
from os import EX_TEMPFAIL
from typing import TYPE_CHECKING

import pytest

from backhaul.core.lifecycle import OPEN
from faults.test_restores import (
    RETRIES,
    SOON,
    drop_deltas,
    drop_parcels,
    moves,
    sku,
)
from scenes.daemon import backhaul, connected_process, daemon_process
from scenes.reference_process import reference
from scenes.shopper import buy, order_of
from scenes.stored import command_counts
from scenes.waiting import HANG_SECONDS, await_true
from scenes.wal_archive import archived_server

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.daemon import Office

pytestmark = [pytest.mark.faults]
DELTAS, PARCELS = 10, 3
EARLY, FIRST = 2, 1
"""So many deltas are in the archive only, before the moment, and in the backup."""
CLUSTER = """
[cluster]
durability = "single"
"""


def number_of(office: Office, state: str) -> int:
    return command_counts(office.place).get(state, 0)


def reach(office: Office, number: int) -> None:
    await_true(lambda: number_of(office, "applied") == number, f"{number} applied")


def fence(office: Office) -> bool:
    """Mark the stores as restored; the daemon seems alive for some seconds."""
    words = ("restore", "--fence")
    said = backhaul(*words, config=office.config, seconds=HANG_SECONDS)
    assert said.code in {0, EX_TEMPFAIL}, said.err
    return said.code == 0


def hand_in_again(office: Office, *names: str) -> None:
    for name in names:
        (done,) = office.drop.glob(f"*/{name}")
        shutil.move(done, office.drop / name)


@pytest.mark.parametrize("end", ["stopped and fenced", "killed"])
def test_a_database_of_an_earlier_moment_sends_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A daemon that was stopped in order has to be told; one that was killed knows."""
    known, lost = FIRST + EARLY, DELTAS + PARCELS
    quirks = ["--quirk", "no-idempotency"]
    with (
        archived_server() as server,
        reference(tmp_path / "platform", extra=quirks) as shop,
    ):
        monkeypatch.setenv("BACKHAUL_DATABASE__URL", server.url)
        article = sku(shop)
        orders = [buy(shop, 2) for _ in range(PARCELS)]
        with connected_process(shop, CLUSTER) as first:
            office = first.office
            drop_deltas(office, "1", FIRST, article)
            reach(office, FIRST)
            server.back_up()
            drop_deltas(office, "2", EARLY, article)
            reach(office, known)
            moment = server.now()
            drop_deltas(office, "3", DELTAS, article)
            drop_parcels(office, "1", orders)
            reach(office, known + lost)
            server.archive_all()
            if end == "killed":
                first.kill()
            else:
                first.terminate()
            server.restore(moment)
            assert number_of(office, "applied") == known
            before = moves(shop)
            assert set(before.values()) == {1}
            if end != "killed":
                await_true(lambda: fence(office), "the stores are fenced")
            office.write(**{RETRIES: SOON})
            hand_in_again(office, "stock-deltas-3.csv", "fulfillments-1.csv")
            with daemon_process(office) as second:
                reach(office, known + lost)
                await_true(
                    lambda: OPEN.isdisjoint(command_counts(office.place)),
                    "nothing is open",
                )
                said = second.log.read_text()
                assert "audit.restored" in said
                assert ("database.commits_lost" in said) == (end == "killed")
                drop_deltas(office, "4", 1, article)
                reach(office, known + lost + 1)
        after = moves(shop)
        assert set(after.values()) == {1}
        assert len(after) == len(before) + 1 == known + DELTAS + 1
        for order in orders:
            assert len(order_of(shop, order["id"])["shipments"]) == 1
