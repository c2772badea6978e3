"""What tests of other projects rely on, beyond what the example project shows."""

from __future__ import annotations

import json
from datetime import timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import from_text
from backhaul.testing import sign, signed_headers
from backhaul.testing.programs import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.testing import DaemonUnderTest, Mirror, ReferenceStore

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
    settled: Callable[..., Mirror],
) -> None:
    order = reference_store.place_order("FC", 2)
    mirror = settled()
    assert mirror.order(order["number"])["id"] == order["id"]
    assert mirror.stock("FC") == 398
    assert "desk" in backhaul_daemon.status()["connectors"]

    backhaul_daemon.kill()
    reference_store.place_order("FC", 1)
    with pytest.raises(ProgramError, match="'webhooks to deliver': 2"):
        settled(seconds=0.3)
    assert mirror.stock("FC") == 398


def test_a_restart_goes_on_with_the_same_database(
    reference_store: ReferenceStore, backhaul_daemon: DaemonUnderTest
) -> None:
    order = reference_store.place_order("MD")
    backhaul_daemon.settled()
    backhaul_daemon.kill()
    backhaul_daemon.start()
    assert backhaul_daemon.mirror.order(order["number"])["status"] == "PENDING"


def test_what_the_platform_refuses_is_an_error(reference_store: ReferenceStore) -> None:
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
    assert replay(request.config.rootpath / DAY).stock("FC") == 399


def test_signatures_are_those_of_the_platform() -> None:
    # By openssl dgst -sha256 -hmac x -binary, then base64.
    assert sign(BODY, "x") == "N/u+O1VRpdLIhEMiIsAj9a4Th1mGr9KhQTsyfDXqH10="
    headers = signed_headers(BODY, "x", "orders/create")
    assert headers["X-Service-Hmac-Sha256"] == sign(BODY, "x")
    assert headers["X-Service-Topic"] == json.loads(BODY)["topic"]
