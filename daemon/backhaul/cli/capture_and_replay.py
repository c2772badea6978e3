"""`capture`, `replay`, `trigger`, redaction of captures; imported on use."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import msgspec
import typer
from msgspec.structs import asdict

from backhaul.app.control_socket import Control, NoDaemon
from backhaul.cli import context, output, query, received, secrets
from backhaul.cli.context import require_known
from backhaul.cli.daemon_client import ask
from backhaul.core.clock import SystemClock, to_text
from backhaul.errors import BackhaulError, Unusable
from backhaul.ingest.topics import fold_for
from backhaul.maintenance.customer_erasure import CustomerEraser
from backhaul.observe.redaction import printable
from backhaul.platform.client import StoreFacts
from backhaul.platform.personal_data import CustomerIdentity
from backhaul.settings.values import without_password
from backhaul.store import database_at
from backhaul.store.inbox import Arrival
from backhaul.traffic import capture_files, sample_events
from backhaul.traffic.capture_files import NetworkFaults, ReplayTarget

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from backhaul.settings import Settings
    from backhaul.store import Place
    from backhaul.store.export_and_query import EventFilter
    from backhaul.store.filters import Filter
    from backhaul.store.mirror import Difference
    from backhaul.store.read_records import EventDetail


MOST_DIFFERENCES = 200
SHORT_LINE = 76
TAKEN = (
    "the daemon takes the sample for a real event: it is now in the mirror and goes to"
    " connectors; backhaul doctor tests whether webhooks arrive without such an effect"
)


def capture(
    out: Path, settings: Settings, selected: EventFilter, *, as_json: bool
) -> None:
    """Write the selected events to a file, or to standard output if it is `-`."""
    received.move_before_read(settings)
    with database_at(settings.place).inbox_export() as export:
        facts = {
            name: msgspec.json.decode(text, type=StoreFacts)
            for name, text in export.facts().items()
        }
        now = to_text(SystemClock().now())
        head = capture_files.CaptureHeader(capture_files.FORMAT, now, facts)
        file = None if str(out) == "-" else out
        with query.open_output(file, overwrite=False) as stream:
            count = capture_files.write(head, export.arrivals(selected), stream)
            if selected.store is not None and not count:
                require_known(selected.store, [*settings.stores, *facts], "--store")
        pruned = export.pruned
    if pruned:
        words = "left out: their bodies were deleted after database.retention_days"
        typer.echo(f"{pruned} events {words}", err=True)
    if as_json:
        output.json({"file": str(out), "events": count, "left_out": pruned})
    elif str(out) != "-":
        typer.echo(f"{count} events in {out}")


def compare(
    file: Path, disorder: NetworkFaults, into: Path | None, mirror: Place, as_json: bool
) -> None:
    """Replay into a database, kept if it is named, and print the differences."""
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
    mirror: Place,
    as_json: bool,
) -> None:
    folding = capture_files.replay_into(
        into, run, head.stores, fold_for(head.stores), SystemClock()
    )
    outcomes = asyncio.run(folding)
    found = list(islice(database_at(mirror).differences(into), MOST_DIFFERENCES + 1))
    rows = [_row(difference) for difference in found[:MOST_DIFFERENCES]]
    if as_json:
        more = len(found) > MOST_DIFFERENCES
        output.json({"events": outcomes, "differences": rows, "more": more})
        return
    summary = ", ".join(f"{count} {state}" for state, count in outcomes.items())
    output.record([("events", summary or "none"), ("compared with", _shown(mirror))])
    if not rows:
        typer.echo("the mirrors are equal")
    _print_differences(found[:MOST_DIFFERENCES])
    if len(found) > MOST_DIFFERENCES:
        typer.echo(f"and more: only the first {MOST_DIFFERENCES} are shown")


def _print_differences(found: list[Difference]) -> None:
    """Print a heading for each object, and below it each value that differs."""
    for (table, store, id_), each in groupby(found, lambda d: (d.table, d.store, d.id)):
        typer.echo(printable(f"{table} {id_} of store {store}"))
        for difference in each:
            for line in _sides(difference):
                typer.echo(f"  {printable(line)}")


def _sides(difference: Difference) -> Iterator[str]:
    """Yield what each mirror has, on one line if both are short."""
    left, right = difference.left, difference.right
    if not difference.column:
        yield "only in the replay" if left is None else "missing in the replay"
        return
    name = difference.column
    line = f"{name}: mirror {_value(left)}, replay {_value(right)}"
    if len(line) <= SHORT_LINE:
        yield line
        return
    yield f"{name}:"
    yield f"  mirror {_value(left)}"
    yield f"  replay {_value(right)}"


def _value(value: object) -> str:
    return "nothing" if value is None else str(value)


def _row(difference: Difference) -> dict[str, object]:
    row = asdict(difference)
    return row | {"mirror": row.pop("left"), "replay": row.pop("right")}


def _shown(place: Place) -> str:
    return without_password(place) if isinstance(place, str) else str(place)


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
    """Send the deliveries with new signatures and print the response statuses."""
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
        statuses = ", ".join(
            f"{count} answered {status}" for status, count in answers.items()
        )
        left_out = [("reads left out", reads), ("other stores left out", others)]
        output.record([("deliveries", statuses or "none"), *left_out])
    if set(answers) - {200}:
        raise BackhaulError(
            "the receiver did not answer every webhook with 200; the output shows"
            " the status of each answer"
        )


def _signer(settings: Settings, to: str, sent: list[Arrival]) -> str:
    """Return the store of the settings whose secret signs the deliveries."""
    for name in (capture_files.named_store(to), *{arrival.store for arrival in sent}):
        if name in settings.stores:
            return name
    if len(settings.stores) == 1:
        return next(iter(settings.stores))
    known = ", ".join(settings.stores)
    raise BackhaulError(
        f"Backhaul cannot choose a secret to sign the webhooks: neither {to} nor"
        f" the capture names a store of the configuration ({known}). End the URL"
        " with /webhooks/STORE, or give --secret-file"
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
        raise BackhaulError(
            f"there is no sample of the topic {topic!r}; use one of {known}, or"
            " give the body with --data"
        )
    now = SystemClock().now()
    body = (
        sample_events.event(topic, StoreFacts(), now) if data is None else _file(data)
    )
    address = to or _address_of_daemon(context.settings(config), store)
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
        raise BackhaulError(
            f"the receiver answered the webhook with status {status}, not with 200"
        )
    if to is None:
        output.note(TAKEN)


def require_test_store(settings: Settings, store: str | None, topic: str) -> None:
    """Raise BackhaulError if a sample would go to the daemon of a live store."""
    name = context.one_store(settings, store)
    if settings.stores[name].test_store:
        return
    takers = [
        connection
        for connection, each in settings.connectors.items()
        if each.enabled and each.store == name
    ]
    reach = f", and reach these connections: {', '.join(takers)}" if takers else ""
    raise BackhaulError(
        f"nothing was sent, because {name} is a live store: the daemon would process"
        f" the sample of {topic} like a real event. It would change the mirror{reach}."
        " To send the sample to your own program, give --to URL. To test whether"
        " webhooks arrive, run: backhaul doctor. If this is a test store, set"
        f" stores.{name}.test_store = true. To send it all the same, add --live"
    )


def listen(
    settings: Settings,
    wanted: Filter,
    to: str | None,
    *,
    with_body: bool,
    as_json: bool,
) -> None:
    """Show the webhooks that arrive, and forward each, until Ctrl-C."""
    if to is not None:
        _refuse_loop(settings, to)
    if not as_json:
        passed_on = f" and forwarding them to {to}" if to else ""
        output.note(f"listening for webhooks{passed_on}; Ctrl-C ends this")

    def read(limit: int) -> list[_Arrived]:
        with context.reader_of(settings) as known:
            rows = known.events(wanted, limit)
        return [_Arrived(row.id, row.source) for row in rows]

    seconds = capture_files.TIMEOUT_SECONDS
    with httpx.Client(timeout=seconds, trust_env=False) as client:
        for rows in output.changes(read, shown=0):
            for row in rows:
                if row["source"] == "delivery":
                    event = _event(settings, row["id"])
                    answer = {} if to is None else _forwarded(client, to, event)
                    _show_webhook(event, answer, with_body=with_body, as_json=as_json)


def _event(settings: Settings, id_: int) -> EventDetail:
    with context.reader_of(settings) as known:
        event = known.event(id_)
    if event is None:
        raise BackhaulError(f"event {id_} is no longer in the database")
    return event


class _Arrived(msgspec.Struct, frozen=True):
    """An event in the list: it is forwarded once, so its state does not matter."""

    id: int
    source: str


def _forwarded(client: httpx.Client, to: str, event: EventDetail) -> dict[str, object]:
    """Send a webhook; return the receiver's status, or why there is none."""
    arrival = Arrival(
        event.store,
        event.source,
        event.topic,
        event.received_at,
        event.headers,
        event.body,
    )
    clock = SystemClock()
    began = clock.monotonic()
    answer: dict[str, object]
    try:
        answer = {"status": capture_files.forward(client, to, arrival)}
    except Unusable as error:
        answer = {"status": None, "error": str(error)}
    return answer | {"milliseconds": round((clock.monotonic() - began) * 1_000)}


def _show_webhook(
    event: EventDetail, answer: dict[str, object], *, with_body: bool, as_json: bool
) -> None:
    if as_json:
        shown = {name: getattr(event, name) for name in _SHOWN_OF_WEBHOOK}
        body = {"body": event.body} if with_body else {}
        output.json_line(shown | answer | body)
        return
    line = f"{event.received_at[11:19]}  {event.topic:<22}  event {event.id}"
    if error := answer.get("error"):
        line += f"  not forwarded: {error}"
    elif answer:
        line += f"  answered {answer['status']} in {answer['milliseconds']} ms"
    typer.echo(printable(line))
    if with_body:
        output.record([("body", event.body)])


_SHOWN_OF_WEBHOOK = ("id", "received_at", "store", "topic", "event_id", "object_id")


def _refuse_loop(settings: Settings, to: str) -> None:
    """Refuse to forward webhooks to the daemon that they came from."""
    live, _ = ask(settings)
    own = {settings.public.url, (live or {}).get("public_url")}
    for url in filter(None, own):
        if to.startswith(f"{url}/") or to == url:
            raise BackhaulError(
                f"{to} is this daemon's own address: it would receive each webhook"
                " again and again"
            )


def _address_of_daemon(settings: Settings, store: str | None) -> str:
    """Return the running daemon's address for a store's webhooks."""
    name = context.one_store(settings, store)
    try:
        live = Control(settings.state_dir).get("/api/status")
    except NoDaemon as error:
        raise BackhaulError(f"{error}. Or name another receiver with --to") from None
    return f"{live['public_url']}/webhooks/{name}"


def _file(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BackhaulError(f"{path}: cannot be read: {error.strerror}") from None


def eraser_of(customer_id: str, texts: Iterable[str]) -> CustomerEraser:
    """Return the eraser of a customer whose names and e-mails are these texts."""
    persons = [
        CustomerIdentity(email=t) if "@" in t else CustomerIdentity(name=t)
        for t in texts
    ]
    return CustomerEraser(customer_id, persons)


def redact_captures(folder: Path, store: str, eraser: CustomerEraser) -> list[Path]:
    """Rewrite every capture that mentions a store's customer; return their paths.

    A capture is replaced completely and durably, or not at all. A damaged or read-only
    capture stays as it is.
    """
    found = sorted(folder.rglob("*.jsonl"))
    return [path for path in found if _redact(path, store, eraser)]


def _redact(path: Path, store: str, eraser: CustomerEraser) -> bool:
    unfinished = path.with_name(f"{path.name}.new")
    try:
        head = capture_files.read_head(path)
        redacted = (
            _redacted_body(event, store, eraser) for event in capture_files.read(path)
        )
        if all(body is None for body in redacted):
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
        body = _redacted_body(event, store, eraser)
        yield event if body is None else event._replace(body=body)


def _redacted_body(event: Arrival, store: str, eraser: CustomerEraser) -> bytes | None:
    """Return the body without the customer; None if it does not mention them."""
    return eraser.body(event.topic, event.body) if event.store == store else None


def _sync(folder: Path) -> None:
    """Make a renamed file survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
