"""Couriers in a test: what they send, signed as they sign, and what they can be asked.

Signatures are made here anew, from what the couriers publish.
"""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiohttp import web

from backhaul_connectors.courier import Courier
from backhaul_connectors.courier.settings import Settings
from backhaul_sdk import HttpRequest, HttpResponse
from backhaul_sdk.testing import MemoryHost
from connectors.serving import Site

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_sdk import Emit, Record

SECRET = "courier-secret-0123456789"
API_KEY = "courier-key-0123456789"
API_SECRET = "courier-other-key-0123456789"
NOW = 1_767_225_600.0


def mac(body: bytes, secret: str = SECRET) -> bytes:
    return hmac.digest(secret.encode(), body, "sha256")


def easypost(number: int, word: str = "delivered", **more: object) -> dict[str, Any]:
    details = [{"status": "pre_transit", "datetime": "2025-12-30T08:00:00Z"}]
    details.append({"status": word, "datetime": "2025-12-31T08:00:00Z"})
    return {
        "id": f"evt_{number}_{word}",
        "object": "Event",
        "description": "tracker.updated",
        "mode": "production",
        "previous_attributes": {"status": "unknown"},
        "result": {
            "id": f"trk_{number}",
            "object": "Tracker",
            "tracking_code": f"EZ{number}",
            "status": word,
            "carrier": "UPS",
            "tracking_details": details,
            **more,
        },
    }


def aftership(number: int, word: str = "Delivered", **more: object) -> dict[str, Any]:
    return {
        "ts": 1_767_168_000,
        "event": "tracking_update",
        "event_id": f"3f645f5e-{number}-{word}",
        "is_tracking_first_tag": True,
        "msg": {
            "id": f"g{number}",
            "tracking_number": f"EZ{number}",
            "slug": "dhl",
            "tag": word,
            "order_id": None,
            "return_to_sender": False,
            "checkpoints": [{"checkpoint_time": "2025-12-31T09:00:00+01:00"}],
            **more,
        },
    }


def sendcloud(number: int, word: str = "Delivered", **more: object) -> dict[str, Any]:
    return {
        "action": "parcel_status_changed",
        "timestamp": 1_767_168_000_000,
        "carrier_status_change_timestamp": 1_767_168_000_000,
        "parcel": parcel(number, word, **more),
    }


def parcel(number: int, word: str = "Delivered", **more: object) -> dict[str, Any]:
    return {
        "id": number,
        "tracking_number": f"EZ{number}",
        "status": {"id": 11, "message": word},
        "carrier": {"code": "postnl"},
        "order_number": "",
        "parcel_items": [],
        "date_updated": "2025-12-31T08:00:00Z",
        **more,
    }


def generic(number: int, word: str = "delivered", **more: object) -> dict[str, Any]:
    return {
        "id": f"e{number}-{word}",
        "tracking_number": f"EZ{number}",
        "status": word,
        "at": "2025-12-31T08:00:00Z",
        **more,
    }


def shippo(number: int, word: str = "DELIVERED", **more: object) -> dict[str, Any]:
    current = {
        "object_id": f"{number:08x}{word.lower()}",
        "status": word,
        "substatus": None,
        "status_date": "2025-12-31T08:00:00Z",
        "object_updated": "2025-12-31T08:09:10.123Z",
    }
    return {
        "event": "track_updated",
        "test": False,
        "data": {
            "carrier": "ups",
            "tracking_number": f"EZ{number}",
            "metadata": "1001",
            "messages": [],
            "tracking_history": [current],
            "tracking_status": current,
            "transaction": None,
            **more,
        },
    }


def seventeen_track(
    number: int, word: str = "Delivered", **more: object
) -> dict[str, Any]:
    return {
        "event": "TRACKING_UPDATED",
        "data": {
            "number": f"EZ{number}",
            "carrier": 21_051,
            "tag": None,
            "track_info": {
                "latest_status": {"status": word, "sub_status": f"{word}_Other"},
                "latest_event": {"time_utc": "2025-12-31T08:00:00Z"},
                "tracking": {"providers": [{"provider": {"name": "USPS"}}]},
            },
            **more,
        },
    }


def ship24(number: int, word: str = "delivered", **more: object) -> dict[str, Any]:
    event = {
        "eventId": f"ee8ebe96-{number}-{word}",
        "trackingNumber": f"EZ{number}",
        "status": "Zugestellt",
        "occurrenceDatetime": "2025-12-31T09:00:00+01:00",
        "courierCode": "de-post",
        "statusMilestone": word,
        **more,
    }
    tracker = {"trackerId": f"26148317-{number}", "trackingNumber": f"EZ{number}"}
    return {"trackings": [{"tracker": tracker, "events": [event]}]}


def parcel_of(message: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a courier's message that has the tracking number."""
    if "trackings" in message:
        found: dict[str, Any] = message["trackings"][0]["events"][0]
        return found
    names = ("result", "msg", "parcel", "data")
    return next((message[name] for name in names if name in message), message)


def signed(vendor: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    """Return the headers with which a courier sends a body."""
    digest = mac(body, secret)
    seconds = int(NOW)
    of_time = mac(f"{seconds}.".encode() + body, secret).hex()
    headers = {
        "easypost": {"x-hmac-signature": f"hmac-sha256-hex={digest.hex()}"},
        "aftership": {"aftership-hmac-sha256": base64.b64encode(digest).decode()},
        "sendcloud": {"sendcloud-signature": digest.hex()},
        "generic": {"x-signature": digest.hex()},
        "shippo": {},
        "shippo-hmac": {"shippo-auth-signature": f"t={seconds},v1={of_time}"},
        "17track": {"sign": sha256(body + b"/" + secret.encode()).hexdigest()},
        "ship24": {"authorization": f"Bearer {secret}"},
    }
    return headers[vendor]


MESSAGES = {
    "easypost": easypost,
    "aftership": aftership,
    "sendcloud": sendcloud,
    "generic": generic,
    "shippo": shippo,
    "shippo-hmac": shippo,
    "17track": seventeen_track,
    "ship24": ship24,
}
BY_TOKEN = ("shippo", "ship24")
"""They send a secret and sign nothing."""
SIGNING = [vendor for vendor in MESSAGES if vendor not in BY_TOKEN]


@dataclass(slots=True)
class Desk:
    """A courier connector with its route, and the host behind it."""

    vendor: str
    options: dict[str, Any] = field(default_factory=dict)
    host: MemoryHost = field(default_factory=MemoryHost)
    emit: Emit | None = None
    seconds: float = 0.0
    made: Courier | None = None

    def courier(self) -> Courier:
        """Return a new connector, as after a restart."""
        name = "vendor" if self.vendor == "generic" else "preset"
        told = {name: self.vendor, "secrets": [SECRET], **self.options}
        settings = Settings.model_validate(told)
        self.made = Courier(
            "parcels", settings, clock=lambda: self.seconds, now=lambda: NOW
        )
        return self.made

    async def send(self, message: object) -> HttpResponse:
        """Post a message as the courier does."""
        body = json.dumps(message).encode()
        query = {"token": SECRET} if self.vendor == "shippo" else {}
        return await self.post(body, signed(self.vendor, body), query)

    async def post(
        self,
        body: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> HttpResponse:
        return await self.call("POST", body, headers, query)

    async def call(
        self,
        method: str,
        body: bytes,
        headers: Mapping[str, str],
        query: Mapping[str, str],
    ) -> HttpResponse:
        courier = self.made or self.courier()
        routes = await courier.listen(self.emit or self.host.emit)
        route = next(route for route in routes if route.method == method)
        path = f"/connect/parcels{route.path}"
        request = HttpRequest(method, path, dict(headers), body, dict(query))
        return await route.handler(request)

    def records(self) -> list[Record]:
        return list(self.host.records.values())

    def reasons(self) -> list[str]:
        return [bad.reason for bad in self.host.bad.values()]


class Depot(Site):
    """A courier that can be asked: parcels page by page, and single shipments."""

    def __init__(self) -> None:
        super().__init__()
        self.parcels: list[tuple[int, str]] = []
        self.asked: list[str] = []
        self.page_items = 10
        self.app.router.add_get("/api/v2/parcels", self._list)
        self.app.router.add_get("/shipments/{number}", self._shipment)

    async def _list(self, request: web.Request) -> web.Response:
        self._let_in(request)
        start = int(request.query.get("start", "0"))
        # Large lists come in large pages.
        size = self.page_items if len(self.parcels) < 1_000 else 1_000
        page, rest = self.parcels[start : start + size], self.parcels[start + size :]
        following = f"/api/v2/parcels?start={start + size}" if rest else None
        rows = [parcel(number, word) for number, word in page]
        return web.json_response({"parcels": rows, "next": following})

    async def _shipment(self, request: web.Request) -> web.Response:
        self._let_in(request)
        number = int(request.match_info["number"])
        return web.json_response(generic(number))

    def _let_in(self, request: web.Request) -> None:
        self.asked.append(request.path_qs)
        pair = base64.b64encode(f"{API_KEY}:{API_SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {pair}":
            raise web.HTTPUnauthorized

    @property
    def options(self) -> dict[str, Any]:
        """Settings with which a connector asks it."""
        return {
            "api_key": API_KEY,
            "api_secret": API_SECRET,
            "api_url": self.url,
            "network": self.network,
        }
