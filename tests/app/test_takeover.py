"""Two daemons on one database: one owns its store, and the other takes over."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import httpx
import pytest

from scenes.cluster_members import owners
from scenes.daemon import CommandResult, backhaul
from scenes.postgres import Postgres, postgres
from scenes.reference_process import ReferenceProcess, reference
from scenes.replicas import Replica, replicas
from scenes.shopper import Document, buy
from scenes.stored import COMMANDS_AND_TARGETS, rows_of, values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs
BROWSER = {
    "Host": "localhost:8443",
    "Origin": "http://localhost:8443",
    "Sec-Fetch-Site": "same-origin",
}
"""Headers of a browser that opens all members at one address (load balancer)."""
TYPES = ("file_drop", "scanner")


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as started:
        yield started


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[ReferenceProcess]:
    with reference(tmp_path / "platform") as started:
        yield started


@pytest.fixture
def pair(
    server: Postgres, platform: ReferenceProcess
) -> Iterator[tuple[Replica, Replica]]:
    """Start an owner and a standby; the platform sends webhooks to the standby."""
    with replicas(platform, server.new_database(), 2) as (owner, standby):
        owner.start()
        await_true(owner.is_owner, "the first is the owner")
        standby.start()
        assert standby.status() == "standby"
        yield owner, standby


def backhaul_at(replica: Replica, *arguments: str) -> CommandResult:
    """Run a command beside a replica."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKHAUL_DATABASE__URL", replica.url)
        patch.setenv("BACKHAUL_CLUSTER__DURABILITY", "single")
        return backhaul(*arguments, config=replica.office.config)


def order_names(replica: Replica) -> list[str]:
    return sorted(values_of(replica.url, "orders", "id"))


def ship(replica: Replica, number: int, tracking: str) -> None:
    """Put a courier's file into the drop folder of a replica."""
    replica.office.put(
        f"fulfillments-{number}.csv",
        "order,tracking_company,tracking_number",
        f"{number},DHL,{tracking}",
    )


def command_states(replica: Replica) -> list[tuple[str, str]]:
    return rows_of(replica.url, COMMANDS_AND_TARGETS, "kind", "state")


def parcels(platform: ReferenceProcess, order: str) -> list[str]:
    """Return the tracking numbers of an order's parcels at the platform."""
    shown = platform.v1("GET", f"/orders/{order}").data()
    return [each["trackingNumber"] for each in shown["shipments"]]


def test_events_that_a_standby_receives_are_folded_by_the_owner(
    pair: tuple[Replica, Replica], platform: ReferenceProcess
) -> None:
    owner, standby = pair
    order = buy(platform)
    await_true(lambda: order["id"] in order_names(owner), "the order is mirrored")
    assert standby.status() == "standby"


def test_a_standby_takes_over_when_the_owner_is_killed(
    pair: tuple[Replica, Replica], platform: ReferenceProcess
) -> None:
    owner, standby = pair
    first = buy(platform)
    ship(owner, first["number"], "T1")
    await_true(lambda: parcels(platform, first["id"]) == ["T1"], "it is shipped")
    owner.kill()
    await_true(standby.is_owner, "the standby took over")
    shown = backhaul_at(standby, "status", "--json").json()["members"]
    assert [(each["stores"], each["is_fenced"]) for each in shown] == [
        (1, False),
        (0, True),
    ]
    second = buy(platform)
    ship(standby, second["number"], "T2")
    await_true(lambda: parcels(platform, second["id"]) == ["T2"], "it is shipped")
    await_true(
        lambda: command_states(standby) == [("fulfill", "applied")] * 2,
        "both are known",
    )
    assert parcels(platform, first["id"]) == ["T1"]
    owner.start()
    assert owner.status() == "standby"


def test_a_command_beside_a_standby_is_carried_out_by_the_owner(
    pair: tuple[Replica, Replica], platform: ReferenceProcess
) -> None:
    owner, standby = pair
    order = buy(platform)
    done = backhaul_at(standby, "jobs", "pause", "prune")
    assert done.code == 0, done.err
    paused = {
        each["job"]: each["paused_at"]
        for each in backhaul_at(owner, "jobs", "list", "--json").json()
    }
    assert paused["prune"] is not None
    (who,) = values_of(standby.url, "audit", "who", action="jobs pause")
    assert who.endswith(f" on {socket.gethostname()}")
    shown = backhaul_at(standby, "status", "--json").json()
    assert "your requests go to them" in shown["daemon"]["standby"]
    assert {each["up"] for each in shown["connectors"].values()} == {True}
    read = backhaul_at(standby, "reconcile", "--kind", "orders", "--json")
    assert read.code == 0, read.err
    (ended,) = read.json()
    assert ended["kind"] == "orders"
    assert ended["read"] > 1
    assert order["id"] in order_names(owner)
    assert standby.status() == "standby"


def test_a_login_holds_on_every_member_and_after_a_takeover(
    pair: tuple[Replica, Replica],
) -> None:
    owner, standby = pair
    password = "correct horse battery staple"
    with httpx.Client(headers=BROWSER) as browser:

        def at(replica: Replica, method: str, path: str, **form: str) -> httpx.Response:
            url = f"http://127.0.0.1:{replica.admin_port}{path}"
            return browser.request(method, url, data=form or None)

        token = standby.office.folder / "state" / "first-login-token"
        made = at(
            standby,
            "POST",
            "/first",
            token=token.read_text().strip(),
            name="ada",
            password=password,
            again=password,
        )
        assert made.status_code == 303, made.text
        page = at(owner, "GET", "/jobs")
        assert page.status_code == 200
        assert "is a standby" not in page.text
        (csrf,) = set(re.findall(r'name="csrf" value="(\w+)"', page.text))
        page = at(standby, "GET", "/jobs")
        assert "This daemon is a standby" in page.text
        assert csrf in page.text
        done = at(standby, "POST", "/jobs/pause", csrf=csrf, job="prune", store="")
        assert done.status_code == 303, done.text
        assert "prune is paused." in at(owner, "GET", "/jobs").text
        owner.kill()
        await_true(standby.is_owner, "the standby took over")
        assert at(standby, "GET", "/audit").status_code == 200
        assert at(standby, "POST", "/logout", csrf=csrf).status_code == 303
        assert at(standby, "GET", "/audit").status_code == 303
    shown = backhaul_at(standby, "status").out
    assert "owns 1 store and the jobs of the database" in shown
    assert "owns no store" in shown


def test_a_stop_hands_over_at_once(pair: tuple[Replica, Replica]) -> None:
    owner, standby = pair
    assert owner.process is not None
    assert owner.process.terminate() == 0
    await_true(standby.is_owner, "the standby took over")


def test_an_owner_that_was_paused_can_no_longer_write(
    pair: tuple[Replica, Replica], platform: ReferenceProcess
) -> None:
    owner, standby = pair
    owner.freeze()
    await_true(standby.is_owner, "the standby took over")
    order = buy(platform)
    ship(standby, order["number"], "T1")
    await_true(lambda: parcels(platform, order["id"]) == ["T1"], "it is shipped")
    owner.thaw()
    assert await_true(owner.ended, "the former owner ends") == 75
    assert "another daemon took over the stores" in owner.log()
    assert standby.is_owner()
    assert command_states(standby) == [("fulfill", "applied")]


SECOND = """
[stores.second]
base_url = "{url}"
api_key = "{key}"
webhook_secrets = ["whsec_of_no_subscription"]
[reconcile]
grace = "1ms"
[jobs.reconcile_incremental]
every = "1s"
"""
"""The same platform again, without webhooks, so that the mirror is backfilled."""
OF_MAIN = {f'type = "{each}"': f'type = "{each}"\nstore = "main"' for each in TYPES}


def test_daemons_share_the_stores_and_take_them_over(
    server: Postgres, platform: ReferenceProcess
) -> None:
    url = server.new_database()
    key = platform.store().api_key
    more = SECOND.format(url=platform.public_url, key=key)

    def mirrored(order: Document) -> bool:
        found = rows_of(url, "orders", "store", "id")
        return {("main", order["id"]), ("second", order["id"])} <= {*found}

    with replicas(platform, url, 2, more) as pair:
        for each in pair:
            each.office.write(**OF_MAIN)
            each.start()
        first, _ = pair
        await_true(lambda: len(owners(url) - {None}) == 2, "each owns a store")
        order = buy(platform)
        await_true(lambda: mirrored(order), "both owners mirror the order")
        first.kill()
        await_true(lambda: len(owners(url)) == 1, "the other owns both stores")
        order = buy(platform)
        await_true(lambda: mirrored(order), "both stores are served")
        first.start()
        await_true(lambda: len(owners(url) - {None}) == 2, "each owns a store again")
        order = buy(platform)
        await_true(lambda: mirrored(order), "both owners mirror the order")
