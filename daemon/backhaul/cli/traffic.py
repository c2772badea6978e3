"""`backhaul capture`, `replay` and `trigger`: their options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from backhaul.cli import context
from backhaul.cli.context import ConfigOption, JsonOption, TimeOption
from backhaul.cli.secrets import SecretFileOption
from backhaul.errors import BackhaulError
from backhaul.store.sqlite.history import Wanted
from backhaul.traffic.network_faults import NetworkFaults

# What the commands do is in `playing`, which loads the store, the fold and the HTTP
# client: no other command should wait for these.

StoreOption = Annotated[str | None, typer.Option(help="Only this store.")]


class Kind(StrEnum):
    """How an event came in."""

    DELIVERY = "delivery"
    READ = "read"


Chance = Annotated[float, typer.Option(min=0, max=1)]


def capture(
    out: Annotated[Path, typer.Argument(help="The file to write; - is stdout.")],
    config: ConfigOption = None,
    store: StoreOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    kind: Annotated[
        Kind | None, typer.Option(help="Only delivery (webhooks) or read (by us).")
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
    as_json: JsonOption = False,
) -> None:
    """Write what came in to a file, byte for byte, beside a running daemon.

    TIME is as in 2026-03-01 or 2026-03-01T12:00Z; without a zone it is UTC. The file
    holds what the events hold, so people's addresses too; never a key or secret.
    """
    from backhaul.cli import traffic_commands  # see above

    if as_json and str(out) == "-":
        raise BackhaulError("--json does nothing beside -: a capture is JSON lines")
    wanted = Wanted(store, kind, topic, since, until, about)
    traffic_commands.capture(out, context.settings(config), wanted, as_json=as_json)


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
    from backhaul.cli import traffic_commands  # see above

    _refuse_idle(to, into=into, against=against, speed=speed, secret_file=secret_file)
    disorder = NetworkFaults(shuffle, duplicate, drop, until)
    if to is not None:
        traffic_commands.send(
            capture_file, disorder, to, secret_file, config, speed, as_json=as_json
        )
        return
    mirror = against or context.settings(config).database_file
    traffic_commands.compare(capture_file, disorder, into, mirror, as_json)


def _refuse_idle(to: str | None, **given: object) -> None:
    """Refuse what would do nothing, rather than play something else than was meant."""
    for name, value in given.items():
        is_for_sending = name in {"speed", "secret_file"}
        if value is not None and is_for_sending != (to is not None):
            option = f"--{name.replace('_', '-')}"
            mend = "give --to as well" if is_for_sending else "choose one of them"
            where = "without" if is_for_sending else "beside"
            raise BackhaulError(f"{option} does nothing {where} --to: {mend}")


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
    as_json: JsonOption = False,
) -> None:
    """Sign a sample event and send it to a receiver, as the platform would.

    A daemon takes it for real: its mirror then has a sample order, say, and hands it
    to connectors. Whether webhooks come through is told by `backhaul doctor`.
    """
    from backhaul.cli import traffic_commands  # see above

    traffic_commands.trigger(
        topic, config, store, to, secret_file, data, as_json=as_json
    )
