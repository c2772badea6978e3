"""`backhaul capture`, `replay` and `trigger`: traffic as files, and sent again."""

import asyncio
import os
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from backhaul.app import SOCKET_NAME
from backhaul.cli import context, showing, writing_out
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.cli.status import ask
from backhaul.core.clock import SystemClock, normalize, to_text
from backhaul.errors import BackhaulError, Unusable
from backhaul.ingest.known_stores import fold_for
from backhaul.reconcile.keyring import Keyring
from backhaul.settings import Settings
from backhaul.settings.secret_files import Unreadable, read_secret_file
from backhaul.shop.client import StoreFacts
from backhaul.store.contract import Arrival
from backhaul.store.sqlite.differences import Difference, differences
from backhaul.store.sqlite.history import History, Wanted
from backhaul.traffic import captures, replaying, samples
from backhaul.traffic.disorder import Disorder
from backhaul.traffic.replaying import Receiving

SECRET_VARIABLE = "BACKHAUL_WEBHOOK_SECRET"  # noqa: S105 - a name
MOST_DIFFERENCES = 200

StoreOption = Annotated[str | None, typer.Option(help="Only this store.")]
TimeOption = Annotated[str | None, typer.Option(metavar="TIME")]
Chance = Annotated[float, typer.Option(min=0, max=1)]
SecretFileOption = Annotated[
    Path | None,
    typer.Option(
        help=f"File with the secret to sign with; else ${SECRET_VARIABLE}, else the "
        "store's first of the settings."
    ),
]


def capture(
    out: Annotated[Path, typer.Argument(help="The file to write; - is stdout.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only delivery (webhooks) or read (by us).")
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--object",
            help="Only about this order (1001), product (handle), SKU or customer.",
        ),
    ] = None,
    since: TimeOption = None,
    until: TimeOption = None,
) -> None:
    """Write what came in to a file, byte for byte, beside a running daemon.

    TIME is as in 2026-03-01 or 2026-03-01T12:00Z; without a zone it is UTC. The file
    holds what the events hold, so people's addresses too; never a key or secret.
    """
    wanted = Wanted(store, kind, topic, _time(since), _time(until), about)
    with closing(History(context.settings(config).database_file)) as history:
        facts = {
            name: msgspec.json.decode(text, type=StoreFacts)
            for name, text in history.facts().items()
        }
        now = to_text(SystemClock().now())
        head = captures.Head(captures.FORMAT, now, facts)
        with writing_out.output(None if str(out) == "-" else out) as stream:
            count = captures.write(head, history.arrivals(wanted), stream)
    if str(out) != "-":
        typer.echo(f"{count} events in {out}")


def replay(
    capture_file: Annotated[Path, typer.Argument(metavar="IN.JSONL")],
    config: ConfigOption = None,
    into: Annotated[
        Path | None, typer.Option(help="A new database for the replay; kept.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Send the deliveries to this address, signed anew."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Database to compare with; else that of the settings."),
    ] = None,
    secret_file: SecretFileOption = None,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", help="In an order of chance.")
    ] = None,
    duplicate: Chance = 0.0,
    drop: Chance = 0.0,
    until: TimeOption = None,
    speed: Annotated[
        float | None,
        typer.Option(min=0.001, help="With --to: 1 keeps the pauses, 2 halves them."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play a capture into a mirror of its own and print how it differs, or send it."""
    if into is not None and to is not None:
        raise BackhaulError("choose one of --into and --to")
    head = captures.read_head(capture_file)
    disorder = Disorder(shuffle, duplicate, drop, _time(until))
    run = disorder.apply(captures.read(capture_file))
    if to is not None:
        _send(run, _receiving(config, to, secret_file, head), speed, as_json)
        return
    mirror = against or context.settings(config).database_file
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


def trigger(
    topic: Annotated[str, typer.Argument(help="Such as orders/create.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    to: Annotated[
        str | None, typer.Option(help="Address of a receiver; else the daemon's.")
    ] = None,
    secret_file: SecretFileOption = None,
    data: Annotated[
        Path | None, typer.Option(help="File with the body to send as it is.")
    ] = None,
) -> None:
    """Sign a sample event and send it to a receiver, as the platform would.

    The daemon takes it for real: its mirror then has a sample order, say.
    """
    if data is None and topic not in samples.SAMPLES:
        known = ", ".join(samples.SAMPLES)
        raise BackhaulError(f"no sample of {topic!r}; there are {known}, or use --data")
    now = SystemClock().now()
    name = _store(config, store) if to is None or secret_file is None else ""
    body = samples.event(topic, StoreFacts(), now) if data is None else _file(data)
    address = to or f"{_public_url(context.settings(config))}/webhooks/{name}"
    receiving = Receiving(address, _secret(config, name, secret_file))
    arrival = Arrival(name, "delivery", topic, to_text(now), b"{}", body)
    (status,) = asyncio.run(replaying.replay_to(receiving, [arrival], SystemClock()))
    typer.echo(f"{topic} to {address}: {status}")
    if status != 200:
        raise BackhaulError(f"the receiver answered {status}")


def _send(
    run: list[Arrival], receiving: Receiving, speed: float | None, as_json: bool
) -> None:
    answers = asyncio.run(replaying.replay_to(receiving, run, SystemClock(), speed))
    reads = sum(arrival.kind != "delivery" for arrival in run)
    if as_json:
        showing.json({"answers": answers, "reads_left_out": reads})
    else:
        told = ", ".join(
            f"{count} answered {status}" for status, count in answers.items()
        )
        showing.record([("deliveries", told or "none"), ("reads left out", reads)])
    if set(answers) - {200}:
        raise BackhaulError("not every delivery was taken")


def _receiving(
    config: Path | None, to: str, secret_file: Path | None, head: captures.Head
) -> Receiving:
    if secret_file is not None or os.environ.get(SECRET_VARIABLE):
        return Receiving(to, _secret(config, "", secret_file))
    configured = context.settings(config).stores
    named = to.rstrip("/").split("/webhooks/")[-1].split("/")[0]
    found = {named, *head.stores} & {*configured}
    name = (
        named
        if named in found
        else _store(config, found.pop() if len(found) == 1 else None)
    )
    return Receiving(to, _secret(config, name, None))


def _store(config: Path | None, store: str | None) -> str:
    stores = context.settings(config).stores
    if store is None and len(stores) == 1:
        return next(iter(stores))
    if store not in stores:
        known = ", ".join(stores)
        raise BackhaulError(f"say which store with --store; there are {known}")
    return store


def _secret(config: Path | None, store: str, secret_file: Path | None) -> bytes:
    if secret_file is not None:
        try:
            return read_secret_file(secret_file, private=False).strip().encode()
        except Unreadable as error:
            raise BackhaulError(str(error)) from None
    if secret := os.environ.get(SECRET_VARIABLE):
        return secret.encode()
    settings = context.settings(config)
    configured = settings.stores[store].webhook_secrets
    if configured:
        return configured[0].get_secret_value().encode()
    given = Keyring(settings.state_dir, store, lambda _: None).secrets()
    if not given:
        raise BackhaulError(
            f"store {store} has no webhook secret yet; say --secret-file, or see:"
            " backhaul status"
        )
    return given[0]


def _public_url(settings: Settings) -> str:
    live = ask(settings)
    if live is None:
        raise BackhaulError(
            f"no daemon answers at {settings.state_dir / SOCKET_NAME}; start it, or say"
            " --to"
        )
    return str(live["public_url"])


def _file(path: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise BackhaulError(f"{path}: cannot be read: {error.strerror}") from None


def _time(text: str | None) -> str | None:
    try:
        return None if text is None else normalize(text)
    except ValueError:
        raise Unusable(
            f"{text!r} is not a time such as 2026-03-01 or 2026-03-01T12:00Z"
        ) from None
