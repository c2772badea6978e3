"""Shows the key of an SFTP server, for a person to confirm before it is trusted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import asyncssh
from msgspec import Struct

from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 22


class HostKey(Struct, frozen=True):
    """What a server shows: anybody between us and it could show another."""

    where: str
    fingerprint: str
    line: str
    """What to set as `sftp_host_key`."""


async def shown_by(name: str, options: Mapping[str, object]) -> HostKey:
    """Ask the server of an instance for its key; nobody logs in."""
    host, port = options.get("sftp_host"), int(str(options.get("sftp_port") or PORT))
    if not host:
        raise BackhaulError(f"{name} has no sftp_host: it uses no SFTP server")
    where = f"{host}:{port}"
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
    try:
        key = await asyncssh.get_server_host_key(str(host), port, config=None)
    except (asyncssh.Error, OSError) as error:
        raise BackhaulError(f"{where} cannot be reached: {error}") from None
    if key is None:
        raise BackhaulError(f"{where} shows no key")
    public = key.export_public_key().decode().split()
    return HostKey(where, str(key.get_fingerprint()), " ".join(public[:2]))
