"""The running daemon reads again what it cannot believe; it ends as the platform."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from scenes.daemon import connected_process
from scenes.databases import rows
from scenes.payloads import envelope, signed
from scenes.reference_process import ReferenceProcess, reference
from scenes.shopper import buy
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceProcess]:
    with reference(tmp_path_factory.mktemp("platform")) as started:
        yield started


def test_a_cancellation_taken_back_is_read_again(platform: ReferenceProcess) -> None:
    """Somebody says the order is cancelled, and then that it is not: which is it?"""
    with connected_process(platform) as started:
        order = buy(platform)
        database = started.office.database
        query = "SELECT status, document FROM orders WHERE id = ?"
        await_true(lambda: rows(database, query, order["id"]), "the order")
        later = "2099-01-01T00:00:00.000Z"
        wrong = order | {"status": "CANCELLED", "updatedAt": later}
        for said in (wrong, order | {"updatedAt": "2099-01-02T00:00:00.000Z"}):
            body = envelope("orders/updated", said, sequence=0, storeId=None)
            secret = started.office.webhook_secret.encode()
            url = f"{(started.office.live() or {})['public_url']}/webhooks/main"
            headers = signed(body, secret)
            assert httpx.post(url, content=body, headers=headers).status_code == 200
        reread = "SELECT 1 FROM inbox WHERE topic = 'orders/reread'"
        await_true(lambda: rows(database, reread), "the read")
        await_true(lambda: rows(database, query, order["id"])[0][0] == "PENDING", "it")
        ((_, document),) = rows(database, query, order["id"])
        assert json.loads(document) == order
        await_true(lambda: not rows(database, "SELECT 1 FROM rereads"), "no doubt")
