"""What a command of ours does to an order, told from all else that changed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

STAMPS = frozenset({"updatedAt", "version"})
PARCEL = frozenset({"status", "fulfillmentStatus"})
CANCELLATION = PARCEL | {"financialStatus", "cancellation"}
LINE = frozenset({"fulfilledQuantity", "restockedQuantity"})
DUE = frozenset({"amountDue"})
"""Members of an order, of its lines and of its payment that follow from an effect."""


def shows_more(
    known: Mapping[str, Any],
    shown: Mapping[str, Any],
    parcels: Collection[str],
    *,
    cancels: bool,
) -> bool:
    """Tell whether an order changed in more than these parcels of ours explain.

    `known` and `shown` are its documents before and after, `cancels` says that its
    cancellation is ours too. What is not known here is taken for somebody else's.
    """
    before, after = (_rest(order, parcels, cancels) for order in (known, shown))
    return before != after


def _rest(
    order: Mapping[str, Any], parcels: Collection[str], cancels: bool
) -> dict[str, Any]:
    explained = STAMPS | (PARCEL if parcels else set())
    explained |= CANCELLATION if cancels else set()
    rest = _without(order, explained)
    rest["items"] = [_without(line, LINE) for line in order.get("items") or ()]
    shipments = order.get("shipments") or ()
    rest["shipments"] = [each for each in shipments if each["id"] not in parcels]
    if cancels and isinstance(rest.get("payment"), dict):
        rest["payment"] = _without(rest["payment"], DUE)
    return rest


def _without(document: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}
