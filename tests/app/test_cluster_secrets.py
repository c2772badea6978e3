"""All daemons on a database accept webhooks signed with the owner's secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scenes.postgres import postgres
from scenes.reference_process import reference
from scenes.replicas import replicas
from scenes.shopper import buy
from scenes.stored import rows_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.programs


def test_a_standby_accepts_the_secret_that_the_owner_got(tmp_path: Path) -> None:
    with (
        postgres() as server,
        reference(tmp_path / "platform") as platform,
        replicas(platform, server.new_database(), 2) as (owner, standby),
    ):
        # the owner creates the only subscription
        for hook in platform.v1("GET", "/webhooks").data():
            platform.v1("DELETE", f"/webhooks/{hook['id']}")
        shared = {
            "BACKHAUL_PUBLIC__URL": f"http://127.0.0.1:{standby.public_port}",
            "BACKHAUL_CLUSTER__KEY": "k" * 32,
        }
        for each in (standby, owner):
            each.environ |= shared
        owner.start()
        await_true(owner.is_owner, "the first is the owner")
        standby.start()
        await_true(
            lambda: "subscription.created" in owner.log(),
            "the platform gave a secret",
        )
        ordered = buy(platform)["id"]
        await_true(
            lambda: (
                (ordered, "delivery")
                in rows_of(owner.url, "events", "object_id", "source")
            ),
            "the standby stored the webhook",
        )
