"""A daemon that accepts webhooks while its PostgreSQL server is down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.databases import count
from scenes.postgres import postgres
from scenes.reference_process import reference
from scenes.replicas import replicas
from scenes.shopper import buy
from scenes.stored import values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs
SPOOLING = {"BACKHAUL_CLUSTER__SPOOL": "true", "BACKHAUL_CLUSTER__HOLD": "200ms"}


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
        server.start()
        await_true(
            lambda: bought in values_of(standby.url, "orders", "id"),
            "the order is mirrored",
        )
        await_true(lambda: not count(spool, "inbox"), "the disk has none left")
        await_true(lambda: "spool.forwarded" in standby.log(), "it is logged")
