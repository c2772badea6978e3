"""`backhaul capture`, `replay` and `trigger`: their options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from backhaul.cli import context
from backhaul.cli.context import ConfigOption, JsonOption, SinceOption, UntilOption
from backhaul.cli.secrets import SecretFileOption
from backhaul.errors import BackhaulError
from backhaul.store.export_and_query import EventFilter
from backhaul.store.filters import Filter

# so these commands import it on use.

StoreOption = Annotated[str | None, typer.Option(help="Only this store's events.")]


class ArrivalKind(StrEnum):
    """How an event arrived."""

    DELIVERY = "delivery"
    READ = "read"


DuplicateOption = Annotated[
    float, typer.Option(min=0, max=1, help="Probability that an event is repeated.")
]
DropOption = Annotated[
    float, typer.Option(min=0, max=1, help="Probability that an event is left out.")
]


def capture(
    out: Annotated[
        Path, typer.Argument(help="File to write. Write - for standard output.")
    ],
    config: ConfigOption = None,
    store: StoreOption = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    kind: Annotated[
        ArrivalKind | None,
        typer.Option(
            help="Only webhooks (delivery), or only what Backhaul read from the"
            " platform (read)."
        ),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--object",
            help="Only events about this order number, product handle, SKU or"
            " customer.",
        ),
    ] = None,
    since: SinceOption = None,
    until: UntilOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write inbound events to a file, byte for byte.

    The daemon can run at the same time. The file contains personal data such as
    addresses, but no API key and no secret.
    """
    from backhaul.cli import capture_and_replay  # see above

    if as_json and str(out) == "-":
        raise BackhaulError(
            "--json has no effect if the output is standard output (-), because the"
            " capture itself goes there, as JSON lines; leave out --json"
        )
    selected = EventFilter(store, kind, topic, since, until, about)
    capture_and_replay.capture(out, context.settings(config), selected, as_json=as_json)


AgainstOption = Annotated[
    Path | None,
    typer.Option(
        "--against",
        help="Database to compare with. Default: the database of the configuration.",
    ),
]
ShuffleOption = Annotated[
    int | None,
    typer.Option(
        "--shuffle",
        metavar="SEED",
        help="Shuffle the events. The same SEED makes the same order.",
    ),
]


def replay(
    capture_file: Annotated[
        Path,
        typer.Argument(metavar="IN.JSONL", help="File that `backhaul capture` wrote."),
    ],
    config: ConfigOption = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="Keep the replayed mirror in this file, which must not exist yet."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Send the webhooks to this URL, with new signatures."),
    ] = None,
    against: AgainstOption = None,
    secret_file: SecretFileOption = None,
    shuffle: ShuffleOption = None,
    duplicate: DuplicateOption = 0.0,
    drop: DropOption = 0.0,
    until: UntilOption = None,
    speed: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Speed, only with --to: 1 keeps the original pauses, 2 halves the"
            " pauses. Default: no pauses.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay a capture: compare its result with the mirror, or send it to a URL.

    Without --to, Backhaul folds the events into a temporary mirror, and shows
    the differences between the temporary mirror and your mirror. With --to,
    Backhaul sends the webhooks to that URL.
    """
    from backhaul.cli import capture_and_replay  # see above
    from backhaul.traffic.capture_files import NetworkFaults

    _refuse_unused(to, into=into, against=against, speed=speed, secret_file=secret_file)
    disorder = NetworkFaults(shuffle, duplicate, drop, until)
    if to is not None:
        capture_and_replay.send(
            capture_file, disorder, to, secret_file, config, speed, as_json=as_json
        )
        return
    mirror = against or context.settings(config).place
    capture_and_replay.compare(capture_file, disorder, into, mirror, as_json)


def listen(
    config: ConfigOption = None,
    forward_to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send each webhook to this URL too, with its original body, headers"
            " and signature.",
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic.")] = None,
    with_body: Annotated[
        bool, typer.Option("--body", help="Show the body of each webhook.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the webhooks that the daemon receives, until Ctrl-C.

    With --forward-to, also send each webhook to your own program. Your program
    checks the signature with the store's webhook secret. A webhook that your
    program does not accept is not sent again.
    """
    from backhaul.cli import capture_and_replay  # see above

    capture_and_replay.listen(
        context.settings(config),
        Filter(topic=topic),
        forward_to,
        with_body=with_body,
        as_json=as_json,
    )


def _refuse_unused(to: str | None, **given: object) -> None:
    """Refuse an option that has no effect with or without `--to`."""
    for name, value in given.items():
        is_for_sending = name in {"speed", "secret_file"}
        if value is not None and is_for_sending != (to is not None):
            option = f"--{name.replace('_', '-')}"
            fix = "give --to as well" if is_for_sending else "choose one of them"
            where = "without" if is_for_sending else "with"
            raise BackhaulError(f"{option} has no effect {where} --to: {fix}")


def trigger(
    topic: Annotated[str, typer.Argument(help="The topic, such as orders/create.")],
    config: ConfigOption = None,
    store: Annotated[
        str | None,
        typer.Option(
            help=(
                "The store to which the event belongs. Required if the"
                " configuration has several stores."
            )
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="URL of a receiver. Default: the running daemon.")
    ] = None,
    secret_file: SecretFileOption = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="File with the body to send. Write - for standard input."
            " Default: a sample."
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Send the sample to the running daemon although the store is not a"
            " test store.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a signed sample event to a receiver, as the platform would.

    Without --to, the running daemon receives the sample and treats it as a real
    event. The sample order then appears in the mirror, and connectors receive
    it. So the store must be a test store (`test_store = true` in the settings).
    To test whether webhooks arrive, use `backhaul doctor` instead.
    """
    from backhaul.cli import capture_and_replay  # see above

    if live and to is not None:
        raise BackhaulError(
            "--live has no effect with --to: it is about the running daemon"
        )
    if to is None and not live:
        capture_and_replay.require_test_store(context.settings(config), store, topic)
    capture_and_replay.trigger(
        topic, config, store, to, secret_file, data, as_json=as_json
    )
