"""Finds the files that two file drops would both take."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.files import alternatives, matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul_connectors.file_drop.settings import Settings

_WILD = re.compile(r"[*?]|\[[^]]*\]")
KINDS = ("fulfillments", "cancellations", "stock_deltas", "stock_levels")


def shared(one: Settings, other: Settings, _is_one_store: bool) -> str:
    """Return which files both connections would take; empty if none.

    The store does not matter: orders of two stores may have the same number. Patterns
    are compared by example names, so unusual overlaps may be missed.
    """
    if _place(one) != _place(other):
        return ""
    both = [kind for kind in KINDS if _overlap(one, other, kind)]
    return f"files {getattr(other, both[0])} in {other.path}" if both else ""


def _place(settings: Settings) -> tuple[str, int, str]:
    """Return the folder's host, port and path, with visible links resolved."""
    if settings.sftp_host:
        path = os.path.normpath(settings.path)
        return settings.sftp_host.lower(), settings.sftp_port, path
    return "", 0, os.path.realpath(settings.path)


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
