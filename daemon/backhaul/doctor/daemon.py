"""Checks the running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app.control_socket import Control, NoDaemon, NotAllowed
from backhaul.doctor import Result, fail, ok, warn
from backhaul.errors import BackhaulError
from backhaul.store import database_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.settings import Settings

ASK_SECONDS = 5.0
WRITES = {
    "orders:write": {"fulfill", "cancel"},
    "inventory:write": {"adjust", "target"},
}


def ask(settings: Settings) -> tuple[dict[str, Any] | None, Result]:
    """Return the daemon's status, if it runs, and the result of this check."""
    try:
        live = Control(settings.state_dir).get("/api/status", ASK_SECONDS)
    except NoDaemon:
        said = "does not run, so webhooks were not tested"
        return None, warn(
            "daemon", said, "start it with backhaul run, then run backhaul doctor again"
        )
    except NotAllowed as error:
        return None, fail("daemon", *str(error).split("; ", 1))
    except BackhaulError as error:
        fix = "read its log; restart it"
        return None, fail("daemon", f"does not answer: {error}", fix)
    standby = live.get("standby")
    return live, ok("daemon", standby or f"runs since {live['started_at']}")


def refused(settings: Settings, name: str) -> dict[str, int]:
    """Return how many deliveries the daemon refused in the last hour, by kind."""
    live, _ = ask(settings)
    found: dict[str, int] = (live or {}).get("refused", {}).get(name, {})
    return found


def check(live: dict[str, Any], name: str) -> Iterator[Result]:
    """Check what keeps a store's commands from being sent."""
    store = live["stores"].get(name, {})
    stopped = store.get("stopped", {})
    for kind, reason in stopped.items():
        what = (
            "if the reason names a time, wait; otherwise correct what it names. Sending"
            " then continues automatically"
        )
        fix = f"{what}; {_scope_of(kind)}"
        yield fail("sending", f"{kind} waits: {reason}", fix, name)
    if pause := store.get("paused"):
        said = f"all sending waits until {pause['until']}: {pause['reason']}"
        fix = "nothing to do: one request tries again then"
        yield warn("sending", said, fix, name)
    elif not stopped:
        yield ok("sending", "nothing is stopped", name)
    if said := live["subscriptions"].get(name):
        fix = "follow that message, or set [public] url so that the daemon subscribes"
        yield warn("subscription", said, fix, name)


def _scope_of(kind: str) -> str:
    scopes = [scope for scope, kinds in WRITES.items() if kind in kinds]
    return f"a refused key needs {scopes[0]}" if scopes else "see backhaul status"


def writes(settings: Settings, name: str) -> Iterator[Result]:
    """Check which write scopes commands have used; the check itself never writes."""
    opened = database_at(settings.place)
    taken = opened.applied_kinds(name) if opened.exists() else set()
    for scope, kinds in WRITES.items():
        if taken & kinds:
            yield ok("scope", f"{scope}: the platform has carried out commands", name)
        else:
            said = f"{scope}: unknown until the first command; doctor writes nothing"
            fix = "check in the platform's dashboard that the key has it"
            yield warn("scope", said, fix, name)


async def public_address(url: str, name: str) -> Result:
    """Check that the public address leads to this daemon, with a GET request."""
    address = f"{url}/webhooks/{name}"
    try:
        async with httpx.AsyncClient(timeout=ASK_SECONDS) as client:
            answer = await client.get(address)
    except httpx.HTTPError as error:
        words = str(error) or type(error).__name__
        said = f"{address} cannot be reached from here: {words}"
        fix = (
            "correct [public] url, DNS or the proxy, unless it works only from outside"
        )
        return warn("public url", said, fix, name)
    if answer.status_code == 405 and "POST" in answer.headers.get("allow", ""):
        return ok("public url", f"{address} leads to this daemon", name)
    said = f"{address} answers {answer.status_code}, which is not this daemon"
    fix = "let the proxy pass /webhooks/ to [public] host and port, path unchanged"
    return fail("public url", said, fix, name)
