"""Puts a file into a folder whole or not at all, also when the power goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.naming import unfinished_name

if TYPE_CHECKING:
    from pathlib import Path


def put_file(target: Path, content: bytes) -> None:
    """Write beside the target, under a name that nobody takes."""
    with _unfinished(target).open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def publish_file(target: Path) -> None:
    """Give what was put there its name."""
    _unfinished(target).replace(target)
    sync_folder(target.parent)


def _unfinished(target: Path) -> Path:
    return target.with_name(unfinished_name(target.name))


def sync_folder(folder: Path) -> None:
    """Make the names in it last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
