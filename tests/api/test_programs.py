"""Programs use the API while daemons are killed, or of a daemon that owns no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from scenes import leftovers
from scenes.daemon import DaemonProcess, connected_process, in_process
from scenes.loop_guard import on_purpose
from scenes.postgres import postgres
from scenes.reference_process import ReferenceProcess, reference
from scenes.replicas import Replica, replicas
from scenes.shopper import buy
from scenes.stored import values_of
from scenes.waiting import HANG_SECONDS, await_true

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.programs
ORDERS = 4
CREATE = ("tokens", "create", "wms", "--scope", "operate", "--json")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[ReferenceProcess]:
    with reference(tmp_path / "platform") as started:
        yield started


class Program:
    """A program with a token, which sends requests to one address."""

    def __init__(self, url: str, token: str) -> None:
        leftovers.issued(token)
        self._url = f"{url}/backhaul/v1"
        self.headers = {"Authorization": f"Bearer {token}"}

    @on_purpose()
    def submit(self, order: str, number: int) -> httpx.Response:
        """Submit the parcel of an order, whose key is the order's."""
        return httpx.post(
            f"{self._url}/fulfillments",
            json={"order": order, "everything": True, "tracking_number": f"T{number}"},
            headers=self.headers | {"Idempotency-Key": f"parcel-of-{number}"},
            timeout=HANG_SECONDS,
        )

    @on_purpose()
    def read_stream(self, type_: str, state: str) -> dict[str, Any]:
        """Return the first change of a type to a state, from the stream's begin."""
        headers = self.headers | {"Last-Event-ID": "0.0.0.0.0.0.0.0.0"}
        address = f"{self._url}/stream"
        with httpx.stream("GET", address, headers=headers, timeout=HANG_SECONDS) as got:
            assert got.status_code == 200
            for line in got.iter_lines():
                found = json.loads(line[6:]) if line.startswith("data: ") else {}
                if (found.get("type"), found.get("state")) == (type_, state):
                    return dict(found)
        pytest.fail("the stream ended")


def parcels(platform: ReferenceProcess, order: Mapping[str, Any]) -> list[str]:
    """Return the tracking numbers of an order's parcels at the platform."""
    shown = platform.v1("GET", f"/orders/{order['id']}").data()
    return [each["trackingNumber"] for each in shown["shipments"]]


def test_a_kill_between_two_submissions_neither_loses_nor_doubles_one(
    platform: ReferenceProcess,
) -> None:
    orders = [buy(platform) for _ in range(ORDERS)]
    numbers = [int(order["number"]) for order in orders]
    with connected_process(platform) as daemon:
        office = daemon.office
        made = in_process(*CREATE, config=office.config)
        token = made.json()["token"]
        await_true(
            lambda: (
                {each["id"] for each in orders}
                <= {*values_of(office.place, "orders", "id")}
            ),
            "the orders are mirrored",
        )
        program = Program((office.read_status() or {})["admin_url"], token)
        answered = [program.submit(str(n), n).json() for n in numbers[: ORDERS // 2]]
        daemon.kill()
        again = DaemonProcess(office)
        try:
            url = again.await_ready()["admin_url"]
            program = Program(url, token)
            repeated = [program.submit(str(n), n) for n in numbers]
            ids = [each.json()["id"] for each in repeated]
            assert ids[: len(answered)] == [each["id"] for each in answered]
            replayed = [each.headers.get("Idempotency-Replayed") for each in repeated]
            assert replayed == ["true"] * len(answered) + [None] * (
                ORDERS - len(answered)
            )
            for order, number in zip(orders, numbers, strict=True):
                await_true(
                    lambda order=order, number=number: (
                        parcels(platform, order)  # type: ignore[misc]  # no type of a default
                        == [f"T{number}"]
                    ),
                    "one parcel",
                )
        finally:
            again.kill()


@pytest.fixture
def pair(platform: ReferenceProcess) -> Iterator[tuple[Replica, Replica]]:
    """An owner and a standby."""
    with (
        postgres() as server,
        replicas(platform, server.new_database(), 2) as (owner, standby),
    ):
        owner.start()
        await_true(owner.is_owner, "the first is the owner")
        standby.start()
        yield owner, standby


def test_a_standby_hands_a_record_to_the_owner_and_streams_its_changes(
    pair: tuple[Replica, Replica], platform: ReferenceProcess
) -> None:
    owner, standby = pair
    order = buy(platform)
    await_true(lambda: values_of(owner.url, "orders", "id"), "the order is mirrored")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKHAUL_DATABASE__URL", standby.url)
        patch.setenv("BACKHAUL_CLUSTER__DURABILITY", "single")
        made = in_process(*CREATE, config=standby.office.config)
    program = Program(f"http://127.0.0.1:{standby.admin_port}", made.json()["token"])
    number = int(order["number"])
    first = program.submit(str(number), number)
    assert first.status_code == 201, first.text
    assert program.submit(str(number), number).json()["id"] == first.json()["id"]
    await_true(lambda: parcels(platform, order) == [f"T{number}"], "it is shipped")
    change = program.read_stream("command", "applied")
    assert change["id"] == first.json()["command_id"]
    assert standby.status() == "standby"
