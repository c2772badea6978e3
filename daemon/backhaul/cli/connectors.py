"""`backhaul connectors`: connections, their health and decisions."""

import asyncio
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
    explainer,
)
from backhaul.cli.daemon_client import change, who
from backhaul.cli.events import StateOption, print_list, require_known
from backhaul.connect import registry
from backhaul.connect.health import ConnectorFailed, guarded, read_notices
from backhaul.errors import BackhaulError
from backhaul.settings import Settings

connectors = typer.Typer(no_args_is_help=True, help="The back office's systems.")

NameArgument = Annotated[str, typer.Argument(help="The instance, as in the settings.")]


class Verb(StrEnum):
    """What can be done about a delivery."""

    RESEND = "resend"
    APPLIED = "applied"
    DROP = "drop"
    PARK = "park"


@connectors.command("list")
def list_connectors(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the instances, and how they are."""
    settings = context.settings(config)
    live = _live(settings)
    rows = [_listed(settings, name, live) for name in settings.connectors]
    columns = ("name", "type", "store", "state", "reason")
    print_list(rows, columns, "no connector is in the settings", as_json)


def _live(settings: Settings) -> dict[str, Any] | None:
    try:
        status = Control(settings.state_dir).get("/api/status")
    except NoDaemon:
        return None
    found: dict[str, Any] = status["connectors"]
    for name, news in status.get("news", {}).items():
        if not news["up"] and found.get(name, {}).get("up"):
            found[name] = {"up": False, "reason": f"news: {news['reason']}"}
    return found


def _listed(
    settings: Settings, name: str, live: dict[str, Any] | None
) -> dict[str, object]:
    own = settings.connectors[name]
    seen = (live or {}).get(name)
    if not own.enabled:
        state = "disabled"
    elif live is None:
        state = "no daemon runs"
    else:
        state = "up" if seen and seen["up"] else "down" if seen else "unknown"
    return {
        "name": name,
        "type": own.type,
        "store": own.store,
        "state": state,
        "reason": _reason(seen) if seen else None,
    }


def _reason(seen: dict[str, Any]) -> str | None:
    """Return why the instance is down, else the notices of its connector."""
    return seen["reason"] or "; ".join(seen.get("notices", ())) or None


@connectors.command("check")
def check(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Look, without side effects, whether an instance could work."""
    own = _known(context.settings(config), name)
    connector = registry.build(name, own.type, own.options)
    try:
        asyncio.run(_check(connector))
    except ConnectorFailed as error:
        raise BackhaulError(f"{name}: {error}") from None
    notices = read_notices(connector)
    if as_json:
        output.json({"name": name, "ok": True, "notices": notices})
        return
    typer.echo(f"{name}: ready to work")
    for notice in notices:
        typer.echo(f"{name}: {notice}")


async def _check(connector: Any) -> None:
    await guarded(connector.check())


@connectors.command("run")
def run(
    name: NameArgument, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Ask an instance for its records now, whatever its schedule says."""
    _known(context.settings(config), name)
    done = change(config, "connectors/run", {"name": name, "who": who()})
    if as_json:
        output.json(done)
        return
    counts = ", ".join(f"{n} {state}" for state, n in done["records"].items())
    typer.echo(f"{name}: {counts or 'nothing new'}")


@connectors.command("deliveries")
def deliveries(
    name: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
    config: ConfigOption = None,
    state: StateOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List what instances are told, the newest first."""
    with explainer(config) as known:
        rows = known.deliveries(name, state, limit)
        if name is not None and not rows:
            configured = context.settings(config).connectors
            require_known(name, [*configured, *known.instances()], "NAME")
    columns = ("seq", "at", "instance", "topic", "about", "state", "reason")
    print_list(rows, columns, "nothing was told", as_json)


@connectors.command("settle")
def settle(
    delivery: Annotated[int, typer.Argument(help="The delivery's number (seq).")],
    verb: Annotated[Verb, typer.Option("--as", help="What you decide.")],
    reason: ReasonOption,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Decide about a delivery that is parked: tell it again, or not.

    If it did arrive before, telling it again tells it twice.
    """
    asked = {"delivery": delivery, "verb": verb.value, "who": who(), "reason": reason}
    done = change(config, "connectors/settle", asked)
    if as_json:
        output.json(done)
    else:
        typer.echo(f"delivery {delivery} is {done['state']} now")


def _known(settings: Settings, name: str) -> Any:
    if name not in settings.connectors:
        known = ", ".join(settings.connectors) or "none"
        raise BackhaulError(f"no connector is called {name!r}; there are: {known}")
    return settings.connectors[name]
