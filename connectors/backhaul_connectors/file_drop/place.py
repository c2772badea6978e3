"""Where files lie: what the connector asks of a folder here or on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_connectors.file_drop.copies import Copies
    from backhaul_connectors.file_drop.found import Fingerprint, Found, Source
    from backhaul_connectors.file_drop.listing import Listing


class Place(Protocol):
    """A drop folder. Whatever fails, except as said, means that it is down."""

    failures: tuple[type[Exception], ...]
    """What its methods raise where the place itself is the trouble."""

    async def check(self) -> None:
        """Raise CheckFailed if work could not begin. Changes nothing."""

    async def open(self) -> None:
        """Get ready, and make the folders that files are moved to."""

    async def close(self) -> None:
        """Give everything back. Safe to call twice."""

    async def listing(self) -> Listing:
        """Return what lies in the folder."""

    async def status(self, folder: str, name: str) -> Fingerprint | None:
        """Return the fingerprint of a regular file; None where there is none."""

    async def files(self, folder: str) -> Mapping[str, Fingerprint]:
        """Return the regular files in one of our own folders."""

    async def fetch(self, file: Found, copies: Copies) -> Source:
        """Return its content: itself, or a copy of it. May raise Changed."""

    async def free_name(self, folder: str, file: Found) -> str:
        """Return the first name for the file that nothing in the folder has."""

    async def archive(self, file: Found, name: str) -> None:
        """Move a file that was taken to `archive/name`, or a free name beside it.

        Nothing happens if that was done before.
        """

    async def hold(self, file: Found, reason: str) -> None:
        """Move a file away untouched, with the reason beside it."""

    async def read(self, folder: str, name: str) -> bytes | None:
        """Return a file's content; None where there is none."""

    async def write(self, folder: str, name: str, content: bytes) -> None:
        """Put a file there whole or not at all, in place of an older one."""

    async def put(self, folder: str, name: str, content: bytes) -> None:
        """Write a file, safely on disk, under a name that nobody takes."""

    async def publish(self, folder: str, name: str) -> None:
        """Give the file that was put there its name."""

    async def exists(self, folder: str, name: str) -> bool:
        """Tell whether a file is there; fails where that cannot be seen."""
