"""Row `scan-lines`: scans over TCP until they are durable, beside a bare reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench import servers
from bench.results import Rounds, agree
from bench.scanning import CONNECTIONS, Scanned

if TYPE_CHECKING:
    from bench.results import Scale


def scan_lines(scale: Scale) -> Rounds:
    """Send lines over a few connections, as many at once as they hold."""
    rounds = Rounds()
    count = scale.orders // CONNECTIONS * CONNECTIONS
    for _ in range(scale.rounds):
        output = servers.run("bench.scanning", str(scale.directory), str(count))
        found = msgspec.json.decode(output, type=Scanned)
        agree("records kept", count, found.kept)
        rounds.add("ratio to bare", "x", found.bare_seconds / found.seconds)
        processor = found.bare_cpu_seconds / found.cpu_seconds
        rounds.add("ratio to bare by processor time", "x", processor)
        rounds.add("ours", "scans/s", count / found.seconds)
        busy = count / found.cpu_seconds
        rounds.add("ours by processor time", "scans/s", busy)
        rounds.add("bare", "scans/s", count / found.bare_seconds)
    return rounds
