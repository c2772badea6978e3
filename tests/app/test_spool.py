"""A daemon accepts webhooks while its PostgreSQL server is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from scenes.daemon import CommandResult, backhaul
from scenes.databases import count
from scenes.loop_guard import on_purpose
from scenes.postgres import postgres
from scenes.reference_process import reference
from scenes.replicas import Replica, replicas
from scenes.shopper import buy
from scenes.stored import values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs
SPOOLED = "backhaul_webhooks_spooled "
SPOOLING = {
    "BACKHAUL_CLUSTER__SPOOL": "true",
    "BACKHAUL_CLUSTER__HOLD": "200ms",
    # a worker exits if the server fails during one of its commits
    "BACKHAUL_CLUSTER__ROLES": "receiver",
}


def backhaul_at(replica: Replica, *arguments: str) -> CommandResult:
    """Run a command beside a replica."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKHAUL_DATABASE__URL", replica.url)
        patch.setenv("BACKHAUL_CLUSTER__DURABILITY", "single")
        return backhaul(*arguments, config=replica.office.config)


@on_purpose()
def spooled(replica: Replica) -> float:
    """Return the spool's values in the metrics of a daemon."""
    url = f"http://127.0.0.1:{replica.admin_port}/metrics"
    lines = httpx.get(url, timeout=60).raise_for_status().text.splitlines()
    return next(float(each.split()[1]) for each in lines if each.startswith(SPOOLED))


def test_a_webhook_is_kept_on_the_disk_until_the_server_is_back(tmp_path: Path) -> None:
    with (
        postgres() as server,
        reference(tmp_path / "platform") as platform,
        replicas(platform, server.new_database(), 2) as (owner, standby),
    ):
        owner.start()
        await_true(owner.is_owner, "the first is the owner")
        standby.environ |= SPOOLING
        standby.start()
        spool = standby.office.folder / "state" / "spool.db"
        server.kill()
        bought = buy(platform)["id"]
        await_true(lambda: count(spool, "inbox"), "the webhook is on the disk")
        await_true(
            lambda: spooled(standby) > 0,
            "the metrics count it without the database",
        )
        said = backhaul_at(standby, "status")
        assert said.code != 0
        assert "webhooks wait on this machine's disk" in said.err
        server.start()
        await_true(
            lambda: bought in values_of(standby.url, "orders", "id"),
            "the order is mirrored",
        )
        await_true(lambda: not count(spool, "inbox"), "the disk has none left")
        await_true(lambda: "spool.forwarded" in standby.log(), "it is logged")
