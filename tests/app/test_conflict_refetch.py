"""The daemon refetches a conflicting order; the mirror ends equal to the platform."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import httpx
import pytest

from scenes.daemon import connected_process
from scenes.payloads import envelope, signed
from scenes.reference_process import ReferenceProcess, reference
from scenes.shopper import buy
from scenes.stored import lists, rows_of, value_of, values_of
from scenes.waiting import await_true

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.store import Place

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceProcess]:
    with reference(tmp_path_factory.mktemp("platform")) as started:
        yield started


def test_a_withdrawn_cancellation_is_read_again(platform: ReferenceProcess) -> None:
    """One event shows the order as cancelled, the next one does not."""
    with connected_process(platform) as started:
        order = buy(platform)
        database = started.office.place

        def status() -> list[str]:
            return values_of(database, "orders", "status", id=order["id"])

        await_true(status, "the order")
        later = "2099-01-01T00:00:00.000Z"
        wrong = order | {"status": "CANCELLED", "updatedAt": later}
        for said in (wrong, order | {"updatedAt": "2099-01-02T00:00:00.000Z"}):
            body = envelope("orders/updated", said, sequence=0, storeId=None)
            secret = started.office.webhook_secret.encode()
            url = f"{(started.office.read_status() or {})['public_url']}/webhooks/main"
            headers = signed(body, secret)
            assert httpx.post(url, content=body, headers=headers).status_code == 200
        read = {"topic": "orders/reread"}
        await_true(lambda: rows_of(database, "events", **read), "the read")
        await_true(lambda: status() == ["PENDING"], "it")
        document = value_of(database, "orders", "document", id=order["id"])
        assert json.loads(document) == order
        await_true(lambda: refetch_length(database) == 0, "no doubt")


def refetch_length(database: Place) -> int:
    """Return the number of objects in the refetch queue."""
    with lists(database) as reader:
        return reader.counts().in_doubt
