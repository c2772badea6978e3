"""Chooses the drop folder's implementation by the settings, and compares locations."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.files import alternatives, matches, own_folders
from backhaul_connectors.file_drop.local_folder import LocalFolder
from backhaul_connectors.file_drop.location_settings import SERVERS, parsed_folder
from backhaul_connectors.file_drop.server_folder import ServerFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from backhaul_connectors.file_drop.files import FileNames
    from backhaul_connectors.file_drop.folder import DropFolder, ExportFolder
    from backhaul_connectors.file_drop.location_settings import FolderUrl
    from backhaul_connectors.file_drop.server_folder import FileServer
    from backhaul_connectors.file_drop.settings import Settings
    from backhaul_sdk.database import DocumentStore

_WILD = re.compile(r"[*?]|\[[^]]*\]")
KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")


def drop_folder(
    settings: Settings,
    names: FileNames,
    documents: Callable[[], DocumentStore],
    clock: Callable[[], float],
) -> DropFolder:
    """Return the drop folder of the settings, not opened.

    `documents` returns the connection's documents once the host has set them. `clock`
    returns seconds that never go back.
    """
    if settings.imap is None:
        return export_folder(settings, names, documents, clock)
    from backhaul_connectors.file_drop.imap import Mailbox

    return Mailbox(settings, settings.imap, names, documents)


def export_folder(
    settings: Settings,
    names: FileNames,
    documents: Callable[[], DocumentStore],
    clock: Callable[[], float],
) -> ExportFolder:
    """Return the folder for exports; a mailbox has none, and its settings refuse them.

    The libraries are imported only here, because each takes a moment and not all are
    installed.
    """
    if settings.folder:
        url = parsed_folder(settings.folder)
        if url.scheme in SERVERS:
            return ServerFolder(_server(settings, url), url.path, settings, names)
        from backhaul_connectors.file_drop.objects import ObjectFolder

        return ObjectFolder(settings, names, documents, clock)
    if settings.sftp_host:
        from backhaul_connectors.file_drop.sftp import SftpServer

        return ServerFolder(SftpServer(settings), str(settings.path), settings, names)
    return LocalFolder(settings.path, names, own_folders(settings.exports))


def _server(settings: Settings, url: FolderUrl) -> FileServer:
    if url.scheme.startswith("webdav"):
        from backhaul_connectors.file_drop.webdav import WebDavServer

        return WebDavServer(settings)
    from backhaul_connectors.file_drop.ftp import FtpServer

    return FtpServer(settings)


def place_of(settings: Settings) -> tuple[str, int, str]:
    """Return the folder's host, port and path, with visible links resolved.

    Two connections with an equal place read the same folder.
    """
    if settings.imap is not None:
        return settings.imap.place
    if settings.folder:
        url = parsed_folder(settings.folder)
        server = settings.endpoint.lower().rstrip("/") or url.host
        host = url.host if settings.endpoint else ""
        return f"{url.scheme}://{server}", url.port or 0, f"{host}/{url.path}"
    if settings.sftp_host:
        path = os.path.normpath(settings.path)
        return settings.sftp_host.lower(), settings.sftp_port, path
    return "", 0, os.path.realpath(settings.path)


def shared(one: Settings, other: Settings, _is_one_store: bool) -> str:
    """Return which files both connections would take; empty if none.

    The store does not matter: orders of two stores may have the same number. Patterns
    are compared by example names, so unusual overlaps may be missed.
    """
    if place_of(one) != place_of(other):
        return ""
    if other.imap is not None:
        # A message is archived as a whole, whatever its other attachments are.
        return f"messages in {other.imap.mailbox} of {other.imap.user}"
    both = [kind for kind in KINDS if _overlap(one, other, kind)]
    return (
        f"files {getattr(other, both[0])} in {other.folder or other.path}"
        if both
        else ""
    )


def _overlap(one: Settings, other: Settings, kind: str) -> bool:
    """Compare with every kind: a file of shipments here may be a count there."""
    mine = getattr(one, kind)
    theirs = [getattr(other, each) for each in KINDS]
    return any(_meet(mine, each) for each in theirs if mine and each)


def _meet(mine: str, theirs: str) -> bool:
    return any(matches(name, theirs) for name in _examples(mine)) or any(
        matches(name, mine) for name in _examples(theirs)
    )


def _examples(pattern: str) -> Iterator[str]:
    """Yield names that match a pattern."""
    for each in alternatives(pattern.lower()):
        yield _WILD.sub("", each)
        yield _WILD.sub("0", each)
