"""Row `push-far`: commands to a platform over TLS that is 50 ms away."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench import machine, servers
from bench.pushing import PushedFar
from bench.results import Rounds, agree
from scenes.certificates import of_an_authority

if TYPE_CHECKING:
    from bench.results import Scale

DELAY_SECONDS = 0.05
"""The way to the platform, and as much back."""
SHARE = 100
"""Commands of a round: each of them takes 0.3 s if its connection is new."""


def push_far(scale: Scale) -> Rounds:
    """Send adjustments on new and on kept connections, and by a bare loop."""
    rounds = Rounds()
    commands = max(scale.orders // SHARE, 10)
    with tempfile.TemporaryDirectory(dir=scale.directory) as folder:
        authority, *own = map(str, of_an_authority(Path(folder)))
        os.environ["SSL_CERT_FILE"] = authority
        try:
            for _ in range(scale.rounds):
                _add(rounds, _round(scale, own, commands), commands)
        finally:
            del os.environ["SSL_CERT_FILE"]
    return rounds


def _round(scale: Scale, own: list[str], commands: int) -> PushedFar:
    platform, far = ("platform", "bench.taking", *own), ("proxy", "bench.far_proxy")
    where = machine.load_core
    with (
        servers.running(*platform, where=where) as (port, _),
        servers.running(*far, port.strip(), str(DELAY_SECONDS), where=where) as (at, _),
    ):
        url = f"https://127.0.0.1:{int(at)}"
        numbers = (str(scale.directory), str(commands), "0", "--far")
        output = servers.run("bench.pushing", url, *numbers)
    found = msgspec.json.decode(output, type=PushedFar)
    agree("commands applied, new connections", commands, found.applied)
    agree("commands applied, kept connections", commands, found.applied_kept)
    return found


def _add(rounds: Rounds, found: PushedFar, commands: int) -> None:
    new, kept, bare = found.new.seconds, found.kept.seconds, found.bare.seconds
    rounds.add("rate on kept connections to rate on new ones", "x", new / kept)
    rounds.add("ratio to bare, connections kept by both", "x", bare / kept)
    rounds.add("ours, connections kept", "commands/s", commands / kept)
    rounds.add("ours, a new connection for each", "commands/s", commands / new)
