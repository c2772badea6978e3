"""Daemons with separate roles: one receives, one works, one serves the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from scenes.loop_guard import on_purpose
from scenes.postgres import postgres
from scenes.reference_process import ReferenceProcess, reference
from scenes.replicas import Replica, replicas
from scenes.shopper import buy
from scenes.stored import values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.programs


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[ReferenceProcess]:
    with reference(tmp_path / "platform") as started:
        yield started


@pytest.fixture
def trio(platform: ReferenceProcess) -> Iterator[tuple[Replica, ...]]:
    """Start a worker, a dashboard and a receiver, which gets the webhooks."""
    with (
        postgres() as server,
        replicas(platform, server.new_database(), 3) as made,
    ):
        # The receiver starts first; nothing is processed until the worker starts.
        for each, role in reversed(
            [*zip(made, ("worker", "admin", "receiver"), strict=True)]
        ):
            each.environ["BACKHAUL_CLUSTER__ROLES"] = role
            each.start()
        yield tuple(made)


@on_purpose()
def status_of(replica: Replica, path: str, *, admin: bool = False) -> int | None:
    """Return the status of a page, None if nothing listens there."""
    port = replica.admin_port if admin else replica.public_port
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60).status_code
    except httpx.ConnectError:
        return None


@on_purpose()
def scan(replica: Replica, token: str, number: int) -> httpx.Response:
    return httpx.post(
        f"http://127.0.0.1:{replica.public_port}/connect/bench/scan",
        json={"mode": "pack", "code": str(number), "trackingNumber": "T1"},
        headers={"Authorization": f"Bearer {token}"},
        timeout=60,
    )


def parcels(platform: ReferenceProcess, order: str) -> list[str]:
    shown = platform.v1("GET", f"/orders/{order}").data()
    return [each["trackingNumber"] for each in shown["shipments"]]


def test_each_daemon_serves_what_its_roles_need(trio: tuple[Replica, ...]) -> None:
    worker, admin, receiver = trio
    await_true(worker.is_owner, "the worker owns the store")
    assert (admin.status(), receiver.status()) == ("standby", "standby")
    assert status_of(receiver, "/webhooks/main") == 405
    assert status_of(worker, "/webhooks/main") == 404
    assert status_of(worker, "/connect/bench/") == 200
    assert status_of(admin, "/webhooks/main") is None
    dashboards = [status_of(each, "/", admin=True) for each in trio]
    assert dashboards == [404, 303, 404]  # redirect to the login
    healthy = [status_of(each, "/healthz", admin=True) for each in trio]
    assert healthy == [200, 200, 200]


def test_events_that_one_member_receives_are_processed_by_another(
    trio: tuple[Replica, ...], platform: ReferenceProcess
) -> None:
    worker, _, receiver = trio
    await_true(worker.is_owner, "the worker owns the store")
    order = buy(platform)
    await_true(
        lambda: order["id"] in values_of(worker.url, "orders", "id"),
        "the order is mirrored",
    )
    token = worker.office.device_token
    answer = scan(receiver, token, order["number"])
    assert (answer.status_code, answer.json()["accepted"]) == (200, True), answer.text
    await_true(lambda: parcels(platform, order["id"]) == ["T1"], "it is shipped")
    assert scan(receiver, "another token", order["number"]).status_code == 401
    worker.kill()
    gone = scan(receiver, token, order["number"])
    assert (gone.status_code, gone.headers["Retry-After"]) == (503, "1")
