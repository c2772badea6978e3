"""The packing list is correct for a captured day and for new orders."""

import pytest
from packing import packing_list

BAD_DAY = "captures/bad-day.jsonl"


@pytest.fixture(autouse=True)
def _in_this_folder(request, monkeypatch):
    monkeypatch.chdir(request.path.parent)


def test_the_bad_day(replay):
    mirror = replay(BAD_DAY)
    assert packing_list(mirror.path) == [("#1003", "FC", 2), ("#1004", "MD", 2)]
    assert mirror.stock("FC") == 399


@pytest.mark.parametrize("seed", range(5))
def test_no_order_of_arrival_matters(replay, seed):
    wild = replay(BAD_DAY, shuffle=seed, duplicate=0.5)
    assert wild.differences(replay(BAD_DAY)) == []


def test_a_lost_webhook_shows(replay):
    assert replay(BAD_DAY, drop=1.0).rows("SELECT * FROM orders") == []


def test_an_order_is_packed_until_it_is_sent(
    reference_store, backhaul_daemon, wait_until_idle
):
    order = reference_store.place_order("FC", 2)
    mirror = wait_until_idle()
    assert packing_list(mirror.path) == [(order["name"], "FC", 2)]

    parcel = {"trackingCompany": "BlueDart", "trackingNumber": "BD-1"}
    reference_store.v1("POST", f"/orders/{order['id']}/fulfill", parcel)
    assert packing_list(wait_until_idle().path) == []


def test_a_forged_delivery_is_refused(backhaul_daemon):
    backhaul_daemon.webhook_secret = "whsec_of_somebody_else"
    assert backhaul_daemon.deliver({"topic": "orders/create", "data": {}}) == 401
