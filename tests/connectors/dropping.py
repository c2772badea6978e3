"""A drop folder in a test: puts files there and runs the connector on them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from backhaul_connectors.file_drop import FileDrop
from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Bad, Fulfillment, Rejection
from backhaul_sdk.testing import MemoryDocuments, MemoryHost

if TYPE_CHECKING:
    from pathlib import Path

    from backhaul_sdk import Batch, Record

FULFILLMENTS = "order,tracking_company,tracking_number\n"
CANCELLATIONS = "order,restock,reason\n"
STOCK_DELTAS = "sku,adjustment,reason\n"


@dataclass(slots=True)
class Drop:
    """The folder, and the host that takes what is in it."""

    path: Path
    options: dict[str, Any] = field(default_factory=dict)
    host: MemoryHost = field(default_factory=MemoryHost)
    seconds: float = 0.0

    def put(self, name: str, content: str | bytes) -> Path:
        """Put a file there, whole, as a program that renames would."""
        data = content.encode() if isinstance(content, str) else content
        unfinished = self.path / f".{name}.tmp"
        unfinished.write_bytes(data)
        return unfinished.rename(self.path / name)

    def connector(self) -> FileDrop:
        """Return a new connector, as after a restart."""
        options = {
            **({} if {"folder", "imap"} & {*self.options} else {"path": self.path}),
            "unchanged_seconds": 0,
            "incomplete_seconds": 0,
            **self.options,
        }
        settings = Settings.model_validate(options)
        return FileDrop("drop", settings, clock=lambda: self.seconds)

    async def pull(self) -> MemoryHost:
        """Take everything with a new connector."""
        connector = self.connector()
        await connector.open()
        await self.host.pull(connector)
        return self.host

    async def batches(self) -> list[Batch]:
        """Return what would be handed over, storing and acknowledging nothing."""
        connector = self.connector()
        await connector.open()
        return [batch async for batch in connector.pull(self.host.cursor)]

    async def report(self, *rejections: Rejection) -> None:
        """Tell the connector of rejected rows; of all bad ones unless named."""
        every = map(rejection_of, self.host.bad.values())
        await self.connector().report(rejections or tuple(every))

    def records(self) -> list[Record]:
        return list(self.host.records.values())

    def reasons(self) -> list[str]:
        return [bad.reason for bad in self.host.bad.values()]

    def files(self) -> set[str]:
        """Return the paths of all files below the folder."""
        paths = (path for path in self.path.rglob("*") if path.is_file())
        return {str(path.relative_to(self.path)) for path in paths}


@dataclass(slots=True)
class BucketDrop(Drop):
    """A folder that the connector reads as objects.

    Its documents, which outlive a restart, say which database this is.
    """

    documents: MemoryDocuments = field(default_factory=MemoryDocuments)

    def connector(self) -> FileDrop:
        found = super(BucketDrop, self).connector()
        found.documents = self.documents
        return found


def rejection_of(record: Record | Bad, reason: str = "") -> Rejection:
    """Return what the host makes of a bad row, or of a record it cannot match."""
    said = record.reason if isinstance(record, Bad) else reason
    return Rejection(record.key, record.raw, said, record.locator)


class KilledServer(Protocol):
    """A server of a test."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Killed:
    """The part of a bench whose counterpart is unplugged by killing its server."""

    _server: KilledServer

    async def unplug(self) -> None:
        self._server.kill()

    async def plug_in(self) -> None:
        self._server.start()


async def swap_while_it_is_archived(drop: Drop, later: str) -> None:
    """Replace a file just before its rename: what was not read must stay.

    `later` has other rows than the file. Only a server that keeps times recognizes a
    content of the same size.
    """
    drop.put("fulfillments.csv", f"{FULFILLMENTS}1001,DHL,A\n")
    connector = drop.connector()
    await connector.open()
    server = cast("Any", connector)._place._server
    rename = server.rename

    async def swap(source: str, target: str, *, replace: bool) -> None:
        server.rename = rename
        path = drop.put("fulfillments.csv", later)
        os.utime(path, (1, 1))
        await rename(source, target, replace=replace)

    server.rename = swap
    await drop.host.pull(connector)
    assert (drop.path / "fulfillments.csv").read_text() == later
    assert drop.files() == {"fulfillments.csv"}
    await drop.host.pull(connector)
    await connector.close()
    assert drop.files() == {"archive/fulfillments.csv"}
    orders = [r.order for r in drop.records() if isinstance(r, Fulfillment)]
    assert orders == ["1001", "1002"]
