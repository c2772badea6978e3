"""A hand-held scanner: numbers its scans, and repeats one until it is answered."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

import httpx

from backhaul.demo.causes import Cause
from backhaul.demo.home import SCANNER

if TYPE_CHECKING:
    from backhaul.core.clock import Clock
    from backhaul.demo.causes import Placement

COMPANY = "Demo Express"
PATIENCE_SECONDS = 0.15
ANSWER_SECONDS = 5.0


class Handheld:
    """One device. A scan without an answer may have been heard: it is sent again."""

    def __init__(self, device: str, token: str, daemon_url: str, clock: Clock) -> None:
        self._device = device
        self._clock = clock
        self._sequence = 0
        self._client = httpx.AsyncClient(
            base_url=daemon_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=ANSWER_SECONDS,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def pack(self, order: Placement) -> Cause:
        """Scan a packed order; return once the daemon has said what it makes of it."""
        self._sequence += 1
        scan, cause = scan_of(order, self._device, self._sequence, "DX")
        while not await self._heard(scan):
            await self._clock.sleep(PATIENCE_SECONDS)
        return cause

    async def _heard(self, scan: dict[str, object]) -> bool:
        """Send it once. A refusal is an answer: the ledger will miss the command."""
        try:
            answer = await self._client.post(f"/connect/{SCANNER}/scan", json=scan)
        except httpx.TransportError:
            return False
        return answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR


def scan_of(
    order: Placement, device: str, sequence: int, prefix: str
) -> tuple[dict[str, object], Cause]:
    """Return the scan of a packed order and what it means; parcels begin with `prefix`.

    The tracking number is the order's, so that a scan that is repeated is the same.
    """
    tracking = f"{prefix}{order.number:06}"
    scan = {
        "device": device,
        "sequence": sequence,
        "mode": "pack",
        "code": f"#{order.number}",
        "trackingCompany": COMPANY,
        "trackingNumber": tracking,
    }
    cause = Cause(
        kind="fulfill",
        instance=SCANNER,
        locator=f"scan {sequence} of {device}",
        order_id=order.order_id,
        tracking_company=COMPANY,
        tracking_number=tracking,
    )
    return scan, cause
