"""A device in a test: posts scans to the scanner's route."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backhaul_connectors.scanner import Scanner
from backhaul_connectors.scanner.settings import Settings
from backhaul_sdk import HttpRequest, HttpResponse
from backhaul_sdk.testing import MemoryDocuments, MemoryHost

if TYPE_CHECKING:
    from backhaul_sdk import DocumentStore, Emit, Record

TOKEN = "dock-token-0123456789abcdef"
OTHER_TOKEN = "belt-token-0123456789abcdef"
DEVICES = {"dock": TOKEN, "belt": OTHER_TOKEN}


@dataclass(slots=True)
class Dock:
    """A scanner intake with its devices, and the host behind it."""

    options: dict[str, Any] = field(default_factory=dict)
    host: MemoryHost = field(default_factory=MemoryHost)
    seconds: float = 0.0
    entrance_seconds: float = 10.0
    emit: Emit | None = None
    documents: DocumentStore = field(default_factory=MemoryDocuments)
    sent: list[bytes] = field(default_factory=list)
    _scanner: Scanner | None = None

    def scanner(self) -> Scanner:
        """Return a new connector, as after a restart."""
        settings = Settings.model_validate({"devices": DEVICES, **self.options})
        self._scanner = Scanner(
            "dock",
            settings,
            wall=lambda: 1e9 + self.seconds,
            entrance_seconds=self.entrance_seconds,
        )
        self._scanner.documents = self.documents
        return self._scanner

    async def open(self) -> Scanner:
        """Open a new connector, with the host listening."""
        scanner = self.scanner()
        await scanner.open()
        await scanner.listen(self.emit or self.host.emit)
        return scanner

    async def close(self) -> None:
        if self._scanner is not None:
            await self._scanner.close()

    async def restart(self) -> Scanner:
        await self.close()
        return await self.open()

    async def pull(self) -> None:
        """Do what the host does every few seconds."""
        if self._scanner is not None:
            await self.host.pull(self._scanner)

    async def scan(self, **members: object) -> HttpResponse:
        """Post a scan as the device `dock`."""
        return await self.post(json.dumps(members).encode())

    async def post(
        self, body: bytes, token: str | None = TOKEN, **headers: str
    ) -> HttpResponse:
        """Post a body with a device's token."""
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self.sent.append(body)
        request = HttpRequest("POST", "/scan", headers, body)
        scanner = self._scanner or self.scanner()
        route, *_ = await scanner.listen(self.emit or self.host.emit)
        return await route.handler(request)

    def records(self) -> list[Record]:
        return list(self.host.records.values())
