"""Row `push`: commands dispatched, beside a bare loop that posts the same bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench import machine, servers
from bench.pushing import Pushed
from bench.results import Rounds, agree

if TYPE_CHECKING:
    from bench.results import Scale

SHARE = 10
"""Commands of a round: so much less than the orders of a fold."""


def push(scale: Scale) -> Rounds:
    """Send adjustments to a platform that takes each at once, a process of its own."""
    rounds = Rounds()
    commands = max(scale.orders // SHARE, 10)
    backlog = max(scale.mirrored // SHARE, commands)
    command, where = ("platform", "bench.taking"), machine.load_core
    with servers.running(*command, where=where) as (port, _):
        url = f"http://127.0.0.1:{int(port)}"
        for _ in range(scale.rounds):
            numbers = (str(commands), str(backlog))
            output = servers.run("bench.pushing", url, str(scale.directory), *numbers)
            found = msgspec.json.decode(output, type=Pushed)
            agree("commands applied", commands, found.applied)
            beside = found.applied_beside_blocked
            agree("commands applied beside a blocked lane", commands, beside)
            _add(rounds, found, commands)
    return rounds


def _add(rounds: Rounds, found: Pushed, commands: int) -> None:
    bare, push, kept = found.bare, found.push, found.bare_kept_alive
    rounds.add("ratio to bare", "x", bare.seconds / push.seconds)
    processor = bare.processor_seconds / push.processor_seconds
    rounds.add("ratio to bare by processor time", "x", processor)
    rounds.add("ratio to bare, connections kept", "x", kept.seconds / push.seconds)
    backlog = push.seconds / found.backlog.seconds
    rounds.add("rate with a backlog to rate without", "x", backlog)
    blocked = push.seconds / found.blocked.seconds
    rounds.add("rate beside a blocked lane to rate without", "x", blocked)
    rounds.add("ours", "commands/s", commands / push.seconds)
    rounds.add("bare", "requests/s", commands / bare.seconds)
    rounds.add("memory, with the backlog", "MB", found.memory_bytes / 1e6)
