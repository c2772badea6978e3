"""Row `ingest-peers`: our receiver beside others that receive webhooks."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from backhaul.store import database_at
from bench import orders, servers
from bench.peers import MissingError
from bench.results import agree
from bench.serving import Kind
from bench.traffic import Asked
from bench.turns import Target, load_in_turns
from bench.webhook_peers import DebianWebhook, Fastapi, SyncEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.results import Rounds, Scale
    from bench.webhook_peers import Count

PEERS = (Fastapi, SyncEngine, DebianWebhook)


def ingest_peers(scale: Scale) -> Rounds:
    """Load ours, two bare handlers and the peers in turns; each keeps what it took."""
    with (
        tempfile.TemporaryDirectory(dir=scale.directory) as name,
        ExitStack() as running,
    ):
        folder = Path(name)
        targets = _ours_and_bare(scale, running, folder)
        counts: list[tuple[Target, Count]] = [(targets[1], lambda: _kept(folder))]
        remarks: list[str] = []
        for peer in PEERS if scale.peers else ():
            try:
                started = peer(scale.directory / "peers").run(folder)
                port, pid, count = running.enter_context(started)
            except MissingError as error:
                remarks.append(str(error))
                continue
            asked = Asked(_requests(peer.name, scale))
            target = Target(peer.name, port, pid, asked, None, scale.connections)
            counts.append((target, count))
        peers = [target for target, _ in counts[1:]]
        rounds = load_in_turns(scale, [*targets, *peers], None)
        for target, count in counts:
            agree(f"kept by {target.name}", count() or target.answered, target.answered)
    rounds.remarks += remarks
    return rounds


def _ours_and_bare(scale: Scale, running: ExitStack, folder: Path) -> list[Target]:
    targets = []
    for name, kind in (
        ("bare", Kind.BARE),
        ("ours", Kind.KEEPING),
        ("bare again", Kind.BARE),
    ):
        serving = servers.serving(kind, _database(folder, name))
        port, pid = running.enter_context(serving)
        asked = Asked(_requests(name, scale))
        targets.append(Target(name, port, pid, asked, None, scale.connections))
    return targets


def _database(folder: Path, name: str) -> Path:
    return folder / f"{name}.db"


def _kept(folder: Path) -> int:
    return database_at(_database(folder, "ours")).row_counts()["inbox"]


def _requests(name: str, scale: Scale) -> Iterator[bytes]:
    """The same bodies for all, except where a peer takes no others than its own."""
    if name == SyncEngine.name:
        return orders.stripe_requests()
    made = orders.hex_requests if name == DebianWebhook.name else orders.requests
    return itertools.cycle(made(scale.requests))
