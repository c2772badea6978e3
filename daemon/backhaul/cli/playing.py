"""What `capture`, `replay` and `trigger` do; loaded when one of them is called."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
from msgspec.structs import asdict

from backhaul.cli import context, showing, signing, writing_out
from backhaul.cli.listings import require_known
from backhaul.control import Control, NoDaemon
from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import BackhaulError
from backhaul.ingest.known_stores import fold_for
from backhaul.shop.client import StoreFacts
from backhaul.store.contract import Arrival
from backhaul.store.sqlite.differences import Difference, differences
from backhaul.store.sqlite.history import History, Wanted
from backhaul.traffic import captures, replaying, samples
from backhaul.traffic.replaying import Receiving

if TYPE_CHECKING:
    from backhaul.settings import Settings
    from backhaul.traffic.disorder import Disorder

MOST_DIFFERENCES = 200
TAKEN = (
    "the daemon takes it for real: it goes into the mirror, and to connectors that"
    " are told such news; whether webhooks come through, backhaul doctor tells without"
)


def capture(out: Path, settings: Settings, wanted: Wanted, *, as_json: bool) -> None:
    """Write what came in to a file, or to standard output where that is `-`."""
    with closing(History(settings.database_file)) as history:
        facts = {
            name: msgspec.json.decode(text, type=StoreFacts)
            for name, text in history.facts().items()
        }
        now = to_text(SystemClock().now())
        head = captures.Head(captures.FORMAT, now, facts)
        with writing_out.output(None if str(out) == "-" else out) as stream:
            count = captures.write(head, history.arrivals(wanted), stream)
            if wanted.store is not None and not count:
                require_known(wanted.store, [*settings.stores, *facts], "--store")
        pruned = history.pruned
    if pruned:
        words = "left out: their bytes went after database.retention_days"
        typer.echo(f"{pruned} events {words}", err=True)
    if as_json:
        showing.json({"file": str(out), "events": count, "left_out": pruned})
    elif str(out) != "-":
        typer.echo(f"{count} events in {out}")


def compare(
    file: Path, disorder: Disorder, into: Path | None, mirror: Path, as_json: bool
) -> None:
    """Play into a database, which is kept where it is named; print how they differ."""
    head = captures.read_head(file)
    run = disorder.apply(captures.read(file))
    if into is not None:
        _compare(run, head, into, mirror, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="backhaul-replay-") as folder:
        _compare(run, head, Path(folder, "replay.db"), mirror, as_json)


def _compare(
    run: list[Arrival], head: captures.Head, into: Path, mirror: Path, as_json: bool
) -> None:
    folding = replaying.replay_into(
        into, run, head.stores, fold_for(head.stores), SystemClock()
    )
    outcomes = asyncio.run(folding)
    found = list(islice(differences(mirror, into), MOST_DIFFERENCES + 1))
    rows = [_told(difference) for difference in found[:MOST_DIFFERENCES]]
    if as_json:
        more = len(found) > MOST_DIFFERENCES
        showing.json({"events": outcomes, "differences": rows, "more": more})
        return
    summary = ", ".join(f"{count} {state}" for state, count in outcomes.items())
    showing.record([("events", summary or "none"), ("compared with", mirror)])
    columns = ("table", "store", "id", "column", "mirror", "replay")
    showing.table(rows, columns, "the mirrors are equal")
    if len(found) > MOST_DIFFERENCES:
        typer.echo(f"and more: only the first {MOST_DIFFERENCES} are shown")


def _told(difference: Difference) -> dict[str, object]:
    row = asdict(difference)
    return row | {"mirror": row.pop("left"), "replay": row.pop("right")}


def send(
    file: Path,
    disorder: Disorder,
    to: str,
    secret_file: Path | None,
    config: Path | None,
    speed: float | None,
    *,
    as_json: bool,
) -> None:
    """Send the deliveries, signed anew, and print how they were answered."""
    run = disorder.apply(captures.read(file))
    sent = replaying.deliveries_to(to, run)
    secret = signing.secret(secret_file, config, lambda known: _signer(known, to, sent))
    sending = replaying.replay_to(Receiving(to, secret), sent, SystemClock(), speed)
    answers = asyncio.run(sending)
    reads = sum(arrival.kind != "delivery" for arrival in run)
    others = len(run) - reads - len(sent)
    if as_json:
        left = {"reads_left_out": reads, "other_stores_left_out": others}
        showing.json({"answers": answers, **left})
    else:
        told = ", ".join(
            f"{count} answered {status}" for status, count in answers.items()
        )
        left_out = [("reads left out", reads), ("other stores left out", others)]
        showing.record([("deliveries", told or "none"), *left_out])
    if set(answers) - {200}:
        raise BackhaulError("not every delivery was taken")


def _signer(settings: Settings, to: str, sent: list[Arrival]) -> str:
    """Return the store of the settings whose secret signs what is sent."""
    for name in (replaying.named_store(to), *{arrival.store for arrival in sent}):
        if name in settings.stores:
            return name
    if len(settings.stores) == 1:
        return next(iter(settings.stores))
    known = ", ".join(settings.stores)
    raise BackhaulError(
        f"no store is called as in {to} or in the capture; there are {known}: end the"
        " address with /webhooks/STORE, or sign with --secret-file"
    )


def trigger(
    topic: str,
    config: Path | None,
    store: str | None,
    to: str | None,
    secret_file: Path | None,
    data: Path | None,
    *,
    as_json: bool,
) -> None:
    """Sign a sample event, or `data`, and send it. Raises BackhaulError."""
    if data is None and topic not in samples.SAMPLES:
        known = ", ".join(samples.SAMPLES)
        raise BackhaulError(f"no sample of {topic!r}; there are {known}, or use --data")
    now = SystemClock().now()
    body = samples.event(topic, StoreFacts(), now) if data is None else _file(data)
    address = to or _daemons(context.settings(config), store)
    secret = signing.secret(
        secret_file, config, lambda known: context.one_store(known, store)
    )
    receiving = Receiving(address, secret)
    arrival = Arrival(store or "", "delivery", topic, to_text(now), b"{}", body)
    (status,) = asyncio.run(replaying.replay_to(receiving, [arrival], SystemClock()))
    if as_json:
        showing.json({"topic": topic, "to": address, "status": status})
    else:
        typer.echo(f"{topic} to {address}: {status}")
    if status != 200:
        raise BackhaulError(f"the receiver answered {status}")
    if to is None:
        showing.note(TAKEN)


def _daemons(settings: Settings, store: str | None) -> str:
    """Return the address at which the running daemon takes a store's webhooks."""
    name = context.one_store(settings, store)
    try:
        live = Control(settings.state_dir).get("/api/status")
    except NoDaemon as error:
        raise BackhaulError(f"{error}, or say --to") from None
    return f"{live['public_url']}/webhooks/{name}"


def _file(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BackhaulError(f"{path}: cannot be read: {error.strerror}") from None
