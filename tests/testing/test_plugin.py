"""The pytest plugin for other projects, beyond what the example project shows."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import from_text
from backhaul.testing import (
    DaemonUnderTest,
    ReferenceServer,
    sign,
    signed_headers,
)
from backhaul.testing.reference_server import ProgramError
from scenes.loop_guard import on_purpose
from scenes.processes import children

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.testing import Mirror, ReferenceStore

DAY = "docs/examples/bad-day/captures/bad-day.jsonl"
DESK = """
[connectors.desk]
type = "scanner"
[connectors.desk.devices]
gun = "a-token-of-some-length"
"""
BODY = b'{"topic":"orders/create","data":{}}'


@pytest.fixture
def backhaul_settings() -> str:
    return DESK


def test_settings_are_added_and_quiet_is_awaited(
    reference_store: ReferenceStore,
    backhaul_daemon: DaemonUnderTest,
    wait_until_idle: Callable[..., Mirror],
) -> None:
    order = reference_store.place_order("FC", 2)
    mirror = wait_until_idle()
    assert mirror.order(order["number"])["id"] == order["id"]
    assert mirror.stock("FC") == 398
    assert "desk" in backhaul_daemon.status()["connectors"]

    backhaul_daemon.kill()
    reference_store.place_order("FC", 1)
    with pytest.raises(ProgramError, match="'webhooks to deliver': 2"):
        wait_until_idle(seconds=0.3)
    assert mirror.stock("FC") == 398


def test_the_daemon_is_not_idle_before_the_backfill_has_ended(
    reference_store: ReferenceStore,
) -> None:
    slow = {"fault": "latency", "seconds": 1.5, "method": "GET", "route": "/api/*"}
    reference_store.control("PUT", "/faults", {"seed": 1, "http": [slow]})
    with closing(DaemonUnderTest(reference_store)) as daemon:
        assert daemon.wait_until_idle().stock("FC") == 400


def test_a_conflict_is_refetched_before_the_daemon_is_idle(
    reference_store: ReferenceStore, backhaul_daemon: DaemonUnderTest
) -> None:
    find = "SELECT id, title FROM products LIMIT 1"
    (found,) = backhaul_daemon.wait_until_idle().rows(find)
    slow = {"fault": "latency", "seconds": 1.5, "method": "GET", "route": "/api/*"}
    product = reference_store.v1("GET", f"/products/{found['id']}")
    reference_store.control("PUT", "/faults", {"seed": 1, "http": [slow]})
    tied = {"topic": "products/update", "data": product | {"title": "Another one"}}
    assert backhaul_daemon.deliver(tied) == 200
    assert backhaul_daemon.wait_until_idle().rows(find) == [found]


def test_a_restart_goes_on_with_the_same_database(
    reference_store: ReferenceStore, backhaul_daemon: DaemonUnderTest
) -> None:
    order = reference_store.place_order("MD")
    backhaul_daemon.wait_until_idle()
    backhaul_daemon.kill()
    backhaul_daemon.start()
    assert backhaul_daemon.mirror.order(order["number"])["status"] == "PENDING"


def folders_of(store: ReferenceStore) -> list[Path]:
    found = []
    for config in Path("/tmp").glob("bh-*/backhaul.toml"):
        with suppress(OSError):  # another test's, which has just ended
            if store.api_key in config.read_text():
                found.append(config.parent)
    return found


def test_a_daemon_that_cannot_subscribe_leaves_nothing_behind(
    reference_store: ReferenceStore,
) -> None:
    fault = {"fault": "5xx", "method": "PUT", "route": "*/webhooks/*"}
    reference_store.control("PUT", "/faults", {"seed": 1, "http": [fault]})
    before = children("backhaul", "run")
    with pytest.raises(ProgramError, match=r"PUT .*/webhooks/.* 50"):
        DaemonUnderTest(reference_store)
    assert children("backhaul", "run") == before
    assert folders_of(reference_store) == []


def test_a_server_that_does_not_respond_is_ended(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "access.json").write_text("another program made it")
    with pytest.raises(ValueError, match="Expecting value"):
        ReferenceServer(folder)
    assert children("backhaul_reference", str(folder)) == []


def test_a_refusal_of_the_platform_is_an_error(reference_store: ReferenceStore) -> None:
    with pytest.raises(ProgramError, match="404"):
        reference_store.v1("GET", "/orders/ord_none")
    with pytest.raises(KeyError, match="no variant has the SKU 'XX'"):
        reference_store.place_order("XX")


def test_replays_are_apart(
    replay: Callable[..., Mirror], request: pytest.FixtureRequest
) -> None:
    day: Path = request.config.rootpath / DAY
    whole, half = replay(day), replay(day, until="2020-01-01T00:00:00.000Z")
    assert whole.path != half.path
    assert half.rows("SELECT * FROM products") == []
    lacking = {(d.table, d.left) for d in half.differences(whole)}
    assert ("orders", None) in lacking
    with pytest.raises(KeyError, match="0 orders have the number 7"):
        whole.order(7)


def test_the_end_of_a_replay_may_be_in_any_zone(
    replay: Callable[..., Mirror], request: pytest.FixtureRequest
) -> None:
    day: Path = request.config.rootpath / DAY
    events = [json.loads(line) for line in day.read_text("utf-8").splitlines()[1:]]
    first = next(e["received_at"] for e in events if e["topic"] == "orders/create")
    in_pune = from_text(first).astimezone(timezone(timedelta(hours=5, minutes=30)))
    mirror = replay(day, until=in_pune.isoformat())
    assert mirror.rows("SELECT * FROM orders") == []
    assert mirror.rows("SELECT * FROM products") != []
    with pytest.raises(ValueError, match="noon"):
        replay(day, until="noon")


async def test_a_replay_works_inside_an_event_loop(
    replay: Callable[..., Mirror], request: pytest.FixtureRequest
) -> None:
    with on_purpose():
        assert replay(request.config.rootpath / DAY).stock("FC") == 399


def test_signatures_are_those_of_the_platform() -> None:
    # By openssl dgst -sha256 -hmac x -binary, then base64.
    assert sign(BODY, "x") == "N/u+O1VRpdLIhEMiIsAj9a4Th1mGr9KhQTsyfDXqH10="
    headers = signed_headers(BODY, "x", "orders/create")
    assert headers["X-Service-Hmac-Sha256"] == sign(BODY, "x")
    assert headers["X-Service-Topic"] == json.loads(BODY)["topic"]
