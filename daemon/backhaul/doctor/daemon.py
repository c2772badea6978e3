"""Checks the running daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from backhaul.app.control_socket import Control, NoDaemon
from backhaul.doctor.result import Result, fail, ok, warn
from backhaul.errors import BackhaulError
from backhaul.store.sqlite import examining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backhaul.settings import Settings

ASK_SECONDS = 5.0
WRITES = {
    "orders:write": {"fulfill", "cancel"},
    "inventory:write": {"adjust", "target"},
}


def ask(settings: Settings) -> tuple[dict[str, Any] | None, Result]:
    """Return what the daemon tells of itself, and what is to be said of it."""
    try:
        live = Control(settings.state_dir).get("/api/status", ASK_SECONDS)
    except NoDaemon:
        said = "does not run: no webhook was tried"
        return None, warn("daemon", said, "backhaul run, then doctor once more")
    except BackhaulError as error:
        fix = "look at its log; restart it"
        return None, fail("daemon", f"does not answer: {error}", fix)
    return live, ok("daemon", f"runs since {live['started_at']}")


def refused(settings: Settings, name: str) -> dict[str, int]:
    """Return how many deliveries the daemon refused lately, by kind; asks it again."""
    live, _ = ask(settings)
    found: dict[str, int] = (live or {}).get("refused", {}).get(name, {})
    return found


def look(live: dict[str, Any], name: str) -> Iterator[Result]:
    """Look at what a store's part of the daemon waits for."""
    store = live["stores"].get(name, {})
    stopped = store.get("stopped", {})
    for kind, reason in stopped.items():
        what = "do as it says, or mend what it names: then it goes on by itself"
        fix = f"{what}; {_scope_of(kind)}"
        yield fail("sending", f"{kind} waits: {reason}", fix, name)
    if pause := store.get("paused"):
        said = f"everything waits until {pause['until']}: {pause['reason']}"
        fix = "nothing has to be done: one request tries again then"
        yield warn("sending", said, fix, name)
    elif not stopped:
        yield ok("sending", "nothing is stopped", name)
    if said := live["subscriptions"].get(name):
        fix = "do as it says, or set [public] url so that the daemon subscribes"
        yield warn("subscription", said, fix, name)


def _scope_of(kind: str) -> str:
    scopes = [scope for scope, kinds in WRITES.items() if kind in kinds]
    return f"for a refused key, {scopes[0]}" if scopes else "backhaul status"


def writes(settings: Settings, name: str) -> Iterator[Result]:
    """Tell which scopes for writing were used already: none is tried for a look."""
    file = settings.database_file
    taken = examining.kinds_taken(file, name) if file.exists() else set()
    for scope, kinds in WRITES.items():
        if taken & kinds:
            yield ok("scope", f"{scope}: commands were carried out", name)
        else:
            said = (
                f"{scope}: not known before the first command; nothing is written now"
            )
            fix = "see in the platform's dashboard that the key has it"
            yield warn("scope", said, fix, name)


async def public_address(url: str, name: str) -> Result:
    """Ask our public address, from here, for what only its POST would do."""
    address = f"{url}/webhooks/{name}"
    try:
        async with httpx.AsyncClient(timeout=ASK_SECONDS) as client:
            answer = await client.get(address)
    except httpx.HTTPError as error:
        words = str(error) or type(error).__name__
        said = f"{address} cannot be reached from here: {words}"
        fix = "correct [public] url, DNS or the proxy, unless only outsiders reach it"
        return warn("public url", said, fix, name)
    if answer.status_code == 405 and "POST" in answer.headers.get("allow", ""):
        return ok("public url", f"{address} leads here", name)
    said = f"{address} is answered {answer.status_code} by something else"
    fix = "let the proxy hand /webhooks/ on to [public] host and port, path unchanged"
    return fail("public url", said, fix, name)
