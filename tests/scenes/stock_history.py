"""Responses of the platform's stock history, for scripts of a test."""

from __future__ import annotations

from typing import Any

from scenes import payloads
from scenes.scripted_platform import document

HISTORY = "/inventory/history"


def move(number: int, command: str, **members: Any) -> dict[str, Any]:
    """Return a row with a command's reference tag; `number` is its time."""
    return {
        "id": f"inv_{number}",
        "adjustmentId": f"adj_{number}",
        "productId": "prod_1",
        "variantId": "var_1",
        "adjustment": -2,
        "stockAfter": 1,
        "reason": "DAMAGED",
        "note": f"bh:{command}",
        "source": {"type": "API_KEY", "id": "key_1"},
        "createdAt": payloads.instant(number),
        **members,
    }


def history(*moves: dict[str, Any]) -> bytes:
    return document({"data": list(moves), "meta": {"hasMore": False}})
