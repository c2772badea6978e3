"""What each courier's words come down to; an empty text passes a word over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

EASYPOST = {
    "unknown": "",
    "pre_transit": "announced",
    "in_transit": "in_transit",
    "out_for_delivery": "out_for_delivery",
    "available_for_pickup": "out_for_delivery",
    "delivered": "delivered",
    "return_to_sender": "returned",
    "failure": "failed_attempt",
    "cancelled": "",
    "error": "",
}
AFTERSHIP = {
    "pending": "",
    "inforeceived": "announced",
    "intransit": "in_transit",
    "outfordelivery": "out_for_delivery",
    "attemptfail": "failed_attempt",
    "delivered": "delivered",
    "availableforpickup": "out_for_delivery",
    "exception": "",
    "expired": "",
}
SENDCLOUD = {
    "no label": "",
    "ready to send": "announced",
    "announced": "announced",
    "being announced": "announced",
    "announced: not collected": "announced",
    "announcement failed": "",
    "at sorting centre": "in_transit",
    "being sorted": "in_transit",
    "sorted": "in_transit",
    "not sorted": "in_transit",
    "shipment picked up by driver": "in_transit",
    "shipment collected by customer": "delivered",
    "shipment on route": "in_transit",
    "en route to sorting center": "in_transit",
    "at customs": "in_transit",
    "delivery delayed": "in_transit",
    "delivery method changed": "in_transit",
    "delivery date changed": "in_transit",
    "delivery address changed": "in_transit",
    "driver en route": "out_for_delivery",
    "parcel en route": "in_transit",
    "awaiting customer pickup": "out_for_delivery",
    "delivery attempt failed": "failed_attempt",
    "unable to deliver": "failed_attempt",
    "delivered": "delivered",
    "returned to sender": "returned",
    "refused by recipient": "failed_attempt",
    "exception": "",
    "address invalid": "",
    "unknown status - check carrier track & trace page for more insights": "",
    "cancellation requested": "",
    "submitting cancellation request": "",
    "cancelled upstream": "",
    "cancelled": "",
}
GENERIC = {
    "announced": "announced",
    "in_transit": "in_transit",
    "out_for_delivery": "out_for_delivery",
    "failed_attempt": "failed_attempt",
    "delivered": "delivered",
    "returned": "returned",
}
WORDS: Mapping[str, Mapping[str, str]] = {
    "easypost": EASYPOST,
    "aftership": AFTERSHIP,
    "sendcloud": SENDCLOUD,
    "generic": GENERIC,
}


def status_of(word: str, vendor: str, more: Mapping[str, str]) -> str | None:
    """Return our status; empty to pass the word over, None for an unknown word."""
    plain = " ".join(word.casefold().split())
    own = {key.casefold(): status for key, status in more.items()}
    return own.get(plain, WORDS[vendor].get(plain))
