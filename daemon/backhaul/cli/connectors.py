"""`backhaul connectors` and `records`: connections, their work and decisions."""

import asyncio
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from backhaul.app.control_socket import Control, NoDaemon
from backhaul.cli import context, output
from backhaul.cli.context import (
    ConfigOption,
    JsonOption,
    LimitOption,
    ReasonOption,
    StateOption,
    example,
    reader,
    reader_of,
    require_known,
)
from backhaul.cli.daemon_client import change, who
from backhaul.core.clock import from_text, to_text
from backhaul.errors import BackhaulError
from backhaul.settings import Settings
from backhaul.settings.values import duration_text
from backhaul.store.filters import Filter
from backhaul.store.shown_fields import fields

connectors = typer.Typer(
    no_args_is_help=True, help="Connections to the back office, and their deliveries."
)

NameArgument = Annotated[
    str, typer.Argument(help="Name of the connection in the configuration.")
]


class DeliveryDecision(StrEnum):
    """What an operator can decide about a parked delivery."""

    RESEND = "resend"
    APPLIED = "applied"
    DISCARD = "discard"
    PARK = "park"


@connectors.command("list")
def list_connectors(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the connections with their health."""
    settings = context.settings(config)
    live = _live(settings)
    rows = [_listed(settings, name, live) for name in settings.connectors]
    columns = ("connection", "type", "store", "state", "reason")
    output.print_list(rows, columns, "the configuration has no connection", as_json)
    if not as_json:
        for line in _notice_lines(rows):
            typer.echo(line)


def _live(settings: Settings) -> dict[str, Any] | None:
    try:
        status = Control(settings.state_dir).get("/api/status")
    except NoDaemon:
        return None
    found: dict[str, Any] = status["connectors"]
    for name, delivery in status.get("news", {}).items():
        if not delivery["up"] and found.get(name, {}).get("up"):
            found[name] = {"up": False, "reason": f"deliveries: {delivery['reason']}"}
    return found


def _listed(
    settings: Settings, name: str, live: dict[str, Any] | None
) -> dict[str, Any]:
    own = settings.connectors[name]
    seen = (live or {}).get(name)
    if not own.enabled:
        state = "disabled"
    elif live is None:
        state = "no daemon runs"
    else:
        state = "up" if seen and seen["up"] else "down" if seen else "unknown"
    return {
        "connection": name,
        "type": own.type,
        "store": own.store,
        "state": state,
        "reason": seen["reason"] if seen else None,
        "notices": list(seen.get("notices", ())) if seen else [],
    }


def _notice_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return one line for each notice of each connection."""
    return [
        f"{row['connection']}: {notice}" for row in rows for notice in row["notices"]
    ]


@connectors.command("check", epilog=example("connectors check erp"))
def check(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Test a connection; the test changes nothing."""
    settings = context.settings(config)
    _connector_settings(settings, name)
    # This loads the HTTP client, which no listing needs.
    from backhaul.app.store_actions import test_connection

    notices = asyncio.run(test_connection(settings, name))
    if as_json:
        output.json({"connection": name, "ok": True, "notices": notices})
        return
    typer.echo(f"{name}: ready")
    for notice in notices:
        typer.echo(f"{name}: {notice}")


@connectors.command("run", epilog=example("connectors run erp"))
def run(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Fetch a connection's records now, without waiting for its schedule."""
    _connector_settings(context.settings(config), name)
    done = change(config, "connectors/run", {"name": name, "who": who()})
    if as_json:
        output.json(done)
        return
    counts = ", ".join(f"{n} {state}" for state, n in done["records"].items())
    typer.echo(f"{name}: {counts or 'nothing new'}")


@connectors.command(
    "deliveries", epilog=example("connectors deliveries erp --state parked")
)
def deliveries(
    name: Annotated[
        str | None, typer.Argument(help="Show only this connection.")
    ] = None,
    config: ConfigOption = None,
    state: StateOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List deliveries of change notifications, newest first."""
    with reader(config) as known:
        rows = known.deliveries(Filter(connector=name, state=state), limit)
        if name is not None and not rows:
            configured = context.settings(config).connectors
            require_known(name, [*configured, *known.instances()], "NAME")
    columns = ("seq", "at", "connection", "topic", "about", "state", "reason")
    output.print_list(rows, columns, "no deliveries", as_json)


@connectors.command("settle", hidden=True)
@connectors.command(
    "resolve",
    epilog=example('connectors resolve 17 --as resend --reason "the ERP lacks it"'),
)
def resolve_delivery(
    delivery: Annotated[int, typer.Argument(help="The delivery's number (seq).")],
    decision: Annotated[
        DeliveryDecision,
        typer.Option(
            "--as",
            help="resend: send a parked or rejected delivery again. applied: mark a"
            " parked delivery as applied. discard: close a parked delivery."
            " park: stop a planned or uncertain delivery until you decide.",
        ),
    ],
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve a parked delivery, or park a delivery that is not finished.

    Caution: if the back office already received the delivery, `--as resend`
    sends it a second time.
    """
    asked = {
        "delivery": delivery,
        "verb": decision.value,
        "who": who(),
        "reason": reason,
    }
    done = change(config, "connectors/resolve", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"delivery {delivery} is {done['state']} now")


records = typer.Typer(
    no_args_is_help=True, help="Records that the back office submitted."
)


@records.command("waiting", epilog=example("records waiting"))
def list_waiting(
    config: ConfigOption = None, limit: LimitOption = 20, as_json: JsonOption = False
) -> None:
    """List the records that wait for their order or SKU, and why; oldest first.

    Backhaul tries these records again automatically. After the time in
    `connect.match_wait`, a record goes to quarantine.
    """
    settings = context.settings(config)
    with reader_of(settings) as known:
        waiting = known.waiting_records(limit + 1)
    wait = settings.connect.match_wait
    rows = [
        fields(each) | {"quarantine_at": _later(each.received_at, wait)}
        for each in waiting[:limit]
    ]
    columns = ("received_at", "connection", "kind", "locator", "reason")
    output.print_list(rows, columns, "no record waits", as_json)
    if as_json or not rows:
        return
    if len(waiting) > limit:
        output.note("and more; see --limit")
    output.note(
        "Backhaul tries these records again automatically. A record goes to quarantine"
        f" {duration_text(wait)} after it was received."
    )


def _later(at: str, seconds: float) -> str | None:
    """Return a time after another one; None if that cannot be read."""
    try:
        return to_text(from_text(at) + timedelta(seconds=seconds))
    except ValueError:
        return None


def _connector_settings(settings: Settings, name: str) -> Any:
    if name not in settings.connectors:
        known = ", ".join(settings.connectors) or "none"
        raise BackhaulError(
            f"no connection is called {name!r}; the connections are: {known}"
        )
    return settings.connectors[name]
