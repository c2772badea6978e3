"""`backhaul events refold`: fold stored events again."""

import asyncio
from typing import Annotated, Any

import httpx
import msgspec
import typer

from backhaul.app import SOCKET_NAME
from backhaul.cli import context, showing
from backhaul.cli.context import ConfigOption, JsonOption
from backhaul.core.clock import SystemClock, normalize
from backhaul.errors import BackhaulError, Busy
from backhaul.ingest.refolding import PATH, Refolder
from backhaul.reconcile.acquaintance import known_facts
from backhaul.settings import Settings
from backhaul.shop.client import StoreFacts
from backhaul.store.opening import open_store, sole_writer
from backhaul.store.refolds import Selection


def refold(
    ids: Annotated[
        list[int] | None, typer.Argument(help="Numbers of events.", show_default=False)
    ] = None,
    config: ConfigOption = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only this state: quarantined, …")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only what arrived since, RFC 3339.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every event that is kept.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fold stored events again: after an update, a mended setting, or to be sure.

    An event that was folded already changes nothing. One that can be folded now leaves
    quarantine.
    """
    selection = Selection(tuple(ids or ()), state, _moment(since))
    if everything == (selection != Selection()):
        raise typer.BadParameter("name events, --state or --since, or else say --all")
    states = _refold(context.settings(config), selection)
    if as_json:
        showing.json(states)
        return
    told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    typer.echo(f"folded again: {told or 'no event is like that'}")


def _moment(since: str | None) -> str | None:
    try:
        return since and normalize(since)
    except ValueError:
        problem = f"--since {since}: write a time as 2026-03-01T12:00:00Z"
        raise typer.BadParameter(problem) from None


def _refold(settings: Settings, selection: Selection) -> dict[str, int]:
    answer = _ask(settings, selection)
    if answer is None:
        with sole_writer(settings.state_dir):
            return asyncio.run(_alone(settings, selection))
    body: dict[str, Any] = answer.json()
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        raise Busy(body["error"])
    if answer.status_code != httpx.codes.OK:
        raise BackhaulError(f"the daemon refuses: {body['error']}")
    return body


def _ask(settings: Settings, selection: Selection) -> httpx.Response | None:
    """Have the running daemon do it; None where none runs."""
    socket = settings.state_dir / SOCKET_NAME
    if not socket.exists():
        return None
    transport = httpx.HTTPTransport(uds=str(socket))
    body = msgspec.json.encode(selection)
    try:
        # All of a large inbox takes long, and the daemon answers at the end.
        with httpx.Client(transport=transport, timeout=None) as client:  # noqa: S113 - see above
            return client.post(f"http://backhaul{PATH}", content=body)
    except httpx.ConnectError:
        return None
    except httpx.HTTPError as error:
        raise BackhaulError(
            f"the daemon went away meanwhile ({error}); say it again: folding an event "
            "twice changes nothing"
        ) from None


async def _alone(settings: Settings, selection: Selection) -> dict[str, int]:
    store = open_store(settings.database_file, SystemClock())
    store.start()
    try:
        facts = {
            name: await known_facts(name, store.marks) or StoreFacts()
            for name in settings.stores
        }
        refolder = Refolder(store.refolds, facts, lambda: None, lambda: None)
        return await refolder.refold(selection)
    finally:
        await store.stop()
