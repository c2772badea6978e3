"""Rows `reference-…`: the reference server beside its peers and a bare handler."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import machine, servers, traffic
from bench.peers import JsonServer, Localstripe, MissingError
from bench.results import agree
from bench.shop import Shop, ask, open_shop
from bench.traffic import OBJECTS, PAGE, Catalogue, Traffic
from bench.turns import Target, load_in_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.results import Rounds, Scale

    Asking = Callable[[Catalogue], Traffic]

EMPTIER = ", nearly empty"
TOPICS = ["orders/create", "customers/create", "inventory/level_update"]
"""All that a placed order tells of."""


def page(scale: Scale) -> Rounds:
    """A page of 50 products."""
    return _compare(scale, traffic.page)


def page_uncached(scale: Scale) -> Rounds:
    """The same page, rendered again each time, as it is after each commit."""
    return _compare(scale, traffic.page_uncached)


def product(scale: Scale) -> Rounds:
    """Single products."""
    return _compare(scale, traffic.product)


def order(scale: Scale) -> Rounds:
    """Orders placed and their mails written; nobody subscribes."""
    return _compare(scale, traffic.order, written="orders")


def adjustment(scale: Scale) -> Rounds:
    """Stock adjusted."""
    return _compare(scale, traffic.adjustment, written="history")


def order_webhooks(scale: Scale) -> Rounds:
    """Orders placed while all that they tell of is delivered."""
    with _shop(scale) as shop, ExitStack() as running:
        command = "receiver", "bench.receiving"
        receiver = servers.running(*command, where=machine.load_core)
        port = int(running.enter_context(receiver)[0])
        wanted = {"address": f"http://127.0.0.1:{port}/", "topics": TOPICS}
        shop.ask("/api/v1/webhooks", shop.office, wanted)
        targets = _ours_and_bare(running, shop, traffic.order(_catalogue(shop, 0)))
        rounds = load_in_turns(scale, targets, "orders")
        _, received = ask(port, "/", {})
        agree("events received", shop.count("delivery"), json.loads(received))
    return rounds


def _compare(scale: Scale, asking: Asking, written: str | None = None) -> Rounds:
    """Load ours, two bare handlers and the peers in turns."""
    with _shop(scale) as shop, ExitStack() as running:
        catalogue = _catalogue(shop, OBJECTS if scale.peers else 0)
        targets = _ours_and_bare(running, shop, asking(catalogue))
        peers, remarks = _peers(scale, running, catalogue, asking, written)
        rounds = load_in_turns(scale, [*targets, *peers], written)
    rounds.remarks += remarks
    return rounds


@contextmanager
def _shop(scale: Scale) -> Iterator[Shop]:
    with (
        tempfile.TemporaryDirectory(dir=scale.directory) as folder,
        open_shop(Path(folder), scale.fixture) as shop,
    ):
        yield shop


def _catalogue(shop: Shop, orders: int) -> Catalogue:
    return Catalogue(
        shop,
        shop.every("/storefront/products", shop.shopper, OBJECTS),
        shop.every("/api/v1/orders", shop.office, orders),
    )


def _ours_and_bare(running: ExitStack, shop: Shop, asked: Traffic) -> list[Target]:
    """Ours between two bare handlers, which answer what ours answered once."""
    status, body = asked.sample()
    file = shop.folder / "answer"
    file.write_bytes(body)
    targets = [Target("ours", shop.port, shop.pid, asked.ours, shop)]
    for name in ("bare", "bare again"):
        serving = servers.running(name, "bench.answering", str(file), str(status))
        line, pid = running.enter_context(serving)
        targets.append(Target(name, int(line), pid, asked.ours))
    before, ours, after = targets[1], targets[0], targets[2]
    return [before, ours, after]


def _peers(
    scale: Scale,
    running: ExitStack,
    catalogue: Catalogue,
    asking: Asking,
    written: str | None,
) -> tuple[list[Target], list[str]]:
    """The peers that can be had, and why others cannot; for writes emptier ones too.

    Both write all that they hold with each change: the fewer, the faster.
    """
    if not scale.peers:
        return [], []
    fewer = replace(catalogue, products=catalogue.products[:PAGE], orders=())
    held = {"": catalogue} | ({EMPTIER: fewer} if written else {})
    targets: list[Target] = []
    remarks: list[str] = []
    for start in (_json_server, _localstripe):
        try:
            targets += [start(scale, running, asking, *one) for one in held.items()]
        except MissingError as error:
            remarks.append(str(error))
    return targets, remarks


def _json_server(
    scale: Scale, running: ExitStack, asking: Asking, suffix: str, held: Catalogue
) -> Target:
    server = JsonServer(scale.directory / "peers")
    folder = held.shop.folder / f"json-server{suffix}"
    port, pid = running.enter_context(server.run(folder, held.held_by_json_server()))
    return Target(f"json-server{suffix}", port, pid, asking(held).json_server)


def _localstripe(
    scale: Scale, running: ExitStack, asking: Asking, suffix: str, held: Catalogue
) -> Target:
    server = Localstripe(scale.directory / "peers")
    folder = held.shop.folder / f"localstripe{suffix}"
    port, pid = running.enter_context(server.run(folder, held.held_by_localstripe()))
    return Target(f"localstripe{suffix}", port, pid, asking(held).localstripe)
