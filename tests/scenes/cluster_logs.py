"""The log entries of the daemons of a cluster, read as they are written."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from scenes.cluster import Cluster

TAKEN, SILENT, LOST = "store.taken", "member.silent", "database.commits_lost"
ACTIONS = (TAKEN, SILENT, LOST)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a log; `at` is a time of `time.time`."""

    at: float
    action: str
    store: str


@dataclass(slots=True)
class ClusterLogs:
    """Follows the logs of all runs of all daemons."""

    cluster: Cluster
    entries: list[Entry] = field(default_factory=list)
    """Entries whose action is in `ACTIONS`."""
    _read: dict[Path, int] = field(default_factory=dict)

    def since(self, at: float, action: str) -> Sequence[Entry]:
        """Return the entries after a time, the oldest first."""
        for member in self.cluster.members:
            for path in member.replica.logs:
                self.entries += self._new(path)
        found = [e for e in self.entries if e.action == action and e.at > at]
        return sorted(found, key=lambda each: each.at)

    def _new(self, path: Path) -> Iterator[Entry]:
        """Yield the new complete lines of a file."""
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read[path] = self._read.get(path, 0) + len(line)
                if line.startswith(b"{") and any(a.encode() in line for a in ACTIONS):
                    yield _entry(json.loads(line))


def _entry(found: dict[str, str]) -> Entry:
    at = datetime.fromisoformat(found["time"]).timestamp()
    return Entry(at, found["action"], found.get("store", ""))
