"""Requests as a store's quirks read them: endpoints, queries, bodies."""

from multidict import MultiDict, MultiMapping

from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, Problem, invalid
from backhaul_reference.quirks import NONE, Quirks
from backhaul_reference.web.queries import MAX_LIMIT

V1 = "/api/v1"
ADJUST, SET = V1 + "/inventory/adjust", V1 + "/inventory/set"
FULFILL, CANCEL = V1 + "/orders/{id}/fulfill", V1 + "/orders/{id}/cancel"
ORDERS = V1 + "/orders"

ABSENT = {
    "no-store-endpoint": (V1 + "/store",),
    "no-history": (V1 + "/inventory/history",),
    "no-levels": (V1 + "/inventory", V1 + "/inventory/{product_id}"),
    "no-webhook-api": (V1 + "/webhooks",),
}
"""Which quirk leaves out which endpoints; webhooks with all that is below them."""

SHOWN = {
    ADJUST: ("productId", "adjustment", "reason"),
    FULFILL: NONE.tracking_fields,
    CANCEL: ("restock",),
}
"""The members that the specification itself shows, where it shows a body."""


def check_offered(quirks: Quirks, route: str) -> None:
    for name, routes in ABSENT.items():
        if name not in quirks:
            continue
        below = name == "no-webhook-api" and route.startswith(routes[0] + "/")
        if route in routes or below:
            raise Problem(404, "NOT_FOUND", "there is nothing here")


def query(quirks: Quirks, route: str, sent: MultiMapping[str]) -> MultiMapping[str]:
    """The query as far as the store understands it."""
    read = MultiDict(sent)
    if "no-updated-since" in quirks:
        _drop(read, "updatedSince", "sort")
    if ignores_pages(quirks, route):
        _drop(read, "page", "limit")
    if "clamp-limit" in quirks and "limit" in read:
        read["limit"] = _clamped(read["limit"])
    return read


def ignores_pages(quirks: Quirks, route: str) -> bool:
    return "ignore-page" in quirks and route == ORDERS


def _drop(read: MultiDict[str], *names: str) -> None:
    for name in names:
        read.popall(name, None)


def _clamped(text: str) -> str:
    digits = text.isascii() and text.isdigit() and len(text) <= 10
    return str(min(int(text), MAX_LIMIT)) if digits else text


def document(quirks: Quirks, route: str, sent: Document) -> Document:
    """The body by the names that the schemas know; 422 for what is refused."""
    renamed = _renamed(quirks, route)
    if "strict-body" in quirks and route in SHOWN:
        _check_shown(sent, {renamed.get(name, name) for name in SHOWN[route]})
    read = dict(sent)
    for ours, theirs in renamed.items():
        read.pop(ours, None)
        if theirs in sent:
            read[ours] = sent[theirs]
    if "no-note" in quirks:
        read.pop("note", None)
    if route in (ADJUST, SET):
        _read_adjustment(quirks, read)
    return read


def _renamed(quirks: Quirks, route: str) -> dict[str, str]:
    if route == CANCEL and "restock-field" in quirks:
        return {NONE.restock_field: quirks.restock_field}
    if route == FULFILL and "tracking-fields" in quirks:
        return dict(zip(NONE.tracking_fields, quirks.tracking_fields, strict=True))
    return {}


def _check_shown(sent: Document, allowed: set[str]) -> None:
    flaws = [
        Flaw(f"/{name}", "UNKNOWN_MEMBER", "is not a member of this request")
        for name in sent
        if name not in allowed
    ]
    if flaws:
        raise invalid(flaws)


def _read_adjustment(quirks: Quirks, read: Document) -> None:
    if "ignore-variant" in quirks:
        read.pop("variantId", None)
    reason = read.get("reason", "MANUAL_ADJUSTMENT")
    if "manual-reason" in quirks and reason != "MANUAL_ADJUSTMENT":
        detail = "must be MANUAL_ADJUSTMENT"
        raise invalid([Flaw("/reason", "NOT_ALLOWED", detail)])
