"""`capture`, `replay`, `trigger`, redaction of captures; imported on use."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer
from msgspec.structs import asdict

from backhaul.app.control_socket import Control, NoDaemon
from backhaul.cli import context, output, query, secrets
from backhaul.cli.events import require_known
from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import BackhaulError, Unusable
from backhaul.ingest.topics import fold_for
from backhaul.maintenance.customer_erasure import CustomerEraser
from backhaul.platform.client import StoreFacts
from backhaul.platform.personal_data import Person
from backhaul.store.contract import Arrival
from backhaul.store.sqlite.differences import Difference, differences
from backhaul.store.sqlite.history import History, Wanted
from backhaul.traffic import capture_files, sample_events
from backhaul.traffic.capture_files import ReplayTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.settings import Settings
    from backhaul.traffic.network_faults import NetworkFaults


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
        head = capture_files.CaptureHeader(capture_files.FORMAT, now, facts)
        with query.open_output(None if str(out) == "-" else out) as stream:
            count = capture_files.write(head, history.arrivals(wanted), stream)
            if wanted.store is not None and not count:
                require_known(wanted.store, [*settings.stores, *facts], "--store")
        pruned = history.pruned
    if pruned:
        words = "left out: their bytes went after database.retention_days"
        typer.echo(f"{pruned} events {words}", err=True)
    if as_json:
        output.json({"file": str(out), "events": count, "left_out": pruned})
    elif str(out) != "-":
        typer.echo(f"{count} events in {out}")


def compare(
    file: Path, disorder: NetworkFaults, into: Path | None, mirror: Path, as_json: bool
) -> None:
    """Play into a database, which is kept where it is named; print how they differ."""
    head = capture_files.read_head(file)
    run = disorder.apply(capture_files.read(file))
    if into is not None:
        _compare(run, head, into, mirror, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="backhaul-replay-") as folder:
        _compare(run, head, Path(folder, "replay.db"), mirror, as_json)


def _compare(
    run: list[Arrival],
    head: capture_files.CaptureHeader,
    into: Path,
    mirror: Path,
    as_json: bool,
) -> None:
    folding = capture_files.replay_into(
        into, run, head.stores, fold_for(head.stores), SystemClock()
    )
    outcomes = asyncio.run(folding)
    found = list(islice(differences(mirror, into), MOST_DIFFERENCES + 1))
    rows = [_told(difference) for difference in found[:MOST_DIFFERENCES]]
    if as_json:
        more = len(found) > MOST_DIFFERENCES
        output.json({"events": outcomes, "differences": rows, "more": more})
        return
    summary = ", ".join(f"{count} {state}" for state, count in outcomes.items())
    output.record([("events", summary or "none"), ("compared with", mirror)])
    columns = ("table", "store", "id", "column", "mirror", "replay")
    output.table(rows, columns, "the mirrors are equal")
    if len(found) > MOST_DIFFERENCES:
        typer.echo(f"and more: only the first {MOST_DIFFERENCES} are shown")


def _told(difference: Difference) -> dict[str, object]:
    row = asdict(difference)
    return row | {"mirror": row.pop("left"), "replay": row.pop("right")}


def send(
    file: Path,
    disorder: NetworkFaults,
    to: str,
    secret_file: Path | None,
    config: Path | None,
    speed: float | None,
    *,
    as_json: bool,
) -> None:
    """Send the deliveries, signed anew, and print how they were answered."""
    run = disorder.apply(capture_files.read(file))
    sent = capture_files.deliveries_to(to, run)
    secret = secrets.secret(secret_file, config, lambda known: _signer(known, to, sent))
    sending = capture_files.replay_to(
        ReplayTarget(to, secret), sent, SystemClock(), speed
    )
    answers = asyncio.run(sending)
    reads = sum(arrival.kind != "delivery" for arrival in run)
    others = len(run) - reads - len(sent)
    if as_json:
        left = {"reads_left_out": reads, "other_stores_left_out": others}
        output.json({"answers": answers, **left})
    else:
        told = ", ".join(
            f"{count} answered {status}" for status, count in answers.items()
        )
        left_out = [("reads left out", reads), ("other stores left out", others)]
        output.record([("deliveries", told or "none"), *left_out])
    if set(answers) - {200}:
        raise BackhaulError("not every delivery was taken")


def _signer(settings: Settings, to: str, sent: list[Arrival]) -> str:
    """Return the store of the settings whose secret signs what is sent."""
    for name in (capture_files.named_store(to), *{arrival.store for arrival in sent}):
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
    if data is None and topic not in sample_events.SAMPLES:
        known = ", ".join(sample_events.SAMPLES)
        raise BackhaulError(f"no sample of {topic!r}; there are {known}, or use --data")
    now = SystemClock().now()
    body = (
        sample_events.event(topic, StoreFacts(), now) if data is None else _file(data)
    )
    address = to or _daemons(context.settings(config), store)
    secret = secrets.secret(
        secret_file, config, lambda known: context.one_store(known, store)
    )
    receiving = ReplayTarget(address, secret)
    arrival = Arrival(store or "", "delivery", topic, to_text(now), b"{}", body)
    (status,) = asyncio.run(
        capture_files.replay_to(receiving, [arrival], SystemClock())
    )
    if as_json:
        output.json({"topic": topic, "to": address, "status": status})
    else:
        typer.echo(f"{topic} to {address}: {status}")
    if status != 200:
        raise BackhaulError(f"the receiver answered {status}")
    if to is None:
        output.note(TAKEN)


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


def eraser_of(customer_id: str, texts: Iterable[str]) -> CustomerEraser:
    """Return what erases a person who was told of by these texts."""
    persons = [Person(email=t) if "@" in t else Person(name=t) for t in texts]
    return CustomerEraser(customer_id, persons)


def redact_captures(folder: Path, store: str, eraser: CustomerEraser) -> list[Path]:
    """Rewrite every capture that tells of a store's customer; return which those were.

    A file takes the place of the old one whole and on the disk, or not at all. One that
    is damaged, or cannot be written, stays as it is.
    """
    found = sorted(folder.rglob("*.jsonl"))
    return [path for path in found if _redact(path, store, eraser)]


def _redact(path: Path, store: str, eraser: CustomerEraser) -> bool:
    unfinished = path.with_name(f"{path.name}.new")
    try:
        head = capture_files.read_head(path)
        lefts = (_left(event, store, eraser) for event in capture_files.read(path))
        if all(left is None for left in lefts):
            return False
        with unfinished.open("w", encoding="utf-8", newline="\n") as stream:
            shutil.copymode(path, unfinished)
            capture_files.write(
                head, _redacted(capture_files.read(path), store, eraser), stream
            )
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(path)
    except (Unusable, OSError):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        return False
    _sync(path.parent)
    return True


def _redacted(
    events: Iterable[Arrival], store: str, eraser: CustomerEraser
) -> Iterator[Arrival]:
    for event in events:
        left = _left(event, store, eraser)
        yield event if left is None else event._replace(body=left)


def _left(event: Arrival, store: str, eraser: CustomerEraser) -> bytes | None:
    """Return what is left of a body; None where it says nothing of the person."""
    return eraser.body(event.topic, event.body) if event.store == store else None


def _sync(folder: Path) -> None:
    """Make the new name of a file last a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
