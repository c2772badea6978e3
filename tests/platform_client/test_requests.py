"""The request of each kind of command, and which responses prove its effect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from backhaul.core.lifecycle import State
from backhaul.errors import Unusable
from backhaul.platform import decoding, requests
from backhaul.platform.requests import Dialect
from backhaul.store.matching import Command
from scenes import payloads

ID = "0" * 32


def command(kind: str, target: str = "ord_1", **payload: Any) -> Command:
    return Command(
        seq=1,
        id=ID,
        store="main",
        kind=kind,
        target=target,
        lane=f"lane:{target}",
        state=State.SENDING,
        payload=payload,
        attempts=0,
        failures=0,
        instance="courier",
    )


def fulfill(
    company: str | None = "BlueDart",
    number: str | None = "BD1",
    lines: tuple[tuple[str, int], ...] = (),
) -> Command:
    return command(
        "fulfill",
        tracking_company=company,
        tracking_number=number,
        lines=[{"line_id": line, "quantity": quantity} for line, quantity in lines],
    )


CANCEL = command("cancel", restock=True, reason="STAFF")
KEEP = command("cancel", restock=False, reason="OTHER")
ADJUST = command("adjust", "prod_1", variant_id="var_1", delta=-2, reason="DAMAGED")

BODIES = [
    (fulfill(), {"trackingCompany": "BlueDart", "trackingNumber": "BD1"}),
    (fulfill(None, None), {}),
    (
        fulfill(None, "BD1", (("li_1", 2),)),
        {"trackingNumber": "BD1", "items": [{"lineItemId": "li_1", "quantity": 2}]},
    ),
    (CANCEL, {"restock": True, "reason": "STAFF", "note": f"bh:{ID}"}),
    (KEEP, {"restock": False, "reason": "OTHER", "note": f"bh:{ID}"}),
    (
        ADJUST,
        {
            "productId": "prod_1",
            "variantId": "var_1",
            "adjustment": -2,
            "reason": "DAMAGED",
            "note": f"bh:{ID}",
        },
    ),
]


@pytest.mark.parametrize(("asked", "body"), BODIES, ids=range(len(BODIES)))
def test_body(asked: Command, body: dict[str, Any]) -> None:
    assert json.loads(requests.body(asked, Dialect())) == body
    assert requests.body(asked, Dialect()) == requests.body(asked, Dialect())


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (fulfill(), "/orders/ord_1/fulfill"),
        (CANCEL, "/orders/ord_1/cancel"),
        (ADJUST, "/inventory/adjust"),
    ],
    ids=["fulfill", "cancel", "adjust"],
)
def test_path(asked: Command, path: str) -> None:
    assert requests.path(asked) == path


def test_other_words_of_a_store() -> None:
    dialect = Dialect("putBack", "carrier", "code")
    assert json.loads(requests.body(CANCEL, dialect))["putBack"] is True
    words = {"carrier": "BlueDart", "code": "BD1"}
    assert json.loads(requests.body(fulfill(), dialect)) == words


def test_member_is_left_out_of_the_kind_that_does_not_know_it() -> None:
    dialect = Dialect(unknown_members={"adjust.note"})
    assert "note" not in json.loads(requests.body(ADJUST, dialect))
    assert "note" in json.loads(requests.body(CANCEL, dialect))


def cancelled(restocked: bool = True, **members: Any) -> dict[str, Any]:
    cancellation = {"restocked": restocked, "cancelledAt": payloads.instant(3)}
    return payloads.order(cancellation=cancellation, **members)


def shipped(*parcels: dict[str, Any], **members: Any) -> dict[str, Any]:
    return payloads.order(shipments=list(parcels), **members)


PARCEL = payloads.shipment()
UNTRACKED = payloads.shipment(
    trackingCompany=None,
    trackingNumber=None,
    items=[{"lineItemId": "li_1", "quantity": 1}],
)
PROOFS = {
    "shipped": (fulfill(), shipped(PARCEL)),
    "shipped-among-others": (fulfill(), shipped(payloads.shipment("shp_0"), PARCEL)),
    "shipped-untracked": (fulfill(None, None), shipped(UNTRACKED)),
    "shipped-lines": (fulfill(lines=(("li_1", 2),)), shipped(PARCEL)),
    "shipped-lines-not-told": (
        fulfill(lines=(("li_1", 2),)),
        shipped({key: PARCEL[key] for key in PARCEL if key != "items"}),
    ),
    "shipped-lines-in-other-words": (
        fulfill(lines=(("li_1", 2),)),
        shipped(PARCEL | {"items": [{"sku": "LS-S", "quantity": 2}]}),
    ),
    "cancelled": (CANCEL, cancelled()),
    "cancelled-kept": (KEEP, cancelled(restocked=False)),
    "cancelled-kept-as-nothing-could-come-back": (
        KEEP,
        cancelled(items=[payloads.item() | {"restockedQuantity": 0}]),
    ),
}
DOUBTS = {
    "other-order": (
        fulfill(),
        shipped(PARCEL, id="ord_2"),
        "about order ord_2, and the command is about order ord_1",
    ),
    "not-shipped": (
        fulfill(),
        shipped(),
        "does not show the effect",
    ),
    "other-number": (
        fulfill(),
        shipped(payloads.shipment(trackingNumber="BD2")),
        "does not show",
    ),
    "other-company": (
        fulfill(),
        shipped(payloads.shipment(trackingCompany="Delhivery")),
        "does not show",
    ),
    "other-lines-untracked": (
        fulfill(None, None, (("li_2", 1),)),
        shipped(UNTRACKED),
        "does not show",
    ),
    "fewer-units-untracked": (
        fulfill(None, None, (("li_1", 2),)),
        shipped(UNTRACKED),
        "does not show",
    ),
    "not-cancelled": (
        CANCEL,
        payloads.order(),
        "does not show the effect",
    ),
    "cancelled-not-restocked": (CANCEL, cancelled(restocked=False), "does not show"),
    "cancelled-yet-restocked": (KEEP, cancelled(), "does not show"),
    "cancelled-other-order": (CANCEL, cancelled(id="ord_2"), "about order ord_2"),
    "no-order": (CANCEL, {"ok": True}, "without an id"),
    "list": (CANCEL, [], "contains no object"),
    "nothing": (CANCEL, None, "contains no object"),
    "text": (CANCEL, "done", "contains no object"),
}


@pytest.mark.parametrize("bare", [False, True], ids=["wrapped", "bare"])
@pytest.mark.parametrize("name", PROOFS)
def test_order_that_shows_the_effect_proves_it(name: str, bare: bool) -> None:
    asked, answer = PROOFS[name]
    proof = requests.evidence(asked, answer if bare else {"data": answer})
    assert proof["updated_at"] == payloads.instant(0)
    assert proof["shipments"] == [parcel["id"] for parcel in answer["shipments"]]
    assert (proof["cancelled_at"] is None) == (asked.kind == "fulfill")


@pytest.mark.parametrize("name", DOUBTS)
def test_order_that_does_not_show_the_effect_proves_nothing(name: str) -> None:
    asked, answer, words = DOUBTS[name]
    with pytest.raises(Unusable, match=words):
        requests.evidence(asked, answer)


ADJUSTED: dict[str, Any] = {
    "adjustmentId": "adj_1",
    "productId": "prod_1",
    "levels": [{"variantId": "var_1", "stock": 10}],
}


def test_adjustment_is_proved_by_its_id_and_levels() -> None:
    proof = {"adjustment_id": "adj_1", "levels": ADJUSTED["levels"]}
    assert requests.evidence(ADJUST, {"data": ADJUSTED}) == proof
    numbered = {"data": ADJUSTED | {"adjustmentId": 7}}
    assert requests.evidence(ADJUST, numbered)["adjustment_id"] == "7"


NO_ADJUSTMENT: list[dict[str, Any]] = [
    {"productId": "prod_2"},
    {"productId": None},
    {"adjustmentId": None},
    {"adjustmentId": True},
    {"adjustmentId": ""},
    {"levels": None},
    {"levels": {}},
]


@pytest.mark.parametrize("members", NO_ADJUSTMENT, ids=str)
def test_other_shape_of_an_adjustment_proves_nothing(members: dict[str, Any]) -> None:
    with pytest.raises(Unusable):
        requests.evidence(ADJUST, {"data": ADJUSTED | members})


STRANGE_ITEMS: list[object] = [
    None,
    {},
    "x",
    [1],
    [None],
    [{"lineItemId": []}],
    [{"quantity": 1}],
]


@pytest.mark.parametrize("items", STRANGE_ITEMS, ids=str)
def test_strange_lines_of_a_parcel_are_no_error(items: object) -> None:
    data = shipped(PARCEL | {"items": items})
    order = decoding.order(data)
    assert requests.shows_effect(fulfill(lines=(("li_1", 2),)), order, data) in {
        True,
        False,
    }
